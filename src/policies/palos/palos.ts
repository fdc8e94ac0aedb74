/**
 * Palos: weights divide a device among tenants, then among the groups of a tenant, and then among the queue pairs of a
 * group. The paper changes the NIC. This policy keeps the same order in front of a stock NIC, which follows it while
 * little is in flight.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import { mergeOptions } from '../parse-options.ts';
import { FIXED, type PalosOptions, palosOptions } from './options.ts';
import { Scheduler, TIMER_KINDS, tenantOf } from './scheduler.ts';

/** The policy palos. */
export class Palos implements Policy {
  readonly name = 'palos';
  readonly needs = { wait: 'none' } as const;
  /** The most pieces of the oldest message that may be in the device's queue. */
  readonly slots = 16;
  readonly splitsAboveBytes: number;
  /** The shim executes the application's WAITs, because the device would count the completions of pieces. */
  readonly crossChannel = true;
  readonly statistics = 'itself';
  private options: PalosOptions;
  private readonly registry: CoordinatorRegistry;
  private readonly schedulers: Scheduler[] = [];
  // By context, and by queue pair.
  private readonly byContext: Scheduler[] = [];
  private readonly byQp: (Scheduler | undefined)[] = [];
  private contexts: ContextView[] = [];

  constructor(options: PalosOptions, coordinators: CoordinatorRegistry) {
    this.options = options;
    this.registry = coordinators;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
  }

  setup({ context }: Resources, out: Actions): void {
    const known = this.schedulers.find(({ device }) => device === context.device);
    const scheduler = known ?? new Scheduler(this.schedulers.length, context, this.options, this.registry);
    if (known === undefined) this.schedulers.push(scheduler);
    this.byContext[context.index] = scheduler;
    this.contexts = this.contexts.filter((one) => this.registry.has(one));
    this.contexts.push(context);
    // Options that have changed while no context of the device was open.
    known?.configure(this.options, context, out);
    scheduler.open(context, out);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('palos', palosOptions, this.options, changes, FIXED);
    for (const scheduler of this.schedulers) {
      const context = this.openContext(scheduler);
      if (context !== undefined) scheduler.configure(this.options, context, out);
    }
  }

  /** An open context of a device; undefined if there is none. */
  private openContext({ device }: Scheduler): ContextView | undefined {
    return this.contexts.find((context) => context.device === device && this.registry.has(context));
  }

  /** The weight of a group of a tenant was set. */
  onGroup(context: ContextView, name: string, weight: number): void {
    this.byContext[context.index].weights.setGroupWeight(tenantOf(context), name, weight);
  }

  /** The weight of a tenant was set. This updates one entry, however many queue pairs the tenant has. */
  onWeight(context: ContextView): void {
    this.byContext[context.index].weights.setTenantWeight(tenantOf(context), context.labels.weight);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') {
      this.byQp[qp.index] = this.byContext[qp.context.index];
      this.byQp[qp.index]!.add(qp, out);
      return;
    }
    const scheduler = this.byQp[qp.index];
    if (scheduler === undefined) return;
    if (change === 'labels') scheduler.relabel(qp, out);
    else scheduler.changed(qp, change, out);
    if (change === 'destroyed') this.byQp[qp.index] = undefined;
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number, out?: Actions): number {
    return out === undefined ? 0 : this.byQp[qp.index]!.onload(qp, words, start, count, out);
  }

  feed(qp: QpView, out: Actions): void {
    if (out.backlog(qp) > 0) this.byQp[qp.index]?.feed(qp, out);
  }

  onCompleted(qp: QpView, _count: number, out: Actions): void {
    this.byQp[qp.index]?.onCompleted(qp, out);
  }

  onGrants(context: ContextView, out: Actions): void {
    this.byContext[context.index]?.regrant(context, out);
  }

  onTimer(token: number, out: Actions): void {
    const scheduler = this.schedulers[Math.floor(token / TIMER_KINDS)];
    const context = scheduler && this.openContext(scheduler);
    if (context !== undefined) scheduler.onTimer(token % TIMER_KINDS, context, out);
  }
}
