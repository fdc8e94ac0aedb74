/** What became of each claim of each paper. */
import type { Claim } from './claim.ts';
import type { Row, Verdict } from './evaluate-claim.ts';
import type { NotShown, Paper } from './paper.ts';
import { idsAbout, PAPERS } from './papers.ts';

export interface PaperClaim {
  /** Name of the paper. */
  paper: string;
  id: string;
  /** `missing`: no claim shows it, and no reason is given. */
  verdict: Verdict | NotShown['why'] | 'missing';
  /** Lines of the claims that show it, by verdict. */
  lines: Readonly<Record<Verdict, number>>;
  /** The claims that show it, or why none does. */
  by: string;
}

/** A paper claim holds when every line of every claim that shows it holds; reported lines do not count. */
function paperClaim(paper: Paper, id: string, claims: readonly Claim[], rows: readonly Row[]): PaperClaim {
  const showing = claims.filter((claim) => claim.shows.includes(id));
  const its = rows.filter((row) => showing.some((one) => one.id === row.claim && one.system === row.system));
  const count = (verdict: Verdict) => its.filter((row) => row.verdict === verdict).length;
  const lines = { holds: count('holds'), fails: count('fails'), reported: count('reported') };
  const known = paper.notShown.find(({ ids }) => ids.includes(id));
  const shown = (['fails', 'holds', 'reported'] as const).find((verdict) => lines[verdict] > 0);
  const by = showing.length > 0 ? showing.map((claim) => claim.id).join(', ') : (known?.reason ?? '');
  return { paper: paper.name, id, verdict: shown ?? known?.why ?? 'missing', lines, by };
}

/** Verdicts on everything that papers say about these systems, paper by paper. */
export function paperClaims(
  systems: readonly string[],
  claims: readonly Claim[],
  rows: readonly Row[],
): PaperClaim[] {
  return PAPERS.flatMap((paper) => {
    const ids = new Set(systems.flatMap((system) => idsAbout(paper, system)));
    return [...ids].map((id) => paperClaim(paper, id, claims, rows));
  });
}
