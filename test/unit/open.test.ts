import { expect, test } from 'vitest';
import { openDevice } from '../../src/index.ts';

test('a misspelt option is refused, not ignored', () => {
  const options = { polcy: 'perf' } as object;
  expect(() => openDevice('sim0', options)).toThrowError(
    /no option 'polcy'; there are: tenant, labels, groups, provider, policy, driver/,
  );
});

test('a name that is not a string is refused', () => {
  expect(() => openDevice(5 as unknown as string)).toThrowError(/the name must be a string, got number 5/);
});

test('the error for a missing device lists those that exist', () => {
  expect(() => openDevice('mlx9_0', { provider: 'sim' })).toThrowError(
    /no device 'mlx9_0'; available: sim0, sim1/,
  );
});

test('a misspelt device or provider is asked about', () => {
  const provider = 'sfot' as 'soft';
  expect(() => openDevice('sotf0', { provider: 'sim' })).toThrowError(/'sotf0'; did you mean 'soft0'\?/);
  expect(() => openDevice(undefined, { provider })).toThrowError(/got 'sfot'; did you mean 'soft'\?/);
});

const BIG = { name: 'fair', options: { windowBytes: 1n } };
const CIRCULAR: Record<string, unknown> = {};
CIRCULAR.self = CIRCULAR;

test.each<[unknown, string, RegExp]>([
  [5, 'ISO_ERR_ARGUMENT', /policy: must be a name such as 'fair', .* got 5/],
  [[null], 'ISO_ERR_ARGUMENT', /policy: must be a name .* got null/],
  [{}, 'ISO_ERR_ARGUMENT', /got an object whose name is undefined/],
  [{ name: 5 }, 'ISO_ERR_ARGUMENT', /got an object whose name is 5/],
  [{ name: 'own', wrap: 5 }, 'ISO_ERR_ARGUMENT', /no option 'wrap'/],
  [{ name: 'fair', options: null }, 'ISO_ERR_CONFIG', /fair: the options must be an object .* got null/],
  [{ name: 'fair', options: 5 }, 'ISO_ERR_CONFIG', /fair: the options must be an object .* got 5/],
  [BIG, 'ISO_ERR_CONFIG', /policy fair: the options must be numbers, .*BigInt/],
  [{ name: 'fair', options: CIRCULAR }, 'ISO_ERR_CONFIG', /policy fair: .*circular/],
])('openDevice rejects the policy of case %#', (policy, code, message) => {
  for (const driver of ['inline', 'worker'] as const) {
    expect(() => openDevice('sim0', { policy: policy as string, driver })).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    );
  }
});
