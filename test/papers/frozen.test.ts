// Bare devices are frozen: after a parameter has changed, every claim must run again.
import { expect, test } from 'vitest';
import { profilesHash, readFrozen } from '../../src/papers/engine/frozen.ts';
import { claimsAbout } from '../../src/papers/engine/papers.ts';

const ADVICE = 'npm run reproduce -- --system bare --freeze runs every line again and renews the file';

test('the profiles match frozen.json', () => {
  expect(readFrozen()?.profiles, `a profile has changed: ${ADVICE}`).toBe(profilesHash());
});

test('frozen.json has every line of the report, measured on seeds 1 to 5', () => {
  const claims = claimsAbout('bare');
  const lines = claims.flatMap(({ id, checks }) => checks.map(({ what }) => `${id}: ${what}`));
  const frozen = readFrozen();
  expect(frozen?.seeds).toEqual([1, 2, 3, 4, 5]);
  expect(Object.keys(frozen?.measured ?? {}).sort(), ADVICE).toEqual([...new Set(lines)].sort());
});
