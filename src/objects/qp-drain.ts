/** Drains the send queue of a queue pair (SQD), or all of the queue pair (ERR). */
import {
  IBV_QPS_SQD,
  InvalidHandleError,
  InvalidStateError,
  QueueFullError,
  WC_ID_HI,
  WC_ID_LO,
} from '../verbs/index.ts';
import type { Completion } from './completion.ts';
import { newTag } from './inbox.ts';
import type { QpDrainOptions } from './qp-options.ts';
import type { QueuePair } from './queue-pair.ts';

/** Polling interval of a draining send queue: a queue pair that fails during the drain raises no event. */
const POLL_EVERY_MS = 50;

/** A full queue in ERR that completes nothing for this long stays full and cannot take the marker request. */
const FULL_FOR_MS = 2000;

/** RTS -> SQD. Resolves when the requests that had begun are done. */
export async function sendQueueDrained(qp: QueuePair): Promise<void> {
  const drained = awaitEvent(qp, 'sqDrained');
  try {
    qp.modify({ qpState: IBV_QPS_SQD, enSqdAsyncNotify: 1 });
    for (;;) {
      const { qpState, sqDraining } = qp.query().attr;
      if (qpState !== IBV_QPS_SQD) {
        throw new InvalidStateError(`${qp.label} went to ${qp.state} during the drain of its send queue`);
      }
      // Some devices do not report sqDraining: wait for the event instead.
      if (sqDraining === false || (await drained.arrivedWithin(POLL_EVERY_MS))) return;
    }
  } finally {
    drained.end();
  }
}

/** One queue of a queue pair. It is empty when its last request, the marker, has completed. */
interface Side {
  isRecv: boolean;
  marker: bigint;
  posted: boolean;
  done: boolean;
}

/** Any state -> ERR. Resolves when all posted requests have completed. */
export async function drainQp(qp: QueuePair, options: QpDrainOptions): Promise<Completion[]> {
  const { lastWqeMs = 1000 } = options;
  if (qp.state === 'RESET') return [];
  const lastWqe = qp.srq === null ? null : awaitEvent(qp, 'qpLastWqeReached');
  try {
    if (qp.type === 'XRC_RECV') {
      qp.toErr();
      return [];
    }
    const collected = collectCompletions(qp);
    try {
      qp.toErr();
      await collected.emptied();
      // The queue pair may still own receives from the shared queue; LAST_WQE_REACHED reports that it has none left.
      if (lastWqe !== null && !(await lastWqe.arrivedWithin(0))) await lastWqe.arrivedWithin(lastWqeMs);
      collected.takeRemaining();
    } finally {
      collected.end();
    }
    return collected.found;
  } finally {
    lastWqe?.end();
  }
}

function createSides(qp: QueuePair): Side[] {
  const sides: Side[] = [];
  const side = (isRecv: boolean) =>
    sides.push({ isRecv, marker: newTag(qp.context.provider), posted: false, done: false });
  if (qp.cap.maxSendWr > 0) side(false);
  if (qp.cap.maxRecvWr > 0 && qp.srq === null && qp.type !== 'XRC_SEND') side(true);
  return sides;
}

/** Claims all completions of a queue pair and waits for those of the markers. */
function collectCompletions(qp: QueuePair) {
  const found: Completion[] = [];
  const sides = createSides(qp);
  const { sendCq, recvCq } = qp;
  let wake = () => {};
  let failure: { error: unknown } | null = null;
  const fail = (error: unknown) => {
    failure = { error };
    wake();
  };
  const claimOn = (cq: typeof sendCq) =>
    cq.claimQp(qp.handle, {
      take(words, at) {
        const wrId = (BigInt(words[at + WC_ID_HI]) << 32n) | BigInt(words[at + WC_ID_LO]);
        const side = sides.find(({ marker }) => marker === wrId);
        if (side === undefined) found.push(cq.read(words, at));
        else side.done = true;
        wake();
        return true;
      },
      abandon: fail,
      fail,
    });
  /** Resolves with true at the next completion, or with false after this much real time. */
  const nextCompletion = (withinMs?: number) =>
    new Promise<boolean>((resolve) => {
      const timer = withinMs === undefined ? undefined : setTimeout(resolve, withinMs, false);
      wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  const ends = [...new Set([sendCq, recvCq])].map(claimOn);
  const post = markerPoster(qp);
  return {
    found,
    async emptied(): Promise<void> {
      for (;;) {
        const refused = sides.filter((side) => !post(side));
        if (sides.every(({ done }) => done)) return;
        const progressed = await nextCompletion(refused.length > 0 ? FULL_FOR_MS : undefined);
        if (failure !== null) throw failure.error;
        // The queue is full and nothing completes to make room: post regardless, and fail.
        if (!progressed) for (const side of refused) post(side, true);
      }
    },
    takeRemaining() {
      for (const cq of new Set([sendCq, recvCq])) cq.distribute();
    },
    end() {
      for (const end of ends) end();
      post.end();
    },
  };
}

/** Posts each marker once. Returns false while the queue is full and must first complete another request. */
function markerPoster(qp: QueuePair) {
  // A marker datagram needs an address although it is never sent.
  const ah = qp.type === 'UD' ? qp.pd.createAhTo(qp.endpoint()) : undefined;
  const post = (side: Side, mustFit = false): boolean => {
    if (side.posted) return true;
    const { isRecv, marker } = side;
    try {
      if (isRecv) {
        qp.receive({ wrId: marker });
        // Soft-RoCE flushes new receives only after another transition to ERR.
        qp.toErr();
      } else {
        const to = ah && { ah, qpNum: qp.qpNum };
        qp.post({ opcode: 'SEND', wrId: marker, to, srqNum: qp.type === 'XRC_SEND' ? 0 : undefined });
      }
      side.posted = true;
    } catch (error) {
      if (mustFit || !(error instanceof QueueFullError)) throw error;
    }
    return side.posted;
  };
  post.end = () => ah?.close();
  return post;
}

/** Listens for an event of a queue pair and keeps the process alive until end(). */
function awaitEvent(qp: QueuePair, name: 'sqDrained' | 'qpLastWqeReached') {
  let arrived = false;
  let wake = () => {};
  const { asyncEvents } = qp.context;
  asyncEvents.addWaiter();
  const listener = () => {
    arrived = true;
    wake();
  };
  qp.on(name, listener);
  const offClose = qp.onClose(() => wake());
  return {
    /** Whether the event arrives within this many milliseconds of real time. */
    async arrivedWithin(ms: number): Promise<boolean> {
      if (!arrived && ms > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      if (qp.closed) throw new InvalidHandleError(`${qp.label} was closed during its drain`);
      return arrived;
    },
    end(): void {
      qp.off(name, listener);
      offClose();
      asyncEvents.removeWaiter();
    },
  };
}
