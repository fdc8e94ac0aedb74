/**
 * fair: tenants share what they need most, the link or the processing units of a device, in proportion to their weights.
 * Small messages of a tenant that has had less than its share pass at once; all others wait until little is in flight.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy } from '../../shim/policy.ts';
import { DevicePolicy } from '../link/device-policy.ts';
import { FIRST_KIND } from '../link/link-scheduler.ts';
import { mergeOptions } from '../parse-options.ts';
import { type FairOptions, fairOptions } from './options.ts';
import { Scheduler } from './scheduler.ts';

/** The policy fair. */
export class Fair extends DevicePolicy<Scheduler> implements Policy {
  readonly name = 'fair';
  readonly splitsAboveBytes: number;
  private options: FairOptions;

  constructor(options: FairOptions, coordinators: CoordinatorRegistry) {
    super(FIRST_KIND, coordinators);
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
  }

  protected create(number: number, context: ContextView): Scheduler {
    return new Scheduler(number, context, this.options, this.registry);
  }

  protected reconfigure(scheduler: Scheduler, _context: ContextView, out: Actions): void {
    scheduler.configure(this.options, out);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('fair', fairOptions, this.options, changes, []);
    this.reconfigureAll(out);
  }
}
