/** What a paper claims, claim by claim, by the numbers of its sections and figures. */

/** Claims that no claim here shows, with the reason. None of it counts as held. */
export interface NotShown {
  /** Names as in the sources of claims. */
  ids: readonly string[];
  title: string;
  /** `waiting`: for something that is not here yet. `never`: no model of a device can show it. */
  why: 'waiting' | 'never';
  reason: string;
}

export interface Paper {
  /** Names of its claims begin so; the folder of claims about its policy, if there is one. */
  key: string;
  /** As people call it. */
  name: string;
  /** All it says of bare devices. */
  bare: readonly string[];
  /** What it says of its own policy that a simulated device can show; without it there is no such system yet. */
  policy?: {
    ids: readonly string[];
    /** Chapters of the report about it. */
    parts: Readonly<Record<number, string>>;
  };
  notShown: readonly NotShown[];
}

/** `key-number` for each of the numbers in `text`. */
export function idsOf(key: string, text: string): string[] {
  return text
    .trim()
    .split(/\s+/)
    .map((number) => `${key}-${number}`);
}
