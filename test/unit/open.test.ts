import { expect, test } from 'vitest';
import { openDevice } from '../../src/index.ts';

test('a misspelt option is refused, not ignored', () => {
  const options = { polcy: 'perf' } as object;
  expect(() => openDevice('sim0', options)).toThrowError(
    /no option 'polcy'; there are: tenant, provider, policy/,
  );
});

test('a name that is no string is refused', () => {
  expect(() => openDevice(5 as unknown as string)).toThrowError(/the name must be a string, got number 5/);
});

test('a device that is not there: the error lists those that are', () => {
  expect(() => openDevice('mlx9_0', { provider: 'sim' })).toThrowError(
    /no device 'mlx9_0'; available: sim0, sim1/,
  );
});
