/** Loops over the null device, and comparisons of their times. */
import { createRequire } from 'node:module';
import { Rings } from '#src/interceptors/rings.ts';
import type { Interceptor } from '#src/shim/compose.ts';
import * as V from '#src/verbs/index.ts';
import { p50 } from '../timing.ts';
import { BUILD, type NullQp } from './null-device.ts';

export interface CppLoop {
  run(library: string, total: number, batch: number, poll: boolean): number | null;
  threadCpuNs(): number;
}

const require = createRequire(import.meta.url);
/** Measured rounds of each run; two more rounds warm it up. */
export const ROUNDS = 11;

/** Posts `total` 64-byte WRITEs. With `poll`, each is signaled and its completion is read. */
export function loop(bench: NullQp, total: number, size: number, poll: boolean): number {
  const { provider, qp, cq, send, wcs } = bench;
  const { postSend, pollCq } = provider;
  let sum = 0;
  for (let done = 0; done < total; done += size) {
    send.clear();
    for (let i = 0; i < size; i++) {
      const id = done + i;
      // Without polling, every 1024th is signaled, so that its completion frees the slots of the queue.
      const flags = poll || (id & 1023) === 1023 ? V.IBV_SEND_SIGNALED : 0;
      send.write(id, flags, 0x10000000 + (id & 1023) * 64, 64, 7, 0x20000000 + (id & 1023) * 64, 9);
    }
    postSend(qp, send.ring, 0, size);
    if (poll) {
      const n = pollCq(cq, wcs.ring, 0, size);
      for (let i = 0; i < n; i++) sum += wcs.wrId(i) + wcs.status(i);
    } else if ((done & 1023) + size >= 1024) {
      pollCq(cq, wcs.ring, 0, 16);
    }
  }
  return sum;
}

/** Accepts all requests, including WAITs, which the null device does not support, so that only the shim is measured. */
export const nullSink: Interceptor = {
  name: 'null-sink',
  wrap(next) {
    const rings = new Rings();
    const done = new Uint32Array(4096 * 4);
    let head = 0;
    let tail = 0;
    let seq = 0;
    return {
      ...rings.verbs(next),
      postSend(qp, ring, start, count) {
        const { words } = rings.wr(ring)!;
        for (let i = start; i < start + count; i++) {
          const at = V.HEADER_WORDS + i * V.SLOT_WORDS;
          if ((words[at + V.WR_OP] & (V.IBV_SEND_SIGNALED << 8)) !== 0) {
            const to = (tail++ & 4095) * 4;
            done[to] = words[at];
            done[to + 1] = words[at + 1];
            done[to + 2] = seq;
            done[to + 3] = qp;
          }
          seq = (seq + 1) | 0;
        }
        return count;
      },
      pollCq(_cq, ring, start, max) {
        const wcs = rings.wc(ring)!.words;
        let n = 0;
        for (; n < max && head !== tail; n++) {
          const at = V.HEADER_WORDS + (start + n) * V.SLOT_WORDS;
          const from = (head++ & 4095) * 4;
          wcs[at] = done[from];
          wcs[at + 1] = done[from + 1];
          wcs[at + V.WC_OP] = V.IBV_WC_RDMA_WRITE << 8;
          wcs[at + V.WC_QP] = done[from + 3];
          wcs[at + V.WC_SEQ] = done[from + 2];
        }
        return n;
      },
    };
  },
};

/** Posts 1 MiB WRITEs through the splitting shim, which turns each into 64 x (1 + 16) slots, and polls for each. */
export function splitLoop(bench: NullQp, messages: number): void {
  const { provider, qp, cq, send, wcs } = bench;
  for (let i = 0; i < messages; i++) {
    send.clear().write(i, V.IBV_SEND_SIGNALED, 0x10000000, 1 << 20, 7, 0x20000000, 9);
    provider.postSend(qp, send.ring, 0, 1);
    while (provider.pollCq(cq, wcs.ring, 0, 16) === 0);
  }
}

/** Runs all of them once per round, so that a slow moment of the machine affects all alike; returns medians. */
export function interleaved(runs: Record<string, () => number>): Record<string, number> {
  const times: Record<string, number[]> = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  for (let r = 0; r < ROUNDS + 2; r++) {
    for (const [name, run] of Object.entries(runs)) {
      const ns = run();
      if (r >= 2) times[name].push(ns);
    }
  }
  return Object.fromEntries(Object.entries(times).map(([name, list]) => [name, p50(list)]));
}

/** Measured slices of a comparison; ten more warm it up. */
const SLICES = 151;

export interface Comparison {
  readonly ns: number;
  readonly baseNs: number;
  /** Median of the ratios of paired slices. */
  readonly ratio: number;
  /** Median of the differences of paired slices. */
  readonly moreNs: number;
}

/** Times two runs alternately, in slices so short that a slow moment of the machine affects both alike. */
export function compare(base: () => number, run: () => number): Comparison {
  const pairs: (readonly [number, number])[] = [];
  for (let i = 0; i < SLICES + 10; i++) {
    const pair = [base(), run()] as const;
    if (i >= 10) pairs.push(pair);
  }
  return {
    baseNs: p50(pairs.map(([one]) => one)),
    ns: p50(pairs.map(([, other]) => other)),
    ratio: p50(pairs.map(([one, other]) => other / one)),
    moreNs: p50(pairs.map(([one, other]) => other - one)),
  };
}

/** The loop in C++, and this thread's CPU clock. */
export function cppLoop(): CppLoop {
  return require(`${BUILD}cpp_loop.node`);
}
