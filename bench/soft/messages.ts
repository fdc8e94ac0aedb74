/** Messages between the benchmark and its processes, and functions that measure. */

/** What a process does: one end of a connection over user-space RoCE or kernel soft-RoCE, or one of two UDP sockets. */
export type Role = 'soft' | 'rxe' | 'udp';

export type Test = 'write' | 'messages' | 'pingpong' | 'idle' | 'bytes';

export interface Order {
  readonly test: Test;
  /** Whether this process measures; otherwise it answers. */
  readonly measures: boolean;
}

/** What one process measured. */
export interface Answer {
  /** Units: bytes, messages or round trips. */
  readonly units: number;
  readonly ns: number;
  /** CPU time of the process, user and system. */
  readonly cpuNs: number;
  /** Bytes that the sender allocates for a packet: of 2 bytes; of 4096; of 4096 from the next place in the region. */
  readonly bytes?: number;
  readonly longBytes?: number;
  readonly streamedBytes?: number;
}

/** How long one measurement takes. */
export const SLICE_MS = 300;
export const ROUND_TRIPS = 3000;
/** Bytes of a long WRITE, and of a packet's payload on the loopback interface. */
export const LONG_BYTES = 65_536;
export const MTU_BYTES = 4096;
/** A region that is sent from one end to the other, again and again. */
export const STREAM_BYTES = 1 << 24;
/** A WRITE_ONLY packet of 2 bytes: BTH, RETH, payload with pad bytes, ICRC. */
export const SHORT_PACKET_BYTES = 12 + 16 + 4 + 4;
/** A packet in the middle of a WRITE: BTH and ICRC around the payload. */
export const LONG_PACKET_BYTES = 12 + MTU_BYTES + 4;
export const SHORT_BYTES = 2;
/** The addresses of both ends, whose UDP port belongs to one process. */
export const ADDRESSES = ['127.73.0.1', '127.73.0.2'] as const;

/** Runs `step`, which returns the number of units it has completed, until `isDone` returns true. */
export function measure(step: () => number, isDone: (units: number, ns: number) => boolean): Answer {
  const before = process.cpuUsage();
  const began = performance.now();
  let units = 0;
  let ns = 0;
  while (!isDone(units, ns)) {
    units += step();
    ns = (performance.now() - began) * 1e6;
  }
  const { user, system } = process.cpuUsage(before);
  return { units, ns, cpuNs: (user + system) * 1000 };
}

export const afterSlice = (_units: number, ns: number): boolean => ns >= SLICE_MS * 1e6;

/** Makes round trips, and returns the median of their times: unlike the mean, it hardly depends on waits for a CPU. */
export function measureTrips(trip: () => void): Answer {
  const times = new Float64Array(ROUND_TRIPS);
  const { cpuNs } = measure(
    () => {
      for (let i = 0, atMs = performance.now(); i < ROUND_TRIPS; i++) {
        trip();
        const nowMs = performance.now();
        times[i] = (nowMs - atMs) * 1e6;
        atMs = nowMs;
      }
      return ROUND_TRIPS;
    },
    (units) => units > 0,
  );
  return { units: 1, ns: times.sort()[ROUND_TRIPS >> 1], cpuNs };
}
