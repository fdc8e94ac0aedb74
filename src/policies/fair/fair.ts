/**
 * fair: tenants share what they need most, the link or the processing units of a device, in proportion to their weights.
 * Small messages of a tenant that has had less than its share pass at once; all others wait until little is in flight.
 */
import type { Actions, Policy, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import { mergeOptions } from '../parse-options.ts';
import { type FairOptions, fairOptions } from './options.ts';
import { Scheduler, TIMER_KINDS } from './scheduler.ts';

/** The policy fair. */
export class Fair implements Policy {
  readonly name = 'fair';
  readonly needs = { wait: 'none' } as const;
  /** The most pieces of the oldest message that may be in the device's queue. */
  readonly slots = 16;
  readonly splitsAboveBytes: number;
  /** The shim executes the application's WAITs, because the device would count the completions of pieces. */
  readonly crossChannel = true;
  readonly statistics = 'itself';
  private options: FairOptions;
  private readonly schedulers: Scheduler[] = [];
  private readonly byContext: Scheduler[] = [];
  private readonly byQp: (Scheduler | undefined)[] = [];

  constructor(options: FairOptions) {
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
  }

  setup({ context }: Resources): void {
    const known = this.schedulers.find(({ device }) => device === context.device);
    const scheduler = known ?? new Scheduler(this.schedulers.length, context, this.options);
    if (known === undefined) this.schedulers.push(scheduler);
    this.byContext[context.index] = scheduler;
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('fair', fairOptions, this.options, changes, []);
    for (const scheduler of this.schedulers) scheduler.configure(this.options, out);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') {
      this.byQp[qp.index] = this.byContext[qp.context.index];
      this.byQp[qp.index]!.add(qp, out);
      return;
    }
    const scheduler = this.byQp[qp.index];
    if (scheduler === undefined) return;
    if (change === 'labels') scheduler.relabel(qp);
    else scheduler.changed(qp, change, out);
    if (change === 'destroyed') this.byQp[qp.index] = undefined;
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number, out?: Actions): number {
    return out === undefined ? 0 : this.byQp[qp.index]!.onload(qp, words, start, count);
  }

  feed(qp: QpView, out: Actions): void {
    if (out.backlog(qp) > 0) this.byQp[qp.index]?.feed(qp, out);
  }

  onCompleted(qp: QpView, _count: number, out: Actions): void {
    this.byQp[qp.index]?.onCompleted(qp, out);
  }

  onTimer(token: number, out: Actions): void {
    this.schedulers[Math.floor(token / TIMER_KINDS)]?.onTimer(token % TIMER_KINDS, out);
  }
}
