/** Impairs the packets that devices send, for tests: packets leave late, and some of them overtake others. */
import { RandomStream } from '../../sim/kernel/random.ts';
import { type NativeUdp, ROW_WORDS } from './native.ts';

const TWO32 = 2 ** 32;

/** Late packets, as tc-netem(8) makes them. */
export interface Impairment {
  /** Delay of late packets, in milliseconds. */
  readonly delayMs: number;
  /** Probability that a packet leaves at once, and so overtakes late ones. */
  readonly reorder: number;
  readonly seed: number;
}

/** The addon's functions with these delays. If a socket is closed, its late packets are lost. */
export function impaired(native: NativeUdp, { delayMs, reorder, seed }: Impairment): NativeUdp {
  const random = new RandomStream(seed, 'impairment');
  /** By descriptor: timers of late packets. */
  const late = new Map<number, Set<NodeJS.Timeout>>();

  /** Sends a copy of the packet in this row later. */
  const defer = (fd: number, slab: Uint8Array, row: Uint32Array, port: number, source: Uint8Array) => {
    const packet = slab.slice(row[0], row[0] + row[1]);
    const own = row.slice();
    own[0] = 0;
    const timers = late.get(fd) ?? new Set();
    late.set(fd, timers);
    const timer = setTimeout(() => {
      timers.delete(timer);
      native.sendUdp(fd, packet, own, 1, port, source);
    }, delayMs);
    timers.add(timer);
  };

  return {
    interfaceVersion: native.interfaceVersion,
    init: native.init,
    openUdp: native.openUdp,
    joinUdp: native.joinUdp,
    receiveUdp: native.receiveUdp,
    readClock: native.readClock,
    watchFd: native.watchFd,
    sendUdp(fd, slab, rows, count, port, source) {
      for (let i = 0; i < count; i++) {
        const row = rows.subarray(i * ROW_WORDS, (i + 1) * ROW_WORDS);
        row[3] = 0;
        if (random.u32() < reorder * TWO32) native.sendUdp(fd, slab, row, 1, port, source);
        else defer(fd, slab, row, port, source);
      }
      return count;
    },
    closeFd(fd) {
      for (const timer of late.get(fd) ?? []) clearTimeout(timer);
      late.delete(fd);
      native.closeFd(fd);
    },
  };
}
