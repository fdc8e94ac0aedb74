/** Records the traffic of each cable during the measuring window. */
import { type CableStats, cableStats, pausesOf } from '../sim/network/switch-checks.ts';
import type { World } from '../sim/world.ts';
import type { LinkResult } from './result.ts';

type Counts = Omit<LinkResult, 'utilisation'>;

export class LinkRecorder {
  private readonly world: World;
  private atOpen: Counts[] = [];
  private fromNs = 0;

  constructor(world: World) {
    this.world = world;
  }

  /** Starts the window. */
  open(): void {
    this.fromNs = this.world.nowNs;
    this.atOpen = this.counts();
  }

  /** The cables that carried or dropped traffic. */
  results(): LinkResult[] {
    const { world, atOpen } = this;
    const spanNs = world.nowNs - this.fromNs;
    const nsPerByte = 8 / world.params.linkGbps;
    const grown = this.counts().map(({ from, to, ...now }, i) => ({
      from,
      to,
      bytes: now.bytes - atOpen[i].bytes,
      drops: now.drops - atOpen[i].drops,
      marks: now.marks - atOpen[i].marks,
      pauses: now.pauses - atOpen[i].pauses,
    }));
    return grown
      .filter(({ bytes, drops }) => bytes > 0 || drops > 0)
      .map(({ from, to, bytes, ...counts }) => {
        const rate = from === to ? 8 / world.params.loopbackGbps : nsPerByte;
        // A packet is counted when it starts on the wire, so the last one may not have left yet.
        return { from, to, bytes, utilisation: Math.min(1, (bytes * rate) / spanNs), ...counts };
      });
  }

  private counts(): Counts[] {
    const { world } = this;
    const { switchNetwork: fabric } = world;
    const ofHosts = world.ports.map((port): Counts => {
      const host = port.id >> 1;
      const loopback = (port.id & 1) === 1;
      const to = loopback ? `host${host}` : peerNameOf(world, host);
      const pauses = fabric === null || loopback ? 0 : pausesOf(fabric, host);
      return { from: `host${host}`, to, bytes: port.bytesOut[0], drops: 0, marks: 0, pauses };
    });
    const ofSwitches = fabric === null ? [] : cableStats(fabric).map(countsOf);
    return [...ofHosts, ...ofSwitches];
  }
}

function countsOf({ from, to, bytes, drops, marks, pauses }: CableStats): Counts {
  return { from, to, bytes, drops, marks, pauses };
}

/** Name of the device at the other end of a host's cable. */
function peerNameOf(world: World, host: number): string {
  const { switchNetwork: fabric } = world;
  if (fabric !== null) return `switch${fabric.portOfHost(host).sw.index}`;
  return world.hosts.length === 2 ? `host${1 - host}` : 'all';
}
