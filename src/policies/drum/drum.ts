/**
 * drum: applications share a device at the request rates that are best for all of them together, as DRUM (IEEE/ACM ToN
 * 2023) defines it, and with topK, at most k of them are served at a time. The requests that the shim holds are the
 * paper's virtual request pool.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy } from '../../shim/policy.ts';
import type { PolicyGauge } from '../../verbs/provider.ts';
import { DevicePolicy } from '../link/device-policy.ts';
import { mergeOptions } from '../parse-options.ts';
import { type DrumOptions, drumOptions, FIXED } from './options.ts';
import { DrumScheduler, KINDS } from './scheduler.ts';

/** The policy drum. */
export class Drum extends DevicePolicy<DrumScheduler> implements Policy {
  readonly name = 'drum';
  readonly splitsAboveBytes: number;
  /** While polls are late, 30 pieces with their 0_WAITs fill the link. */
  override readonly slots = 64;
  /** With topK, completions of requests that have passed are also needed, to notice when the device is idle. */
  override readonly completionsOf: 'held' | 'all';
  readonly mostShared?: number;
  readonly limitsCompletions: boolean;
  private options: DrumOptions;

  constructor(options: DrumOptions, coordinators: CoordinatorRegistry) {
    super(KINDS, coordinators);
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
    if (options.connectionsPerQp !== undefined) this.mostShared = options.connectionsPerQp;
    this.limitsCompletions = options.completionsPerS !== undefined;
    this.completionsOf = options.topK === undefined ? 'held' : 'all';
  }

  protected create(number: number, context: ContextView): DrumScheduler {
    return new DrumScheduler(number, context, this.options, this.registry);
  }

  protected reconfigure(scheduler: DrumScheduler, context: ContextView, out: Actions): void {
    scheduler.reconfigure(this.options, context, out);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('drum', drumOptions, this.options, changes, FIXED);
    this.reconfigureAll(out);
  }

  onHandedOver(context: ContextView, out: Actions): void {
    this.byContext[context.index]?.handedOver(context, out);
  }

  /** Of each device with a context: the rates of its tenants that are served. */
  gauges(): Omit<PolicyGauge, 'policy'>[] {
    return this.schedulers.flatMap((scheduler) => {
      if (this.openContext(scheduler) === undefined) return [];
      const { device, rates } = scheduler;
      return rates.map(({ tenant, perS }) => ({
        device,
        tenant,
        name: 'rate',
        unit: 'requests/s',
        value: perS,
      }));
    });
  }
}
