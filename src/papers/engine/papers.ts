/**
 * All papers, and all systems that claims are about. A further paper is an entry of PAPERS, and a further system without
 * a paper is an entry of OWN_SYSTEMS.
 */

import { ConfigError } from '../../verbs/errors.ts';
import { didYouMean, didYouMeanNearest } from '../../verbs/suggestions.ts';
import { DRUM } from '../drum/paper.ts';
import { FAIR } from '../fair/system.ts';
import { JUSTITIA } from '../justitia/paper.ts';
import * as otherSources from '../other-sources/claims-bare.ts';
import { PALOS } from '../palos/paper.ts';
import { PERF } from '../perf/paper.ts';
import { TASSEL } from '../tassel/paper.ts';
import type { Claim } from './claim.ts';
import type { NotShown, OwnSystem, Paper } from './paper.ts';

export const PAPERS: readonly Paper[] = Object.freeze([PERF, JUSTITIA, PALOS, DRUM, TASSEL]);

/** Systems that rest on goals of this project instead of a paper. */
export const OWN_SYSTEMS: readonly OwnSystem[] = Object.freeze([FAIR]);

/** The claims about all systems. */
export const ALL_CLAIMS: readonly Claim[] = [
  ...[...PAPERS, ...OWN_SYSTEMS].flatMap(({ claims }) => claims),
  ...otherSources.CLAIMS,
];

/** The device without any policy: the system about which every paper makes claims. */
export const BARE = 'bare';

/** The chapter about the bare device in the report about a policy. */
export const BARE_PART = 9;

/** Chapters of the report, by system. */
export const PARTS: Readonly<Record<string, Readonly<Record<number, string>>>> = Object.freeze({
  [BARE]: Object.freeze({
    1: 'Shares follow from the packet round',
    2: 'Rates and latencies of the devices',
    3: 'The message size of background traffic',
    4: 'Bandwidth applications with different message sizes',
    5: 'Many queue pairs, large batches',
    6: 'READ against WRITE; small messages among themselves',
    7: 'A greedy device',
    8: 'Hardware priorities',
    9: 'Many senders, one receiver',
    10: 'Further claims about bare devices',
  }),
  ...Object.fromEntries(
    PAPERS.flatMap(({ key, policy }) =>
      policy === undefined
        ? []
        : [[key, { ...policy.parts, [BARE_PART]: 'What the paper says about the bare device' }]],
    ),
  ),
  ...Object.fromEntries(OWN_SYSTEMS.map(({ key, parts }) => [key, parts])),
});

/** The bare device, each policy of a paper, and the systems of this project. */
export const SYSTEMS: readonly string[] = Object.keys(PARTS);

/** The papers with these keys. @throws ConfigError for an unknown key */
export function selectPapers(keys: readonly string[]): Paper[] {
  const known = PAPERS.map(({ key }) => key);
  return keys.map((key) => {
    const paper = PAPERS.find((one) => one.key === key);
    if (paper !== undefined) return paper;
    throw new ConfigError(
      `unknown paper '${key}'; ${didYouMean(key, known)}choose from: ${known.join(', ')}`,
    );
  });
}

/** Ids of the paper's claims that belong to a system. */
export function idsAbout(paper: Paper, system: string): readonly string[] {
  if (system === BARE) return paper.bare;
  return system === paper.key && paper.policy !== undefined ? [...paper.bare, ...paper.policy.ids] : [];
}

/** The same for all papers. */
export function reproducibleOf(system: string): string[] {
  return PAPERS.flatMap((paper) => idsAbout(paper, system));
}

/** Paper claims about these systems that no claim here shows. */
export function notShownOf(systems: readonly string[]): NotShown[] {
  const bare = new Set(reproducibleOf(BARE));
  return PAPERS.flatMap(({ key, notShown }) =>
    notShown.filter(
      ({ ids }) => systems.includes(key) || (systems.includes(BARE) && ids.some((id) => bare.has(id))),
    ),
  );
}

/**
 * All claims about a system, in the order of the report. Claims about a policy include its paper's claims about the
 * bare device, with `bare/` before the id.
 * @throws ConfigError for an unknown system
 */
export function claimsAbout(system: string): Claim[] {
  if (!SYSTEMS.includes(system)) {
    throw new ConfigError(
      `unknown system '${system}'; ${didYouMean(system, SYSTEMS)}choose from: ${SYSTEMS.join(', ')}`,
    );
  }
  const own = ALL_CLAIMS.filter((claim) => claim.system === system);
  const claims = system === BARE ? own : [...own, ...bareClaimsFor(system)];
  return claims.sort((a, b) => a.part - b.part || (a.id < b.id ? -1 : 1));
}

/** The bare device's claims that the paper of a policy makes. The short set of the bare device runs on its own. */
function bareClaimsFor(system: string): Claim[] {
  const ids = reproducibleOf(system);
  return ALL_CLAIMS.filter(
    (claim) => claim.system === BARE && claim.shows.some((id) => ids.includes(id)),
  ).map((claim) => ({ ...claim, system, part: BARE_PART, id: `${BARE}/${claim.id}`, smoke: false }));
}

/**
 * Claims with these ids, and those that show a paper's claim with one of these ids; all claims if there are no ids.
 * @throws ConfigError for an unknown id, and for a paper's claim that none of these claims shows
 */
export function selectClaims(claims: readonly Claim[], ids: readonly string[]): Claim[] {
  const own = [...new Set(claims.map(({ id }) => id))];
  const known = new Set([...own, ...claims.flatMap(({ shows }) => shows)]);
  for (const id of ids) {
    if (known.has(id)) continue;
    requireShown(id);
    const question = didYouMeanNearest(id, [...known]);
    throw new ConfigError(
      `unknown claim '${id}'; ${question}choose from: ${own.join(', ')}, or the id of a paper's claim, such as perf-2.3.1-fig2a`,
    );
  }
  return claims.filter(
    ({ id, shows }) => ids.length === 0 || ids.includes(id) || shows.some((one) => ids.includes(one)),
  );
}

/** @throws ConfigError for the id of a paper's claim that nothing shows, or only claims about another system */
function requireShown(id: string): void {
  const { reason } = PAPERS.flatMap(({ notShown }) => notShown).find(({ ids }) => ids.includes(id)) ?? {};
  if (reason !== undefined) throw new ConfigError(`claim '${id}' cannot be checked: ${reason}`);
  const systems = new Set(
    ALL_CLAIMS.flatMap(({ id: own, system, shows }) => (own === id || shows.includes(id) ? [system] : [])),
  );
  if (systems.size === 0) return;
  throw new ConfigError(
    `claim '${id}' is not about the systems or papers that were named; use --system ${[...systems].join(' or --system ')}`,
  );
}
