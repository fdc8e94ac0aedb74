import { describe, expect, it } from 'vitest';
import { describeNic, linkGbpsOf } from '../../src/providers/rdma-core/nic.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { UNMEASURED } from '../../src/verbs/nic.ts';
import type { DeviceAttr, PortAttr } from '../../src/verbs/types.ts';

const port = (activeWidth: number, activeSpeed: number) =>
  ({ activeWidth, activeSpeed, activeMtu: 5 }) as PortAttr;
const nicWith = (attr: PortAttr, vendorId: number) =>
  describeNic({ queryPort: () => attr, queryDevice: () => ({ vendorId }) as DeviceAttr }, 1);

describe('describeNic() and linkGbpsOf()', () => {
  it.each([
    [2, 32, 100],
    [2, 4, 40],
    [2, 16, 56],
    [1, 4, 10],
    [1, 32, 25],
    [2, 64, 200],
    [2, 128, 400],
    [1, 1, 2.5],
  ])('width code %d and speed code %d are %d Gbit/s', (width, speed, gbps) => {
    expect(linkGbpsOf(port(width, speed))).toBe(gbps);
  });

  it('unknown codes result in no rate', () => {
    expect(linkGbpsOf(port(3, 32))).toBe(null);
    expect(linkGbpsOf(port(2, 0))).toBe(null);
    expect(nicWith(port(2, 3), 0x2c9)).toMatchObject({ linkGbps: null, mtuBytes: 4096 });
  });

  it('soft-RoCE is known by its vendor id not to take turns between queue pairs', () => {
    expect(nicWith(port(1, 1), 0xffffff).arbitrates).toBe(false);
    expect(nicWith(port(1, 1), 0x2c9).arbitrates).toBe(null);
  });

  it('a simulated NIC reports its profile, and no WAIT step if it does not execute WAITs', () => {
    for (const wait of [true, false]) {
      const { provider } = createFabric({ profile: 'cx5-40g', wait });
      const {
        linkGbps,
        wqeGapNs,
        waitStepNs,
        atomicGapNs,
        processingUnits,
        egressFifoBytes,
        mtuBytes,
        headerBytes,
      } = PROFILES['cx5-40g'];
      const facts = {
        linkGbps,
        wqeGapNs,
        atomicGapNs,
        processingUnits,
        egressFifoBytes,
        mtuBytes,
        headerBytes,
      };
      const context = provider.openDevice('sim0');
      expect(provider.describeNic?.(context)).toEqual({
        ...facts,
        arbitrates: true,
        waitStepNs: wait ? waitStepNs : null,
        // 150 + 2 x 500 and 100 + 500 ns to the NIC, then one processing step, the round trip, and the completion.
        cachedQps: 450,
        latencyNs: 1150 + 100 + 2 * 150 + 250,
        handoverNs: wait ? 600 + 100 + 2 * 150 + 250 : null,
        pipeline: {
          ...{ pcieGbps: 125, wqeBytes: 64, cqeBytes: 64, receiveBytes: 0, carriesWqe: true },
          ...{ readAheadBytes: 16384, contextBytes: 512, entryBytes: 64, dmaReadNs: 500 },
          ...{ cachedRegions: 40_000, cachedPages: 50_000, pageBytes: 4096 },
          ...{ receiverGapNs: 1000 / 90, readGapNs: 1000 / 60, ackEveryPackets: 16, acksEachMessage: false },
        },
        ...UNMEASURED,
      });
    }
  });
});
