/**
 * Palos: weights divide a device among tenants, then among the groups of a tenant, and then among the queue pairs of a
 * group. The paper changes the NIC. This policy keeps the same order in front of a stock NIC, which follows it while
 * little is in flight.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy } from '../../shim/policy.ts';
import { DevicePolicy } from '../link/device-policy.ts';
import { mergeOptions } from '../parse-options.ts';
import { FIXED, type PalosOptions, palosOptions } from './options.ts';
import { Scheduler, TIMER_KINDS, tenantOf } from './scheduler.ts';

/** The policy palos. */
export class Palos extends DevicePolicy<Scheduler> implements Policy {
  readonly name = 'palos';
  readonly splitsAboveBytes: number;
  private options: PalosOptions;

  constructor(options: PalosOptions, coordinators: CoordinatorRegistry) {
    super(TIMER_KINDS, coordinators);
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
  }

  protected create(number: number, context: ContextView): Scheduler {
    return new Scheduler(number, context, this.options, this.registry);
  }

  protected reconfigure(scheduler: Scheduler, context: ContextView, out: Actions): void {
    scheduler.configure(this.options, context, out);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('palos', palosOptions, this.options, changes, FIXED);
    this.reconfigureAll(out);
  }

  /** The weight of a group of a tenant was set. */
  onGroup(context: ContextView, name: string, weight: number): void {
    this.byContext[context.index].weights.setGroupWeight(tenantOf(context), name, weight);
  }

  /** The weight of a tenant was set. This updates one entry, however many queue pairs the tenant has. */
  onWeight(context: ContextView): void {
    this.byContext[context.index].weights.setTenantWeight(tenantOf(context), context.labels.weight);
  }
}
