/**
 * Requests that were posted and are not known to have ended, and the contents of memory that follow from them: a request
 * that succeeded has taken full effect; the effect of one that failed or was lost is unknown.
 */
import * as V from '../../../src/verbs/index.ts';
import type { Range } from './memory.ts';
import { comesBack, isMessage } from './op.ts';
import { apply, doubt, type Posted, type Route, type Side } from './posts.ts';
import type { SideName } from './setup.ts';

const GRH_BYTES = 40;

export interface Queue {
  readonly name: string;
  readonly side: SideName;
  readonly info: V.QpInfo;
  readonly type: number;
  route: Route;
  /** Requests posted and not known to have ended. */
  sends: Posted[];
  /** Messages that the peer has not received yet. */
  mail: Posted[];
  failed: boolean;
  isOpen: boolean;
}

export class Ledger {
  private readonly sides: Record<SideName, Side>;
  private readonly queues: ReadonlyMap<string, Queue>;
  private readonly note: (text: string) => void;
  private readonly receives = new Map<string, Range[]>();

  /** @param note records a violation */
  constructor(
    sides: Record<SideName, Side>,
    queues: ReadonlyMap<string, Queue>,
    note: (text: string) => void,
  ) {
    this.sides = sides;
    this.queues = queues;
    this.note = note;
  }

  posted(queue: Queue, posted: Posted): void {
    queue.sends.push(posted);
    if (isMessage(posted.op.kind) || posted.op.kind === 'writeImm') queue.mail.push(posted);
    if (posted.op.isLost) this.doubtReceives();
    if (posted.op.isFaulty) doubt(posted, queue.route);
  }

  willReceive(side: SideName, id: number, ranges: Range[]): void {
    this.receives.set(`${side}${id}`, ranges);
  }

  /** A send completed, and so have earlier ones. */
  sent(queue: Queue, wcs: V.WcBatch, i: number): void {
    const id = wcs.wrIdBigInt(i);
    const at = queue.sends.findIndex((posted) => posted.id === id);
    if (at < 0) return;
    const done = queue.sends.splice(0, at + 1);
    const last = done.pop() as Posted;
    for (const posted of done) apply(posted, queue.route);
    if (wcs.status(i) === V.IBV_WC_SUCCESS) {
      apply(last, queue.route);
      const { to, from } = queue.route;
      const target = comesBack(last.op.kind) ? from.memory.holds(last.local) : to.memory.holds(last.remote);
      const isReliable = queue.type === V.IBV_QPT_RC || queue.type === V.IBV_QPT_XRC_SEND;
      if (isReliable && !target) this.note(`${last.id} completes before its data has arrived`);
      return;
    }
    queue.failed = queue.type !== V.IBV_QPT_UD;
    doubt(last, queue.route);
    if (queue.failed) for (const posted of queue.sends) doubt(posted, queue.route);
    if (isMessage(last.op.kind)) this.doubtReceives();
  }

  /** A receive completed; it must contain what the peer sent. */
  received(queue: Queue, wcs: V.WcBatch, i: number): void {
    const ranges = this.receives.get(`${queue.side}${wcs.wrId(i)}`) ?? [];
    this.receives.delete(`${queue.side}${wcs.wrId(i)}`);
    const { memory } = this.sides[queue.side];
    if (wcs.status(i) !== V.IBV_WC_SUCCESS) {
      memory.forget(ranges);
      return;
    }
    const sender = this.queues.get(`${queue.side === 'a' ? 'b' : 'a'}${queue.name.slice(1)}`) as Queue;
    const header = queue.type === V.IBV_QPT_UD ? GRH_BYTES : 0;
    const isWrite = wcs.opcode(i) === V.IBV_WC_RECV_RDMA_WITH_IMM;
    const bytes = wcs.byteLen(i) - header;
    const at = sender.mail.findIndex(
      ({ op, data }) => (op.kind === 'writeImm') === isWrite && data.length === bytes && !op.isLost,
    );
    if (at < 0) {
      this.note(`${queue.name} received data that was not sent`);
      return;
    }
    const [mail] = sender.mail.splice(at, 1);
    if (isWrite) apply(mail, sender.route);
    else {
      if (header > 0) memory.forget([[ranges[0][0], header]]);
      memory.write(skip(ranges, header), mail.data);
    }
  }

  /** Requests of a queue pair that was destroyed or reset will not complete. */
  lost(queue: Queue): void {
    for (const posted of queue.sends.splice(0)) doubt(posted, queue.route);
    this.doubtReceives();
  }

  /** Once a message failed, the receives behind the one that it took are undefined. */
  doubtReceives(): void {
    for (const [key, ranges] of this.receives) this.sides[key[0] as SideName].memory.forget(ranges);
  }

  /** At the end, requests without a completion have taken effect, except failed ones. */
  close(): void {
    for (const queue of this.queues.values()) {
      for (const posted of queue.sends) {
        if (queue.failed) doubt(posted, queue.route);
        else apply(posted, queue.route);
      }
    }
  }
}

function skip(ranges: readonly Range[], bytes: number): Range[] {
  let left = bytes;
  return ranges.map(([at, length]): Range => {
    const cut = Math.min(left, length);
    left -= cut;
    return [at + cut, length - cut];
  });
}
