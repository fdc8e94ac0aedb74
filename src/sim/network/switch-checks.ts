/** What must hold of switches after every run, and what their cables report. */

import { DROPPED_BYTES, DROPS, IN_BYTES, MARKS, OUT_BYTES, OUT_PACKETS, PAUSES } from './switch-port.ts';
import type { SwitchNetwork } from './switches.ts';

/** Sentences about what does not hold; `idle`: nothing is left to happen. */
export function brokenSwitches(fabric: SwitchNetwork, idle: boolean): string[] {
  const broken: string[] = [];
  for (const sw of fabric.switches) {
    const ports = fabric.ports.filter((port) => port.sw === sw);
    const sum = (of: (port: (typeof ports)[number]) => number) =>
      ports.reduce((total, port) => total + of(port), 0);
    const name = `switch ${sw.index}`;
    const known = sum((port) => port.counts[OUT_BYTES] + port.counts[DROPPED_BYTES]) + sw.used;
    const came = sum((port) => port.counts[IN_BYTES]);
    if (came !== known) broken.push(`${name}: ${came} bytes came in, ${known} are accounted for`);
    if (sw.used !== sum((port) => port.queuedBytes) || sw.used !== sum((port) => port.heldBytes))
      broken.push(`${name}: its buffer holds ${sw.used} bytes, its ports others`);
    if (sw.maxUsed > sw.bufferBytes)
      broken.push(`${name}: ${sw.maxUsed} bytes were in a buffer of ${sw.bufferBytes}`);
    if (idle && sw.used !== 0) broken.push(`${name}: bytes left in its buffer`);
    for (const port of ports) {
      if (idle && (port.paused || port.pausing))
        broken.push(`${name} port ${port.id - sw.base}: paused for ever`);
      if (sw.pause === null) continue;
      const { xoffBytes, headroomBytes } = sw.pause;
      if (port.counts[DROPS] > 0)
        broken.push(`${name} port ${port.id - sw.base}: lost packets in spite of PFC`);
      if (port.maxHeldBytes > xoffBytes + headroomBytes)
        broken.push(`${name} port ${port.id - sw.base}: held more than its headroom is for`);
    }
  }
  return broken;
}

/** One direction of a cable that leaves a switch. */
export interface CableStats {
  /** 'switch0.3', 'host1'. */
  from: string;
  to: string;
  bytes: number;
  packets: number;
  /** Packets that found no room in the queue. */
  drops: number;
  /** Packets that were marked in it. */
  marks: number;
  /** Times that the other end asked for a pause. */
  pauses: number;
  maxQueueBytes: number;
}

/** Figures of every port of every switch. */
export function cableStats(fabric: SwitchNetwork): CableStats[] {
  return fabric.ports.map((port) => {
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

/** Times that the switch asked this host for a pause. */
export function pausesOf(fabric: SwitchNetwork, host: number): number {
  return fabric.portOfHost(host).counts[PAUSES];
}
