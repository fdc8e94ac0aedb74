/** Records the requests of a run: what applications post and poll, and what reaches the devices. */
import { Rings } from '../../interceptors/rings.ts';
import type { Interceptor } from '../../shim/compose.ts';
import * as V from '../../verbs/index.ts';
import { wcStatusName, wrOpcodeName } from '../../verbs/names.ts';
import type { Arguments } from './trace-events.ts';

/** What the recorder reports, by handle of the queue pair. */
export interface RequestObserver {
  /** An application posts request `seq` of a queue pair. */
  posted(qp: number, seq: number, name: string, args: Arguments): void;
  /** An application polled the completion of all requests of a queue pair before `end`, or of a receive. */
  polled(qp: number, end: number, isReceive: boolean, args: Arguments): void;
  /** A request reaches the device. */
  issued(qp: number, name: string, args: Arguments): void;
}

/** The interceptor above all policies of a host. */
export function aboveRecorder(observer: RequestObserver): Interceptor {
  return {
    name: 'record-requests',
    wrap: (next) => {
      const rings = new Rings();
      /** Requests posted so far, by queue pair. */
      const counts = new Map<number, number>();
      return {
        ...rings.verbs(next),
        createQp: (pd, attr) => {
          const info = next.createQp(pd, attr);
          counts.set(info.handle, 0);
          return info;
        },
        postSend: (qp, ring, start, count) => {
          const { words } = rings.wr(ring)!;
          const first = counts.get(qp) ?? 0;
          // Whether the device takes them is known only later; a mix never posts more than fit.
          for (let i = 0; i < count; i++) {
            const at = V.slotAt(start + i);
            observer.posted(qp, first + i, nameOf(words, at), argumentsOf(words, at));
          }
          const accepted = next.postSend(qp, ring, start, count);
          counts.set(qp, first + accepted);
          return accepted;
        },
        pollCq: (cq, ring, start, max) => {
          const found = next.pollCq(cq, ring, start, max);
          const { words } = rings.wc(ring)!;
          for (let i = 0; i < found; i++) {
            const at = V.slotAt(start + i);
            const op = words[at + V.WC_OP];
            const isReceive = (op & V.WC_RECV_SIDE) !== 0;
            const status = wcStatusName(op & 0xff);
            observer.polled(words[at + V.WC_QP], words[at + V.WC_SEQ] + 1, isReceive, { status });
          }
          return found;
        },
      };
    },
  };
}

/** The interceptor below all policies of a host. */
export function belowRecorder(observer: RequestObserver): Interceptor {
  return {
    name: 'record-issued',
    wrap: (next) => {
      const rings = new Rings();
      return {
        ...rings.verbs(next),
        postSend: (qp, ring, start, count) => {
          const { words } = rings.wr(ring)!;
          for (let i = 0; i < count; i++) {
            const at = V.slotAt(start + i);
            observer.issued(qp, nameOf(words, at), argumentsOf(words, at));
          }
          return next.postSend(qp, ring, start, count);
        },
      };
    },
  };
}

/** 'RDMA_WRITE', 'WAIT', '0_WAIT'. */
function nameOf(words: Uint32Array, at: number): string {
  const opcode = words[at + V.WR_OP] & 0xff;
  if (opcode === V.ISO_WR_WAIT && words[at + V.WR_COUNT] === 0) return '0_WAIT';
  return wrOpcodeName(opcode);
}

function argumentsOf(words: Uint32Array, at: number): Arguments {
  const op = words[at + V.WR_OP];
  const opcode = op & 0xff;
  if (opcode === V.ISO_WR_WAIT || opcode === V.ISO_WR_ENABLE) {
    const [count, repeat] = [words[at + V.WR_COUNT], words[at + V.WR_REPEAT]];
    return opcode === V.ISO_WR_WAIT && count === 0 ? { times: Math.max(1, repeat) } : { count };
  }
  const flags = (op >>> 8) & 0xff;
  return { bytes: bytesOf(words, at, op), signaled: (flags & V.IBV_SEND_SIGNALED) !== 0 };
}

/** Bytes of the elements in the slot, which are all that mixes and policies use. */
function bytesOf(words: Uint32Array, at: number, op: number): number {
  if (((op >>> 8) & V.IBV_SEND_INLINE) !== 0) return words[at + V.WR_INLINE_LENGTH];
  let bytes = 0;
  for (let i = 0; i < Math.min(op >>> 16, 2); i++)
    bytes += words[at + V.WR_SGE0 + i * V.SGE_WORDS + V.SGE_LENGTH];
  return bytes;
}
