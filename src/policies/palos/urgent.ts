/**
 * Messages that go before all others (section IV-C): short ones of queue pairs with the label latency. The paper has no
 * limit on their rate, so that a label takes the whole link. Here they take at most a part of it while others have
 * something to send; beyond that they go in turn, one message of each queue pair, as tokens arrive.
 */
import { BYTES } from '../../shim/counters.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import type { Actions, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import * as L from '../../verbs/layout.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, type WireFacts } from '../kit/wire.ts';

/** What a device's link has left over for urgent messages, as a limit. */
export interface UrgentOptions {
  readonly wire: WireFacts;
  /** Bytes on the wire per nanosecond, and those that may be sent at once. */
  readonly perNs: number;
  readonly burstBytes: number;
  /** The longest message that is urgent. */
  readonly longestBytes: number;
}

/** The urgent messages of one device. */
export class Urgent {
  private readonly bucket: Bucket;
  private readonly wire: WireFacts;
  private longestBytes: number;
  /** Queue pairs whose oldest held request is urgent. */
  private readonly waiting = new RunQueue();
  private readonly qps: (QpView | undefined)[] = [];

  constructor({ wire, perNs, burstBytes, longestBytes }: UrgentOptions) {
    this.wire = wire;
    this.bucket = new Bucket({ burst: burstBytes, perNs });
    this.longestBytes = longestBytes;
  }

  /** Changes the limits. */
  configure({ perNs, burstBytes, longestBytes }: Omit<UrgentOptions, 'wire'>, nowNs: number): void {
    this.bucket.fill(nowNs);
    this.bucket.setRate(perNs);
    this.bucket.setBurst(burstBytes);
    this.longestBytes = longestBytes;
  }

  /** Whether queue pairs wait here. */
  get isEmpty(): boolean {
    return this.waiting.first() === NONE;
  }

  /**
   * How many of the requests start .. start + count - 1 may go at once. Counts their bytes.
   * @param isAlone whether no other requests wait for the link
   */
  admit(
    qp: QpView,
    words: Uint32Array,
    start: number,
    count: number,
    nowNs: number,
    isAlone: boolean,
  ): number {
    const { bucket, wire } = this;
    if (!this.isEmpty) return 0;
    bucket.fill(nowNs);
    let i = 0;
    for (; i < count && (isAlone || bucket.tokens > 0); i++) {
      const at = L.slotAt(start + i);
      if (words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > this.longestBytes) break;
      this.take(egressBytes(wire, words[at + L.WR_OP] & 0xff, bytes), isAlone);
      qp.counts[BYTES] += bytes;
    }
    return i;
  }

  /** Whether the oldest held request is urgent by its length. */
  admits(qp: QpView, out: Actions): boolean {
    return out.nextBytes(qp) <= this.longestBytes;
  }

  /** The queue pair's oldest held request is urgent. `serve` issues it. */
  enlist(qp: QpView): void {
    this.qps[qp.index] = qp;
    this.waiting.push(qp.index);
  }

  /** The queue pair is no longer there, or no longer urgent. */
  forget({ index }: { readonly index: number }): void {
    this.waiting.remove(index);
    this.qps[index] = undefined;
  }

  /**
   * Issues urgent messages, one of each queue pair in turn, while there are tokens. Returns a queue pair whose next
   * message is not urgent, for others to serve; null: there is none.
   * @param isAlone whether no other requests wait for the link
   */
  serve(out: Actions, isAlone: boolean, token: number): QpView | null {
    const { bucket, waiting, wire } = this;
    let index = waiting.first();
    if (index === NONE) return null;
    bucket.fill(out.nowNs(this.qps[index]!.context));
    for (; index !== NONE && (isAlone || bucket.tokens > 0); index = waiting.first()) {
      const qp = this.qps[index]!;
      waiting.remove(index);
      if (out.backlog(qp) === 0) continue;
      if (!this.admits(qp, out)) return qp;
      const opcode = out.nextOpcode(qp);
      const bytes = step(qp, out, this.longestBytes);
      // A queue pair that could not be served waits for completions, not for tokens.
      if (bytes === BLOCKED) continue;
      this.take(egressBytes(wire, opcode, bytes), isAlone);
      waiting.push(index);
    }
    if (index !== NONE) out.timer(this.qps[index]!.context, bucket.readyNs(1), token);
    return null;
  }

  /** Takes tokens. What goes while no others wait leaves no debt. */
  private take(bytes: number, isAlone: boolean): void {
    const { bucket } = this;
    bucket.take(isAlone ? Math.min(bytes, Math.max(0, bucket.tokens)) : bytes);
  }
}
