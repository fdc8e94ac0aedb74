/**
 * Messages that go before all others (section IV-C): short ones of queue pairs with the label latency. The paper does not
 * limit their rate, so one queue pair with the label could take the whole link. Here, they take at most a part of it
 * while others have something to send. Beyond that, tenants share this part by bytes, and their queue pairs go in turn, one
 * message of each, as tokens arrive.
 */
import { BYTES } from '../../shim/counters.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import type { Actions, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { fitColumn } from '../../shim/tables.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { byTenant, Entities } from '../kit/entities.ts';
import type { EventClock } from '../kit/event-clock.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { egressBytes, type WireFacts } from '../kit/wire.ts';

/** Queues of a tenant's queue pairs: a queue pair that sends single messages passes those that always have another. */
const NEW = 0;
const SERVED = 1;

/** The limits on the urgent messages of a device. */
export interface UrgentOptions {
  readonly wire: WireFacts;
  readonly clock: EventClock;
  /** Bytes on the wire per nanosecond, and those that may be sent at once. */
  readonly perNs: number;
  readonly burstBytes: number;
  /** The longest message that is urgent; -1: none is. */
  readonly longestBytes: number;
}

/** The urgent messages of one device. */
export class Urgent {
  private readonly bucket: Bucket;
  private readonly wire: WireFacts;
  private readonly clock: EventClock;
  private longestBytes: number;
  private perNs: number;
  /** The number of queue pairs of each tenant that have just begun to wait, and whether a queue pair is among them. */
  private newCounts: Int32Array = new Int32Array(16);
  private isNew: Uint8Array = new Uint8Array(64);
  /**
   * Bytes on the wire in a turn of a tenant, no more than a short message; and, by tenant, by how much its messages have
   * exceeded its turns. The others have as many turns first.
   */
  private readonly turnBytes: number;
  private owed: Float64Array = new Float64Array(16);
  /** The longest wait for tokens, in ns, for which a single message is still urgent. */
  patienceNs = 0;
  /** Queue pairs whose oldest held request is urgent: two queues for each tenant, NEW and SERVED. */
  private readonly waiting = new RunQueue();
  /** Tenants with queue pairs that wait, in turn. */
  private readonly tenants = new RunQueue();
  private readonly entities = new Entities({ keyOf: byTenant });
  private readonly qps: (QpView | undefined)[] = [];

  constructor({ wire, clock, perNs, burstBytes, longestBytes }: UrgentOptions) {
    this.wire = wire;
    this.clock = clock;
    this.turnBytes = egressBytes(wire, IBV_WR_RDMA_WRITE, 0);
    this.bucket = new Bucket({ burst: burstBytes, perNs });
    this.longestBytes = longestBytes;
    this.perNs = perNs;
  }

  /** Changes the limits. */
  configure({ perNs, burstBytes, longestBytes }: Omit<UrgentOptions, 'wire' | 'clock'>, nowNs: number): void {
    this.bucket.fill(nowNs);
    this.bucket.setRate(perNs);
    this.bucket.setBurst(burstBytes);
    this.longestBytes = longestBytes;
    this.perNs = perNs;
  }

  /** Whether queue pairs wait here. */
  get isEmpty(): boolean {
    return this.tenants.first() === NONE;
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

  /**
   * Whether the oldest held request is urgent: it is short enough, and the tokens for it, and for queue pairs of its tenant
   * that wait ahead of it, arrive sooner than it would have its turn among ordinary messages. A queue pair with more than
   * one request outstanding waits in any case: it would send another one at once.
   */
  admits(qp: QpView, out: Actions): boolean {
    if (out.nextBytes(qp) > this.longestBytes) return false;
    if (this.bucket.tokens > 0 || out.outstanding(qp) > 1) return true;
    const ahead = this.newCounts[this.entities.of(qp)] - this.isNew[qp.index];
    const aheadBytes = ahead * egressBytes(this.wire, out.nextOpcode(qp), out.nextBytes(qp));
    const readyNs = this.bucket.readyNs(1) + aheadBytes / this.perNs;
    return readyNs - this.clock.nowNs(qp.context, out) <= this.patienceNs;
  }

  /** A queue pair was created. */
  add(qp: QpView): void {
    this.qps[qp.index] = qp;
    const tenant = this.entities.join(qp);
    this.newCounts = fitColumn(this.newCounts, tenant);
    this.owed = fitColumn(this.owed, tenant);
    this.isNew = fitColumn(this.isNew, qp.index);
  }

  /** The queue pair was destroyed. */
  drop(qp: QpView): void {
    this.leave(qp);
    this.entities.leave(qp);
    this.qps[qp.index] = undefined;
  }

  /** The queue pair's oldest held request is urgent. `serve` issues it. */
  enlist(qp: QpView): void {
    this.push(qp, NEW);
  }

  /** The queue pair no longer waits here. */
  leave(qp: QpView): void {
    if (this.waiting.has(qp.index)) this.remove(qp);
  }

  /**
   * Issues urgent messages, one of each queue pair in turn, while there are tokens. Returns a queue pair whose next
   * message is not urgent, for others to serve; null: there is none.
   * @param isAlone whether no other requests wait for the link
   */
  serve(out: Actions, isAlone: boolean, token: number): QpView | null {
    const { bucket, wire } = this;
    let index = this.first();
    if (index === NONE) return null;
    bucket.fill(this.clock.nowNs(this.qps[index]!.context, out));
    for (; index !== NONE; index = this.first()) {
      const qp = this.qps[index]!;
      const isHeld = out.backlog(qp) > 0;
      const isOther = isHeld && out.nextBytes(qp) > this.longestBytes;
      if (isHeld && !isOther && !isAlone && bucket.tokens <= 0) break;
      this.remove(qp);
      if (!isHeld) continue;
      if (isOther) return qp;
      const opcode = out.nextOpcode(qp);
      const bytes = step(qp, out, this.longestBytes);
      // A queue pair that could not be served waits for completions, not for tokens.
      if (bytes === BLOCKED) continue;
      const wireBytes = egressBytes(wire, opcode, bytes);
      this.take(wireBytes, isAlone);
      this.owe(this.entities.of(qp), wireBytes);
      if (out.backlog(qp) > 0) this.push(qp, SERVED);
    }
    if (index !== NONE) out.timer(this.qps[index]!.context, bucket.readyNs(1), token);
    return null;
  }

  /** A tenant has sent a message. No more than one of the longest messages is owed. */
  private owe(tenant: number, wireBytes: number): void {
    const { owed } = this;
    const most = egressBytes(this.wire, IBV_WR_RDMA_WRITE, Math.max(0, this.longestBytes));
    owed[tenant] = Math.min(most, Math.max(-this.turnBytes, owed[tenant] + wireBytes - this.turnBytes));
  }

  /** The queue pair whose turn it is; NONE: none waits. */
  private first(): number {
    const { tenants, owed } = this;
    let tenant = tenants.first();
    if (tenant === NONE) return NONE;
    for (; owed[tenant] > 0 && tenant !== tenants.last(); tenant = tenants.first()) {
      owed[tenant] -= this.turnBytes;
      tenants.moveToEnd(tenant);
    }
    const index = this.waiting.first(2 * tenant + NEW);
    return index === NONE ? this.waiting.first(2 * tenant + SERVED) : index;
  }

  private push(qp: QpView, queue: number): void {
    if (this.waiting.has(qp.index)) return;
    const tenant = this.entities.of(qp);
    this.waiting.push(qp.index, 2 * tenant + queue);
    this.tenants.push(tenant);
    if (queue !== NEW) return;
    this.isNew[qp.index] = 1;
    this.newCounts[tenant]++;
  }

  /** Removes a queue pair. Its tenant waits for its next turn. */
  private remove(qp: QpView): void {
    const tenant = this.entities.of(qp);
    this.waiting.remove(qp.index);
    this.tenants.remove(tenant);
    this.newCounts[tenant] -= this.isNew[qp.index];
    this.isNew[qp.index] = 0;
    const { waiting } = this;
    if (waiting.first(2 * tenant + NEW) !== NONE || waiting.first(2 * tenant + SERVED) !== NONE)
      this.tenants.push(tenant);
  }

  /** Takes tokens. A message that goes while no others wait leaves no debt. */
  private take(bytes: number, isAlone: boolean): void {
    const { bucket } = this;
    bucket.take(isAlone ? Math.min(bytes, Math.max(0, bucket.tokens)) : bytes);
  }
}
