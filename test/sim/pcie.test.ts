// The PCIe link of a NIC: short reads hide each other's latency, but never exceed its rate.
import { expect, test } from 'vitest';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { Pcie } from '../../src/sim/nic/pcie.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';

const BYTES = 512;
const GBPS = 100;
const NS = (BYTES * 8) / GBPS;

function idleLink(dmaReads: number): Pcie {
  const params = { ...PROFILES['cx6-100g'], pcieGbps: GBPS, dmaReadNs: 500, pcieJitter: 0, dmaReads };
  return new Pcie(params, new Float64Array(1), new RandomStream(1, 'pcie', 0));
}

test('a few short reads at once each take the latency of one', () => {
  const pcie = idleLink(256);
  for (let i = 0; i < 10; i++) pcie.read(BYTES);
  expect(pcie.done[0]).toBeCloseTo(500 + NS, 6);
});

test.each([256, Number.POSITIVE_INFINITY])(
  'short reads of an idle link share its rate (%s in flight)',
  (most) => {
    const pcie = idleLink(most);
    const reads = 200;
    for (let i = 0; i < reads; i++) pcie.read(BYTES);
    expect(pcie.done[0]).toBeCloseTo(reads * NS, 6);
    expect(pcie.busyNs).toBeLessThanOrEqual(pcie.idleFromNs * (1 + 1e-9));
  },
);

test('payload waits for the short reads that an idle link has not carried yet', () => {
  const pcie = idleLink(256);
  for (let i = 0; i < 100; i++) pcie.read(BYTES);
  pcie.read(8 * BYTES);
  expect(pcie.done[0]).toBeCloseTo(108 * NS, 6);
});
