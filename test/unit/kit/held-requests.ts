// Queue pairs that hold requests, as the kit's parts see them through Actions.

import type { Actions, ContextView, QpView } from '../../../src/shim/policy.ts';
import { IBV_QPT_RC, IBV_WR_RDMA_WRITE, ISO_WR_WAIT } from '../../../src/verbs/constants.ts';

/** A held request. */
export interface Held {
  bytes: number;
  opcode?: number;
  splittable?: boolean;
  /** Whether it is a WAIT for completions, and is satisfied. */
  satisfied?: boolean;
}

/** An issued piece, or a whole request. */
export interface Issued {
  readonly qp: number;
  readonly bytes: number;
  readonly isLast: boolean;
}

/** Simulated queue pairs with `depth` slots each. */
export class HeldRequests {
  readonly issued: Issued[] = [];
  nowNs = 0;
  timerNs = Number.POSITIVE_INFINITY;
  readonly depth: number;
  private readonly held: Held[][] = [];
  private readonly flying: number[][] = [];

  constructor(depth: number) {
    this.depth = depth;
  }

  /** A queue pair with this index. */
  qp(index: number, context: Partial<ContextView> = {}): QpView {
    this.held[index] ??= [];
    this.flying[index] ??= [];
    const view = { index: 0, handle: 0, device: 'sim0', tenant: '', nic: null, ...context };
    return { index, handle: index, context: view, type: IBV_QPT_RC, broken: false } as QpView;
  }

  hold(index: number, ...requests: Held[]): void {
    this.held[index].push(...requests);
  }

  /** Issues a request that was not held. */
  passBy(index: number, bytes: number): void {
    this.flying[index].push(bytes);
  }

  /** Completes the oldest `count` slots of a queue pair. */
  complete(index: number, count = Number.POSITIVE_INFINITY): void {
    this.flying[index].splice(0, count);
  }

  private issue(qp: number, bytes: number): void {
    if (this.flying[qp].length >= this.depth) throw new Error(`queue pair ${qp} has no room`);
    const [oldest] = this.held[qp];
    const isLast = bytes >= oldest.bytes;
    this.issued.push({ qp, bytes: Math.min(bytes, oldest.bytes), isLast });
    this.flying[qp].push(Math.min(bytes, oldest.bytes));
    if (isLast) this.held[qp].shift();
    else oldest.bytes -= bytes;
  }

  readonly out = {
    wait: 'none',
    backlog: ({ index }) => this.held[index].length,
    room: ({ index }) => this.depth - this.flying[index].length,
    inflight: ({ index }) => this.flying[index].length,
    inflightBytes: ({ index }) => this.flying[index].reduce((sum, bytes) => sum + bytes, 0),
    nextBytes: ({ index }) => this.held[index][0]?.bytes ?? -1,
    nextOpcode: ({ index }) => this.held[index][0].opcode ?? IBV_WR_RDMA_WRITE,
    splittable: ({ index }) => this.held[index][0].splittable !== false,
    isCrossChannel: ({ index }) => this.held[index][0].opcode === ISO_WR_WAIT,
    execute: ({ index }) => {
      const isDone = this.held[index][0].satisfied === true;
      if (isDone) this.held[index].shift();
      return isDone;
    },
    pass: ({ index }) => this.issue(index, Number.POSITIVE_INFINITY),
    piece: ({ index }, bytes) => this.issue(index, bytes),
    signalNow: () => {},
    nowNs: () => this.nowNs,
    timer: (_context, atNs) => {
      this.timerNs = atNs;
    },
  } as Partial<Actions> as Actions;
}
