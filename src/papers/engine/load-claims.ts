/** The claims of a folder. To add one is to add a file. */
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { ConfigError } from '../../verbs/errors.ts';
import { BARE_PART, type Claim, PARTS } from './claim.ts';
import { BARE, namedIn, reproducibleOf } from './papers.ts';

/** A claim and the name of its file. */
export interface NamedClaim extends Claim {
  id: string;
  system: string;
}

/** Folders of claims: the bare device, and one for each policy. */
export const SYSTEMS: readonly string[] = Object.keys(PARTS);

/**
 * All claims about a system, in the order of the report. What the paper of a policy says of the bare device is among
 * those about the policy, too, with `bare/` before its id.
 * @throws ConfigError for an unknown system
 */
export async function loadClaims(system: string): Promise<NamedClaim[]> {
  if (!SYSTEMS.includes(system)) {
    throw new ConfigError(`there is no system '${system}'; there is ${SYSTEMS.join(', ')}`);
  }
  const claims = [...(await folder(system)), ...(system === BARE ? [] : await ofBare(system))];
  return claims.sort((a, b) => a.part - b.part || (a.id < b.id ? -1 : 1));
}

function folder(system: string): Promise<NamedClaim[]> {
  const url = new URL(`../claims/${system}/`, import.meta.url);
  const files = readdirSync(url).filter((name) => /(?<!\.d)\.[jt]s$/.test(name));
  return Promise.all(
    files.map(async (file) => {
      const module: { default: Claim } = await import(new URL(file, url).href);
      return { ...module.default, system, id: basename(file).replace(/\.[jt]s$/, '') };
    }),
  );
}

/** The short set of the bare device has its own run. */
async function ofBare(system: string): Promise<NamedClaim[]> {
  const ids = reproducibleOf(system);
  const claims = (await folder(BARE)).filter((claim) => namedIn(claim).some((id) => ids.includes(id)));
  return claims.map((claim) => ({
    ...claim,
    system,
    part: BARE_PART,
    id: `${BARE}/${claim.id}`,
    smoke: false,
  }));
}

/** Those with these ids; all if there are none. @throws ConfigError for one that is not there */
export function select(claims: readonly NamedClaim[], ids: readonly string[]): NamedClaim[] {
  for (const id of ids) {
    if (claims.some((claim) => claim.id === id)) continue;
    throw new ConfigError(
      `there is no claim '${id}'; there is ${claims.map((claim) => claim.id).join(', ')}`,
    );
  }
  return claims.filter((claim) => ids.length === 0 || ids.includes(claim.id));
}
