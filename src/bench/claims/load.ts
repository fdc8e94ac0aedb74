/** The claims of a folder. To add one is to add a file. */
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { ConfigError } from '../../verbs/errors.ts';
import { type Claim, PARTS } from './claim.ts';

/** A claim and the name of its file. */
export interface NamedClaim extends Claim {
  id: string;
  system: string;
}

/** Folders of claims: the bare device, and one for each policy. */
export const SYSTEMS: readonly string[] = Object.keys(PARTS);

/**
 * All claims about a system, in the order of the report.
 * @throws ConfigError for an unknown system
 */
export async function loadClaims(system: string): Promise<NamedClaim[]> {
  if (!SYSTEMS.includes(system)) {
    throw new ConfigError(`there is no system '${system}'; there is ${SYSTEMS.join(', ')}`);
  }
  const folder = new URL(`./${system}/`, import.meta.url);
  const files = readdirSync(folder).filter((name) => /(?<!\.d)\.[jt]s$/.test(name));
  const claims = await Promise.all(
    files.map(async (file) => {
      const module: { default: Claim } = await import(new URL(file, folder).href);
      return { ...module.default, system, id: basename(file).replace(/\.[jt]s$/, '') };
    }),
  );
  return claims.sort((a, b) => a.part - b.part || (a.id < b.id ? -1 : 1));
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
