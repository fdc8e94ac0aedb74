/** Selects claims. */
import { ConfigError } from '../../verbs/errors.ts';
import type { Claim } from './claim.ts';
import { ALL_CLAIMS, BARE, BARE_PART, reproducibleOf, SYSTEMS } from './papers.ts';

/**
 * All claims about a system, in the order of the report. Claims about a policy include what its paper says about the
 * bare device, with `bare/` before the id.
 * @throws ConfigError for an unknown system
 */
export function claimsAbout(system: string): Claim[] {
  if (!SYSTEMS.includes(system)) {
    throw new ConfigError(`unknown system '${system}'; choose from: ${SYSTEMS.join(', ')}`);
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

/** Claims with these ids, or all claims if there are no ids. @throws ConfigError for an unknown id */
export function selectClaims(claims: readonly Claim[], ids: readonly string[]): Claim[] {
  for (const id of ids) {
    if (claims.some((claim) => claim.id === id)) continue;
    throw new ConfigError(
      `unknown claim '${id}'; choose from: ${claims.map((claim) => claim.id).join(', ')}`,
    );
  }
  return claims.filter((claim) => ids.length === 0 || ids.includes(claim.id));
}
