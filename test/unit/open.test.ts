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
