/** Waiting until a queue pair has nothing under way: its send queue (SQD), or all of it (ERR). */
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

/** How often to look at a send queue that should drain: one that failed tells nobody. */
const POLL_EVERY_MS = 50;

/** A queue in ERR that is full, and that gives nothing back for so long, stays full: no request of ours will fit. */
const FULL_FOR_MS = 2000;

/** RTS -> SQD, until what had begun is done. */
export async function sendQueueDrained(qp: QueuePair): Promise<void> {
  const drained = awaitEvent(qp, 'sqDrained');
  try {
    qp.modify({ qpState: IBV_QPS_SQD, enSqdAsyncNotify: 1 });
    for (;;) {
      const { qpState, sqDraining } = qp.query().attr;
      if (qpState !== IBV_QPS_SQD) {
        throw new InvalidStateError(`${qp.label} went to ${qp.state} while its send queue was drained`);
      }
      // Not every device tells whether it is still draining: then the event does.
      if (sqDraining === false || (await drained.within(POLL_EVERY_MS))) return;
    }
  } finally {
    drained.end();
  }
}

/** One queue of a queue pair: empty when the request that is put last into it has come back. */
interface Side {
  isRecv: boolean;
  marker: bigint;
  posted: boolean;
  done: boolean;
}

/** Any state -> ERR, until everything posted has come back. */
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
      // Receives that it has taken from the shared queue are its own; when it has no more is for the device to say.
      if (lastWqe !== null && !(await lastWqe.within(0))) await lastWqe.within(lastWqeMs);
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

/** Takes all completions of a queue pair; tells when those of the markers have come. */
function collectCompletions(qp: QueuePair) {
  const found: Completion[] = [];
  const sides = createSides(qp);
  const { sendCq, recvCq } = qp;
  let wake = () => {};
  let broken: { error: unknown } | null = null;
  const fail = (error: unknown) => {
    broken = { error };
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
  /** Whether something came before so much real time had gone by. */
  const moved = (withinMs?: number) =>
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
        const came = await moved(refused.length > 0 ? FULL_FOR_MS : undefined);
        if (broken !== null) throw broken.error;
        // Full, and nothing comes back to make room: it would stay so.
        if (!came) for (const side of refused) post(side, true);
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

/** Posts markers, each once: false when the queue is full, so that something else must come back first. */
function markerPoster(qp: QueuePair) {
  // The one datagram that goes nowhere needs an address all the same.
  const ah = qp.type === 'UD' ? qp.pd.createAhTo(qp.endpoint()) : undefined;
  const post = (side: Side, mustFit = false): boolean => {
    if (side.posted) return true;
    const { isRecv, marker } = side;
    try {
      if (isRecv) {
        qp.receive({ wrId: marker });
        // Some devices look at a receive queue in ERR only when they are told again (soft-RoCE).
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

/** Listens for an event of a queue pair, and keeps the process alive, until end(). */
function awaitEvent(qp: QueuePair, name: 'sqDrained' | 'qpLastWqeReached') {
  let came = false;
  let wake = () => {};
  const { asyncEvents } = qp.context;
  asyncEvents.addWaiter();
  const listener = () => {
    came = true;
    wake();
  };
  qp.on(name, listener);
  const offClose = qp.onClose(() => wake());
  return {
    /** Whether it came within so many milliseconds of real time. */
    async within(ms: number): Promise<boolean> {
      if (!came && ms > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      if (qp.closed) throw new InvalidHandleError(`${qp.label} was closed while it was drained`);
      return came;
    },
    end(): void {
      qp.off(name, listener);
      offClose();
      asyncEvents.removeWaiter();
    },
  };
}
