// Weights and rates that an operator sets, and that have no effect.
import { expect, test } from 'vitest';
import { slowerLink, weightNotice, whyIneffective, whyRateIneffective } from '../../src/cli/weight-effect.ts';
import type { TenantRow } from '../../src/daemon/protocol.ts';
import { rowOf } from './top/samples.ts';

const reasonOf = (policy: string | undefined, more: Partial<TenantRow> = {}, linkGbps = 100) =>
  whyIneffective('a', {
    ...{ policy, devices: [{ device: 'dev0', linkGbps, isVirtualTime: false, nic: null }] },
    rows: [rowOf('a', { device: 'dev0', ...more }), rowOf('b', { device: 'dev0', gbps: 3 })],
  })?.reason;

test.each([
  ['perf', 'perf ignores weights'],
  ['chunk;perf', 'chunk;perf ignores weights'],
  ['', 'the daemon has no policy'],
  ['none', 'the daemon has no policy'],
  ['token-bucket', undefined],
  ['token-bucket;perf', undefined],
  ['perf:weights=a:3', undefined],
  ['fair', undefined],
  ['tassel', undefined],
  ['./own.mjs', undefined],
  // A daemon of an older version.
  [undefined, undefined],
])('under policy %j, why a weight has no effect: %j', (policy, reason) =>
  expect(reasonOf(policy)).toBe(reason),
);

test('a fixed rate leaves no share, except under policies that take it as an upper bound or ignore it', () => {
  expect(reasonOf('token-bucket', { gbps: 10 })).toBe('its rate is fixed at 10 Gbit/s');
  expect(reasonOf('fair', { gbps: 10 })).toBeUndefined();
});

test('a link of unknown rate is not shared, unless an option of the policy gives its rate', () => {
  expect(reasonOf('token-bucket', {}, 0)).toBe('the link rate of dev0 is unknown');
  expect(reasonOf('token-bucket:linkGbps=25', {}, 0)).toBeUndefined();
  expect(reasonOf('palos', {}, 0)).toBeUndefined();
  // One of the devices of the tenant has a known rate.
  const devices = [
    { device: 'dev0', linkGbps: 0, isVirtualTime: false, nic: null },
    { device: 'dev1', linkGbps: 100, isVirtualTime: false, nic: null },
  ];
  const rows = devices.map(({ device }) => rowOf('a', { device }));
  expect(whyIneffective('a', { policy: 'token-bucket', devices, rows })).toBeNull();
});

test('the notice of `isoverbs top` says what a weight means next to a fixed rate', () => {
  const rows = [rowOf('a', { gbps: 10 }), rowOf('b')];
  const notice = (tenant: string, policy: string) => weightNotice(tenant, 3, { rows, devices: [], policy });
  expect(notice('a', 'token-bucket')).toBe(
    'the weight of a is now 3, but has no effect: its rate is fixed at 10 Gbit/s',
  );
  expect(notice('a', 'fair')).toBe('the weight of a is now 3, next to its fixed rate');
  expect(notice('b', 'fair')).toBe('the weight of b is now 3');
});

test.each([
  ['', 'the daemon has no policy'],
  ['perf', 'perf ignores rates'],
  ['palos', 'palos ignores rates'],
  ['justitia', 'justitia ignores rates'],
  ['chunk;share', 'chunk;share ignores rates'],
  ['perf:weights=a:3', undefined],
  ['perf:ratesGbps=a:3', undefined],
  ['token-bucket;perf', undefined],
  ['tassel', undefined],
  ['drum', undefined],
  ['fair', undefined],
  ['./own.mjs', undefined],
  [undefined, undefined],
])('under policy %j, why a rate has no effect: %j', (policy, reason) => {
  const listing = { policy, devices: [], rows: [rowOf('a', { gbps: 3 })] };
  expect(whyRateIneffective('a', listing)?.reason).toBe(reason);
  expect(whyRateIneffective('absent', listing)).toBeNull();
});

test.each([
  ['token-bucket', 100, null],
  ['token-bucket', 101, 'the link of dev0 (100 Gbit/s)'],
  ['fair', 101, 'the link of dev0 (100 Gbit/s)'],
  ['token-bucket:linkGbps=0.2', 1, 'the link of dev0 (0.2 Gbit/s)'],
  // These are said to ignore rates, or may treat them in any way.
  ['perf', 101, null],
  ['./own.mjs', 101, null],
  [undefined, 101, null],
])('under policy %j, the link that is slower than a rate of %d Gbit/s: %j', (policy, gbps, link) => {
  const devices = [{ device: 'dev0', linkGbps: 100, isVirtualTime: false, nic: null }];
  const listing = { policy, devices, rows: [rowOf('a', { device: 'dev0' }), rowOf('b', { device: 'dev1' })] };
  expect(slowerLink('a', gbps, listing)).toBe(link);
  expect(slowerLink('b', gbps, { ...listing, policy: 'fair' })).toBeNull();
});
