/**
 * Limits READs to the rates that their responders allow, because the data leaves through the responder's device
 * (section 4.5 of the paper). Each context has a limit for each responder.
 */
import { Bucket } from '../../shim/limits/bucket.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';

interface Limit {
  readonly context: ContextView;
  bucket: Bucket;
  /** The time of the last attempt. */
  triedNs: number;
  /** The rate that the responder allows for a unit of weight, in bytes per nanosecond; 0: no limit. */
  perWeight: number;
}

/** The limits on READs of all contexts. */
export class ReadLimits {
  private readonly limits: Limit[] = [];
  private readonly byKey = new Map<string, number>();
  /** By queue pair: its limit plus one. */
  private limitOf: Int32Array = new Int32Array(64);
  /** Queue pairs that wait, a queue for each limit. */
  private readonly parked = new RunQueue();

  private keyOf(context: ContextView, gid: string): string {
    return `${context.index} ${gid}`;
  }

  /** Sets the rate that a responder allows for a unit of weight, in Gbit/s; 0 if it is unknown. */
  allow(context: ContextView, gid: string, gbps: number, burstBytes: number): void {
    const key = this.keyOf(context, gid);
    let index = this.byKey.get(key);
    if (index === undefined) {
      if (gbps === 0) return;
      index = this.limits.length;
      this.byKey.set(key, index);
      this.limits.push({ context, bucket: new Bucket({ burst: burstBytes }), triedNs: 0, perWeight: 0 });
    }
    this.limits[index].perWeight = gbps / 8;
  }

  /** A context was opened, possibly with the index of one that was closed. */
  open(context: ContextView): void {
    for (const limit of this.limits) if (limit.context.index === context.index) limit.perWeight = 0;
  }

  /** Finds the limit of a queue pair that READs. */
  assign(qp: QpView): void {
    this.limitOf = fitColumn(this.limitOf, qp.index);
    this.limitOf[qp.index] = (this.byKey.get(this.keyOf(qp.context, qp.dgid)) ?? NONE) + 1;
  }

  /**
   * Whether a queue pair may READ now. If not, it is parked until `unpark` returns it.
   * @param weight the weight with which the context counts at the responder
   */
  admits(qp: QpView, weight: number, nowNs: number): boolean {
    const limit = this.limits[this.limitOf[qp.index] - 1];
    if (limit === undefined || limit.perWeight === 0) return true;
    // After a clock has jumped back, the bucket would get no tokens until the clock has caught up.
    if (nowNs < limit.triedNs) {
      const { burst, tokens } = limit.bucket;
      limit.bucket = new Bucket({ burst, tokens, nowNs });
    }
    limit.triedNs = nowNs;
    limit.bucket.fill(nowNs);
    limit.bucket.setRate(limit.perWeight * weight);
    if (limit.bucket.tokens > 0) return true;
    this.parked.push(qp.index, this.limitOf[qp.index] - 1);
    return false;
  }

  /** Charges a queue pair for a READ. */
  charge(qp: QpView, bytes: number): void {
    this.limits[this.limitOf[qp.index] - 1]?.bucket.take(bytes);
  }

  /** When a queue pair that was not admitted may try again. */
  readyNs(qp: QpView): number {
    return this.limits[this.limitOf[qp.index] - 1].bucket.readyNs(1);
  }

  /** Removes and returns a parked queue pair; NONE if there is none. */
  unpark(): number {
    const level = this.parked.firstLevel();
    return level === NONE ? NONE : this.parked.shift(level);
  }

  /** A queue pair is destroyed. */
  forget(index: number): void {
    this.parked.remove(index);
    if (index < this.limitOf.length) this.limitOf[index] = 0;
  }
}
