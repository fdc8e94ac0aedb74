/** A paper: what it claims, by the numbers of its sections and figures, and what shows it here. */
import type { Claim } from './claim.ts';
import type { Figure } from './figure.ts';

/** Paper claims that no claim here shows, with the reason. They never count as held. */
export interface NotShown {
  /** Ids of paper claims, or names of figures. */
  ids: readonly string[];
  title: string;
  /** `waiting`: it needs something that is not implemented yet. `never`: no model of a device can show it. */
  why: 'waiting' | 'never';
  reason: string;
}

export interface Paper {
  /** Prefix of its claims' ids and of its figures' names; the name of its policy as a system. */
  key: string;
  /** Name in reports. */
  name: string;
  /** Ids of everything that it says about bare devices. */
  bare: readonly string[];
  /** Absent while its policy is not implemented. */
  policy?: {
    /** Ids of what it says about its policy that a simulated device can show. */
    ids: readonly string[];
    /** Chapters of the report about it. */
    parts: Readonly<Record<number, string>>;
  };
  notShown: readonly NotShown[];
  /** Claims that show what the paper says. */
  claims: readonly Claim[];
  figures: readonly Figure[];
}

/** `key-number` for each number in `text`. */
export function idsOf(key: string, text: string): string[] {
  return text
    .trim()
    .split(/\s+/)
    .map((number) => `${key}-${number}`);
}
