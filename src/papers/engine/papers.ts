/** What became of each claim of each paper here. A further paper, or the policy of one, is its entry in PAPERS. */

import { DRUM } from '../drum/paper.ts';
import { JUSTITIA } from '../justitia/paper.ts';
import { PALOS } from '../palos/paper.ts';
import { PERF } from '../perf/paper.ts';
import { TASSEL } from '../tassel/paper.ts';
import type { Row, Verdict } from './evaluate-claim.ts';
import type { NamedClaim } from './load-claims.ts';
import type { NotShown, Paper } from './paper.ts';

export const PAPERS: readonly Paper[] = Object.freeze([PERF, JUSTITIA, PALOS, DRUM, TASSEL]);

/** Claims and runs without any policy: the system that every paper says something of. */
export const BARE = 'bare';

/** Names of the paper's claims that belong to a system, as the sources of claims here have them. */
function idsOf(paper: Paper, system: string): readonly string[] {
  if (system === BARE) return paper.bare;
  return system === paper.key && paper.policy !== undefined ? [...paper.bare, ...paper.policy.ids] : [];
}

/** The same of all papers. */
export function reproducibleOf(system: string): string[] {
  return PAPERS.flatMap((paper) => idsOf(paper, system));
}

/** What is said of these systems and no claim here shows. */
export function notShownOf(systems: readonly string[]): NotShown[] {
  const bare = new Set(reproducibleOf(BARE));
  return PAPERS.flatMap(({ key, notShown }) =>
    notShown.filter(
      ({ ids }) => systems.includes(key) || (systems.includes(BARE) && ids.some((id) => bare.has(id))),
    ),
  );
}

/** The names of a paper's claims in the source of one of ours. */
export function namedIn({ source }: { readonly source: string }): string[] {
  return source.match(/\b[a-z]+-[\w.-]*\w/g) ?? [];
}

export interface PaperClaim {
  /** Name of the paper. */
  paper: string;
  id: string;
  /** `missing`: no claim names it, and nothing says why. */
  verdict: Verdict | NotShown['why'] | 'missing';
  /** Lines of the claims that show it, by what became of them. */
  lines: Readonly<Record<Verdict, number>>;
  /** The claims that show it, or why none does. */
  by: string;
}

/** A claim holds when every line of every claim here that names it does, but for those that only report. */
function paperClaim(
  paper: Paper,
  id: string,
  claims: readonly NamedClaim[],
  rows: readonly Row[],
): PaperClaim {
  const showing = claims.filter((claim) => namedIn(claim).includes(id));
  const its = rows.filter((row) => showing.some((one) => one.id === row.claim && one.system === row.system));
  const count = (verdict: Verdict) => its.filter((row) => row.verdict === verdict).length;
  const lines = { holds: count('holds'), fails: count('fails'), reported: count('reported') };
  const known = paper.notShown.find(({ ids }) => ids.includes(id));
  const shown = (['fails', 'holds', 'reported'] as const).find((verdict) => lines[verdict] > 0);
  const by = showing.length > 0 ? showing.map((claim) => claim.id).join(', ') : (known?.reason ?? '');
  return { paper: paper.name, id, verdict: shown ?? known?.why ?? 'missing', lines, by };
}

/** Everything that papers say of these systems, paper by paper. */
export function paperClaims(
  systems: readonly string[],
  claims: readonly NamedClaim[],
  rows: readonly Row[],
): PaperClaim[] {
  return PAPERS.flatMap((paper) => {
    const ids = new Set(systems.flatMap((system) => idsOf(paper, system)));
    return [...ids].map((id) => paperClaim(paper, id, claims, rows));
  });
}
