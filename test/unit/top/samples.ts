/** Samples of a daemon with four tenants on a real and a simulated device, one a second. */
import type { TenantSample } from '../../../src/cli/watch-tenants.ts';
import type { ProgramRow, TenantRow } from '../../../src/daemon/protocol.ts';
import type { NicFacts } from '../../../src/verbs/nic.ts';
import { UNMEASURED } from '../../../src/verbs/nic.ts';

const ROW: TenantRow = {
  ...{ device: 'mlx5_0', tenant: '', weight: 1, gbps: null, qpWeight: null, group: null, traffic: null },
  ...{ class: '', why: '', contexts: 1, processes: 1, qps: 2, wireGbps: 0, sentRequests: 0, sentBytes: 0 },
  ...{ heldRequests: 0, latencyNs: 0, maxQps: null, maxRequestsPerS: null, rateGbps: 50, split: false },
  ...{ qNumAllow: 0, referenceShare: 0 },
};

/** A NIC of 100 Gbit/s with 16 processing units, each of which takes 100 ns for a request. */
export const NIC: NicFacts = {
  ...UNMEASURED,
  ...{ linkGbps: 100, mtuBytes: 4096, headerBytes: 82, wqeGapNs: 100, waitStepNs: 100, processingUnits: 16 },
  ...{ arbitrates: true, egressFifoBytes: null, latencyNs: null, handoverNs: null, atomicGapNs: null },
  ...{ cachedQps: null, pipeline: null },
};

/** A row with defaults for what is not given. */
export const rowOf = (tenant: string, more: Partial<TenantRow> = {}): TenantRow => ({
  ...ROW,
  tenant,
  ...more,
});

const MESSAGE_BYTES = 1e6;

const programOf = (pid: number, qps: number, sentBytes: number): ProgramRow => ({
  ...{ pid, qps, sentBytes, contexts: 1, heldRequests: 3, latencyNs: 812e3 },
  sentRequests: sentBytes / MESSAGE_BYTES,
});

/** The sample after this many seconds. `bulk` sends at 40 Gbit/s, and at 60 Gbit/s after 40 s. */
export function sampleAt(second: number): TenantSample {
  const messages = ((second * 5 + Math.max(0, second - 40) * 2.5) * 1e9) / MESSAGE_BYTES;
  const bytes = messages * MESSAGE_BYTES;
  const bulk = rowOf('bulk', {
    ...{ class: 'bandwidth', processes: 2, qps: 9, sentBytes: bytes, sentRequests: messages },
    ...{
      heldRequests: 17,
      latencyNs: 812_345,
      rateGbps: 61.5,
      split: true,
      why: 'large messages beside small ones',
    },
    programs: [programOf(4711, 6, bytes * 0.75), programOf(4712, 3, bytes * 0.25)],
  });
  const store = rowOf('kv-store', {
    ...{ class: 'idle', weight: 3, qps: 128, sentBytes: second * 320e6, sentRequests: second * 20e6 },
    ...{ latencyNs: 3456, maxRequestsPerS: 5e7, rateGbps: 33 },
  });
  const batch = rowOf('batch', {
    ...{ gbps: 10, sentBytes: 5e9, sentRequests: 5000, latencyNs: 9e6, class: 'messages' },
  });
  const laptop = rowOf('laptop', { device: 'sim0', sentBytes: second * 1e7, sentRequests: second * 10 });
  return {
    nowNs: (second + 1) * 1e9,
    policy: 'perf',
    devices: [
      { device: 'mlx5_0', linkGbps: 100, isVirtualTime: false, nic: { ...NIC } },
      { device: 'sim0', linkGbps: 100, isVirtualTime: true, nic: { ...NIC } },
    ],
    rows: [bulk, store, batch, laptop],
  };
}
