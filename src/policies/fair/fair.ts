/**
 * fair: tenants share what they need most, the link or the processing units of a device, in proportion to their weights.
 * Small messages of a tenant that has had less than its share pass at once; all others wait until little is in flight.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy } from '../../shim/policy.ts';
import type { PolicyState } from '../../verbs/provider.ts';
import { DevicePolicy } from '../link/device-policy.ts';
import { mergeOptions } from '../parse-options.ts';
import { type FairOptions, FIXED, fairOptions } from './options.ts';
import { KINDS, Scheduler } from './scheduler.ts';

/** The policy fair. */
export class Fair extends DevicePolicy<Scheduler> implements Policy {
  readonly name = 'fair';
  readonly splitsAboveBytes: number;
  /** While polls are late, 30 pieces with their 0_WAITs fill the link. */
  override readonly slots = 64;
  private options: FairOptions;

  constructor(options: FairOptions, coordinators: CoordinatorRegistry) {
    super(KINDS, coordinators);
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
  }

  protected create(number: number, context: ContextView): Scheduler {
    return new Scheduler(number, context, this.options, this.registry);
  }

  protected reconfigure(scheduler: Scheduler, _context: ContextView, out: Actions): void {
    scheduler.configure(this.options, out);
  }

  /** Why devices are left alone, or not, once this has been decided. */
  inspect(): Omit<PolicyState, 'policy'>[] {
    const decided = this.openContexts().filter(({ scheduler }) => scheduler.stance !== null);
    return decided.map(({ context: { device, tenant }, scheduler }) => {
      return { device, tenant, kind: 'any', because: 'all tenants are treated alike', ...scheduler.stance! };
    });
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('fair', fairOptions, this.options, changes, FIXED);
    this.reconfigureAll(out);
  }
}
