/** A policy with one scheduler for each device: finds the scheduler that an event concerns. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import type { LinkScheduler } from './link-scheduler.ts';
import type { TurnOrder } from './turn-order.ts';

/** The events of a policy, and its schedulers. */
export abstract class DevicePolicy<S extends LinkScheduler<TurnOrder>> {
  readonly needs = { wait: 'none' } as const;
  /** The most pieces of the oldest message that may be in the device's queue. */
  readonly slots: number = 16;
  /** The shim executes the application's WAITs, because the device would count the completions of pieces. */
  readonly crossChannel = true;
  readonly statistics = 'itself';
  /** Completions of queue pairs whose messages all pass do not matter. */
  readonly completionsOf: 'held' | 'all' = 'held';
  protected readonly schedulers: S[] = [];
  // By context, and by queue pair.
  protected readonly byContext: S[] = [];
  private readonly byQp: (S | undefined)[] = [];
  private contexts: ContextView[] = [];
  private readonly kinds: number;

  protected readonly registry: CoordinatorRegistry;

  /** @param kinds the number of kinds of timers of a scheduler */
  constructor(kinds: number, registry: CoordinatorRegistry) {
    this.kinds = kinds;
    this.registry = registry;
  }

  /** A scheduler for the device of a context, with this number. */
  protected abstract create(number: number, context: ContextView): S;

  setup({ context }: Resources, out: Actions): void {
    this.contexts = this.contexts.filter((one) => this.registry.has(one));
    this.contexts.push(context);
    const known = this.schedulers.find(({ device }) => device === context.device);
    const scheduler = known ?? this.create(this.schedulers.length, context);
    if (known === undefined) this.schedulers.push(scheduler);
    this.byContext[context.index] = scheduler;
    // Options may have changed while no context of the device was open.
    this.reconfigure(scheduler, context, out);
    scheduler.open(context, out);
  }

  /** Gives a scheduler the present options of the policy. */
  protected abstract reconfigure(scheduler: S, context: ContextView, out: Actions): void;

  /** Gives all schedulers the present options. Those of devices without an open context get them with the next one. */
  protected reconfigureAll(out: Actions): void {
    for (const scheduler of this.schedulers) {
      const context = this.openContext(scheduler);
      if (context !== undefined) this.reconfigure(scheduler, context, out);
    }
  }

  /** The open contexts, with their schedulers. */
  protected openContexts(): { context: ContextView; scheduler: S }[] {
    const open = this.contexts.filter((context) => this.registry.has(context));
    return open.map((context) => ({ context, scheduler: this.byContext[context.index] }));
  }

  onGrants(context: ContextView, out: Actions): void {
    this.byContext[context.index]?.regrant(context, out);
  }

  /** An open context of a scheduler's device; undefined if there is none. */
  protected openContext({ device }: S): ContextView | undefined {
    return this.contexts.find((context) => context.device === device && this.registry.has(context));
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
    else if (change === 'rate') scheduler.rerate(qp, out);
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

  onTimer(token: number, out: Actions): void {
    const scheduler = this.schedulers[Math.floor(token / this.kinds)];
    const context = scheduler && this.openContext(scheduler);
    if (context !== undefined) scheduler.onTimer(token % this.kinds, context, out);
  }
}
