/** What the paper of a policy claims, claim by claim, and what became of each here. */
import type { Row } from './evaluate.ts';
import type { NamedClaim } from './load.ts';
import type { NotShown } from './not-shown.ts';

/** Every claim that a simulated device can reproduce, by the numbers of the paper's sections and figures. */
const REPRODUCIBLE: Readonly<Record<string, string>> = {
  perf: `2.2-fig1a 2.2-fig1b-below-mtu 2.2-fig1b-above-mtu 2.2-fig1c 2.2-rules 2.3.1-fig2a 2.3.1-fig2b 2.3.1-m-vs-d
    2.3.2-fig3a 2.3.2-bmulti-vs-md 2.3.2-capacity 2.3.2-fig3b 2.3.2-fig3c 3.4-small-impact 1-headline
    3.3-params-classifier 4.1-params-lmse 4.2-params-mqse 4.4-scal 5.1-table1 5.1-justitia-cfg 5.2.1-fig7a
    5.2.1-fig7b-sp 5.2.1-fig7b-ets 5.2.1-ets-d 5.2.2-fig8a-rdma 5.2.2-fig8a-justitia 5.2.2-fig8b-justitia
    5.2.2-fig8-justitiaR 5.2.2-fig8-perf 5.2.3-fig9abc 5.2.3-fig9d-justitia 5.2.3-fig9ef 5.2.3-fig10c
    5.2.3-fig10def 5.2.5-fig12a 5.2.5-fig12b 5.2.5-fig13a 5.3-fig16a-crail 5.3-fig16a-others 5.3-fig16b A-fig17a
    A-fig17b B-fig18a D-limits`,
};

/** Their names, as the sources of claims have them. */
export function reproducibleOf(system: string): string[] {
  const ids = REPRODUCIBLE[system]?.split(/\s+/) ?? [];
  return ids.map((id) => `${system}-${id}`);
}

/** The names of a paper's claims in the source of one of ours. */
export function namedIn({ source }: { readonly source: string }): string[] {
  return source.match(/\b[a-z]+-[\w.-]*\w/g) ?? [];
}

export interface PaperClaim {
  id: string;
  /** `missing`: no claim names it, and nothing says why. */
  verdict: 'holds' | 'fails' | 'reported' | 'waiting' | 'never' | 'missing';
  /** The claims that show it, or why none does. */
  by: string;
}

/** A claim holds when every line of every claim here that names it does. */
export function paperClaims(
  system: string,
  claims: readonly NamedClaim[],
  rows: readonly Row[],
  notShown: readonly NotShown[],
): PaperClaim[] {
  return reproducibleOf(system).map((id) => {
    const showing = claims.filter((claim) => namedIn(claim).includes(id)).map((claim) => claim.id);
    if (showing.length === 0) {
      const known = notShown.find(({ ids }) => ids.includes(id));
      return { id, verdict: known?.why ?? 'missing', by: known?.reason ?? '' };
    }
    const verdicts = rows.filter(({ claim }) => showing.includes(claim)).map(({ verdict }) => verdict);
    const verdict = (['fails', 'holds', 'reported'] as const).find((one) => verdicts.includes(one));
    return { id, verdict: verdict ?? 'missing', by: showing.join(', ') };
  });
}
