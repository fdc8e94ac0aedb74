/**
 * The order of one direction: queue pairs with a rate go first, when their rates allow it. The others share what is left,
 * as under the policy fair.
 */
import { fitColumn } from '../../shim/tables.ts';
import type { Costs } from '../fair/dominant-order.ts';
import { PacedOrder } from '../fair/paced-order.ts';
import { NONE } from '../kit/run-queue.ts';
import type { RateTable } from './rate-table.ts';
import { Tags } from './tags.ts';

/** What is left of the turn of a queue pair with a rate: turns are one piece long, which is decided elsewhere. */
const ENDLESS_BYTES = 2 ** 40;

/** Queue pairs with rates, before all others. */
export class TasselOrder extends PacedOrder {
  readonly tags: Tags;
  private readonly rates: RateTable;
  /** By queue pair: 1 if it has joined with a rate. */
  private joined: Uint8Array = new Uint8Array(64);

  /** @param capacity of the link, in bytes on the wire per ns. The other arguments are those of PacedOrder. */
  constructor(
    rates: RateTable,
    capacity: number,
    ...rest: [(qp: number) => number, Costs, (tenant: number) => boolean]
  ) {
    super(...rest);
    this.rates = rates;
    this.tags = new Tags(rates, capacity);
  }

  readonly measures = true;

  override get ignoresTime(): boolean {
    return this.tags.count === 0 && super.ignoresTime;
  }

  override get wakeNs(): number {
    return Math.min(this.tags.wakeNs, super.wakeNs);
  }

  override get isShared(): boolean {
    return this.tags.count > 0 || super.isShared;
  }

  override get isIdle(): boolean {
    return this.tags.count === 0 && super.isIdle;
  }

  override get isOneTenant(): boolean {
    return this.tags.count === 0 && super.isOneTenant;
  }

  paces(qp: number): boolean {
    return this.rates.isRated(qp);
  }

  lateBytes(qp: number): number {
    const { lateNs } = this.tags;
    return lateNs > 0 && this.rates.isRated(qp) ? lateNs / this.rates.lowestNsOf(qp) : 0;
  }

  onFull(): void {
    this.tags.ignoreWake();
  }

  dueBytes(qp: number): number {
    return this.joined[qp] === 1 && this.tags.lateNs > 0 ? this.tags.dueBytes(qp) : 0;
  }

  override isReady(qp: number): boolean {
    return this.joined[qp] === 1 || super.isReady(qp);
  }

  /** Queue pairs that wait for their rates do not wait for the window. */
  override waits(qp: number): boolean {
    return !this.rates.isRated(qp) && super.waits(qp);
  }

  override reset(qp: number): void {
    super.reset(qp);
    this.joined = fitColumn(this.joined, qp);
    this.joined[qp] = 0;
    this.tags.add(qp);
  }

  override creditOf(qp: number): number {
    return this.joined[qp] === 1 ? ENDLESS_BYTES : super.creditOf(qp);
  }

  override join(qp: number, wireBytes = 0): void {
    if (!this.rates.isRated(qp)) {
      super.join(qp);
      this.tags.setRest(true);
      return;
    }
    this.joined[qp] = 1;
    this.tags.join(qp, this.held[qp] === 1, wireBytes);
    this.held[qp] = 0;
  }

  override leave(qp: number): void {
    if (this.joined[qp] === 0) {
      super.leave(qp);
      if (super.isIdle) this.tags.setRest(false);
      return;
    }
    this.joined[qp] = 0;
    this.tags.leave(qp);
  }

  override next(nowNs = 0): number {
    const { tags } = this;
    if (tags.count === 0) return super.next(nowNs);
    tags.now[0] = nowNs;
    const rated = tags.next();
    if (rated !== NONE && !(tags.isRestDue && !super.isIdle)) return rated;
    const other = super.next(nowNs);
    return other === NONE ? rated : other;
  }

  override charge(qp: number, wireBytes: number): void {
    if (this.joined[qp] === 0) {
      super.charge(qp, wireBytes);
      if (this.tags.count > 0) this.tags.chargeRest(wireBytes);
      return;
    }
    this.tags.charge(qp, wireBytes);
    this.countRated(qp, wireBytes, 1);
  }

  override spend(qp: number, bytes: number): void {
    if (this.joined[qp] === 0) super.spend(qp, bytes);
  }

  override yield(qp: number): void {
    if (this.joined[qp] === 0) super.yield(qp);
  }

  /**
   * Whether a short message of a queue pair with a rate, none of whose messages waits, may go at once. Its bytes on the wire
   * are then charged. `tags.advance` must have been called.
   */
  passRated(qp: number, wireBytes: number): boolean {
    if (!this.tags.pass(qp, wireBytes)) return false;
    this.countRated(qp, wireBytes, 1);
    return true;
  }

  /** Rates of a queue pair are about to change. Returns whether it had joined: it must then join again. */
  suspend(qp: number): boolean {
    const wasReady = this.isReady(qp);
    if (wasReady) this.leave(qp);
    this.tags.suspend(qp);
    // It has something to send all the time.
    if (wasReady) this.hold(qp);
    return wasReady;
  }
}
