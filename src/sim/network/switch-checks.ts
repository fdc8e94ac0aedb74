/** Invariants of switches after every run, and statistics of their cables. */

import { DROPPED_BYTES, DROPS, IN_BYTES, MARKS, OUT_BYTES, OUT_PACKETS, PAUSES } from './switch-port.ts';
import type { SwitchNetwork } from './switches.ts';

/** Describes every violated invariant. `idle` means that no events are left. */
export function brokenSwitches(switchNetwork: SwitchNetwork, idle: boolean): string[] {
  const broken: string[] = [];
  for (const sw of switchNetwork.switches) {
    const ports = switchNetwork.ports.filter((port) => port.sw === sw);
    const sum = (of: (port: (typeof ports)[number]) => number) =>
      ports.reduce((total, port) => total + of(port), 0);
    const name = `switch ${sw.index}`;
    const known = sum((port) => port.counts[OUT_BYTES] + port.counts[DROPPED_BYTES]) + sw.used;
    const came = sum((port) => port.counts[IN_BYTES]);
    if (came !== known) broken.push(`${name}: ${came} bytes came in, ${known} are accounted for`);
    if (sw.used !== sum((port) => port.queuedBytes) || sw.used !== sum((port) => port.heldBytes))
      broken.push(`${name}: its buffer holds ${sw.used} bytes, but its ports disagree`);
    if (sw.maxUsed > sw.bufferBytes)
      broken.push(`${name}: ${sw.maxUsed} bytes were in a buffer of ${sw.bufferBytes}`);
    if (idle && sw.used !== 0) broken.push(`${name}: bytes left in its buffer`);
    for (const port of ports) {
      if (idle && (port.paused || port.pausing))
        broken.push(`${name} port ${port.id - sw.base}: still paused`);
      if (sw.pause === null) continue;
      const { xoffBytes, headroomBytes } = sw.pause;
      if (port.counts[DROPS] > 0) broken.push(`${name} port ${port.id - sw.base}: lost packets despite PFC`);
      if (port.maxHeldBytes > xoffBytes + headroomBytes)
        broken.push(`${name} port ${port.id - sw.base}: held more bytes than its headroom allows`);
    }
  }
  return broken;
}

/** Statistics of one direction of a cable that leaves a switch. */
export interface CableStats {
  /** 'switch0.3' or 'host1'. */
  from: string;
  to: string;
  bytes: number;
  packets: number;
  /** Packets dropped for lack of room. */
  drops: number;
  /** Packets marked in the queue. */
  marks: number;
  /** Pauses requested by the other end. */
  pauses: number;
  maxQueueBytes: number;
}

/** Statistics of every port of every switch. */
export function cableStats(switchNetwork: SwitchNetwork): CableStats[] {
  return switchNetwork.ports.map((port) => {
    const { peer, counts } = port;
    return {
      from: `switch${port.sw.index}.${port.id - port.sw.base}`,
      to: peer === null ? `host${port.host}` : `switch${peer.sw.index}.${peer.id - peer.sw.base}`,
      bytes: counts[OUT_BYTES],
      packets: counts[OUT_PACKETS],
      drops: counts[DROPS],
      marks: counts[MARKS],
      pauses: peer === null ? 0 : peer.counts[PAUSES],
      maxQueueBytes: port.maxQueuedBytes,
    };
  });
}

/** Pauses that the switch requested from this host. */
export function pausesOf(switchNetwork: SwitchNetwork, host: number): number {
  return switchNetwork.portOfHost(host).counts[PAUSES];
}
