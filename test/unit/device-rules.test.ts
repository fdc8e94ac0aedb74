// The rules of a device's rulers are set by its first context, and others must have the same.
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { ConfigError } from '../../src/verbs/errors.ts';

type Options = Record<string, unknown>;

/** Providers of one fabric under a policy with different options. */
function under(policy: string, ...options: Options[]) {
  const { provider } = createFabric({ profile: 'cx6-100g', hosts: 2 });
  return options.map((one) => compose(provider, [createPolicy(policy, one)]));
}

test.each([
  ['perf', { qNumAllow: 2 }, { qNumAllow: 4 }, /^qNumAllow: .* qNumAllow=4, .* sim0 have qNumAllow=2; /],
  ['perf', { slotNs: '50us' }, { slotNs: '60us' }, /^slotNs: /],
  ['perf', {}, { rotation: 'on' }, /^rotation: /],
  ['perf', {}, { paper: true }, /^paper: /],
  ['perf', { windowNs: 2e6 }, { windowNs: 3e6, qNumCapa: 20 }, /^windowNs, qNumCapa: /],
  ['token-bucket', { weights: 'a:3' }, { weights: 'a:2' }, /^weights: .* weights=\{"a":2\}/],
  ['token-bucket', {}, { ratesGbps: 'a:2' }, /^ratesGbps: /],
  ['token-bucket', {}, { linkGbps: 40 }, /^linkGbps: /],
])('%s: a context with %o and one with %o', (policy, first, second, message) => {
  const [one, other] = under(policy, first, second);
  const handle = one.openDevice('sim0');
  expect(() => other.openDevice('sim0')).toThrow(ConfigError);
  expect(() => other.openDevice('sim0')).toThrow(message);
  // The rules of another device are its own, and those of a device last as long as its contexts.
  other.closeDevice(other.openDevice('sim1'));
  one.closeDevice(one.openDevice('sim0'));
  one.closeDevice(handle);
  other.closeDevice(other.openDevice('sim0'));
});

test.each([
  ['perf', { subMsgSizeBytes: 4096 }, { subMsgSizeBytes: 8192, turnBytes: 2 ** 20 }],
  ['token-bucket', { weights: 'a:3/b:1' }, { weights: { b: 1, a: 3 }, burstBytes: 1 }],
])('%s: options that concern one context alone may differ', (policy, first, second) => {
  const [one, other] = under(policy, first, second);
  one.openDevice('sim0');
  other.openDevice('sim0');
});

test('configurePolicy changes the rules for all contexts of the device', () => {
  const [one, other, third] = under('perf', {}, {}, { qNumAllow: 3 });
  for (const provider of [one, other]) provider.openDevice('sim0');
  expect(() => third.openDevice('sim0')).toThrow(/^qNumAllow: /);
  one.configurePolicy!('perf', { qNumAllow: 3 });
  third.openDevice('sim0');
  expect(() => other.openDevice('sim0')).toThrow(/^qNumAllow: /);
});
