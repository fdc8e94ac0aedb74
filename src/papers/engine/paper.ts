/** A paper: its claims, by the numbers of its sections and figures, and how they are shown here. */
import type { Claim, Form } from './claim.ts';
import type { Row } from './evaluate-claim.ts';
import type { CurveFigure, Figure } from './figure.ts';

/** Paper claims that no claim here shows, with the reason. They never count as held. */
export interface NotShown {
  /** Ids of paper claims, or names of figures. */
  ids: readonly string[];
  title: string;
  /** `waiting`: the claim requires something that is not implemented yet. `never`: no model of a device can show it. */
  why: 'waiting' | 'never';
  reason: string;
}

/** How to cite a paper. */
export interface Citation {
  title: string;
  authors: string;
  /** Where and when it was published; absent if the paper does not say. */
  venue?: string;
  doi?: string;
  /** An address of the paper, for papers without a DOI. */
  url?: string;
}

/** What a paper says, by id of the claim: the section or figure, and the statement in our words. */
export type Statements = Readonly<Record<string, { readonly where: string; readonly says: string }>>;

export interface Paper {
  /** Prefix of its claims' ids and of its figures' names; the name of its policy as a system. */
  key: string;
  /** Name in reports. */
  name: string;
  cited: Citation;
  /** Of all its claims, including those that are not shown. */
  statements: Statements;
  /** Ids of all its claims about bare devices. */
  bare: readonly string[];
  /** Absent while its policy is not implemented. */
  policy?: {
    /** Ids of those claims about its policy that a simulated device can show. */
    ids: readonly string[];
    /** Chapters of the report about the paper. */
    parts: Readonly<Record<number, string>>;
    /** The form in which the paper describes the system, if it has several. */
    form?: Form;
  };
  notShown: readonly NotShown[];
  /** Claims that show the paper's claims. */
  claims: readonly Claim[];
  figures: readonly (Figure | CurveFigure)[];
}

/** A system of this project, with the project's goals as its claims. Its claims show no claims of papers. */
export interface OwnSystem {
  /** Name as a system. */
  key: string;
  /** Chapters of the report about it. */
  parts: Readonly<Record<number, string>>;
  claims: readonly Claim[];
}

/** `key-number` for each number in `text`. */
export function idsOf(key: string, text: string): string[] {
  return text
    .trim()
    .split(/\s+/)
    .map((number) => `${key}-${number}`);
}

/** Whether a line decides a claim of the paper, which says nothing about other forms of its system than its own. */
export function countsFor({ policy }: Paper, { form }: Pick<Row, 'form'>): boolean {
  return form === undefined || policy?.form === undefined || form === policy.form;
}
