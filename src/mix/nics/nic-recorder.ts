/** Counts what each NIC does during the measuring window, for results with details. */
import type { Host, World } from '../../sim/world.ts';
import type { CacheCounts, NicResult } from '../result.ts';

type Counts = Omit<NicResult, 'host'>;

export class NicRecorder {
  private readonly world: World;
  private readonly atOpen: Counts[] = [];

  constructor(world: World) {
    this.world = world;
    for (const { caches } of world.hosts) caches.countsAll = true;
  }

  /** Starts the window. */
  open(): void {
    this.atOpen.push(...this.world.hosts.map((host) => this.countsOf(host)));
  }

  /** By host. */
  results(): NicResult[] {
    return this.world.hosts.map((host) => {
      const [now, then] = [this.countsOf(host), this.atOpen[host.index]];
      const grown = (key: Exclude<keyof Counts, CacheName>) => now[key] - then[key];
      const cache = (name: CacheName): CacheCounts => ({
        lookups: now[name].lookups - then[name].lookups,
        misses: now[name].misses - then[name].misses,
      });
      return {
        host: host.index,
        pcieReadBytes: grown('pcieReadBytes'),
        pcieWriteBytes: grown('pcieWriteBytes'),
        unitSteps: grown('unitSteps'),
        requestPackets: grown('requestPackets'),
        receiverNs: grown('receiverNs'),
        atomics: grown('atomics'),
        receives: grown('receives'),
        contexts: cache('contexts'),
        regions: cache('regions'),
        pages: cache('pages'),
      };
    });
  }

  private countsOf({ index, pcie, receiver, caches }: Host): Counts {
    const [requestPackets, atomics, receives] = receiver.counts;
    return {
      pcieReadBytes: pcie.bytes[0],
      pcieWriteBytes: pcie.bytes[1],
      unitSteps: this.world.units[index]?.steps[0] ?? 0,
      requestPackets,
      receiverNs: receiver.busyNs,
      atomics,
      receives,
      contexts: cacheCounts(caches.contexts.counts),
      regions: cacheCounts(caches.regions.counts),
      pages: cacheCounts(caches.pages.counts),
    };
  }
}

type CacheName = 'contexts' | 'regions' | 'pages';

function cacheCounts([lookups, misses]: Float64Array): CacheCounts {
  return { lookups, misses };
}
