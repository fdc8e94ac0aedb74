/**
 * tassel: holds queue pairs, groups, applications and tenants to rates, as Tassel (APNet 2023) does in the NIC. The paper
 * changes the NIC; this policy makes the same decisions in front of a stock one, for pieces instead of packets.
 */
import type { AgentKind } from '../../coordinator/agent.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import type { PolicyGauge } from '../../verbs/provider.ts';
import { KINDS } from '../fair/scheduler.ts';
import { DevicePolicy } from '../link/device-policy.ts';
import { mergeOptions } from '../parse-options.ts';
import { TenantRates } from '../token-bucket/tenant-rates.ts';
import { AgentRates } from './agent-rates.ts';
import { FIXED, type TasselOptions, tasselOptions } from './options.ts';
import { rateRulesOf, tasselRates } from './ruler.ts';
import { TasselScheduler } from './scheduler.ts';

/** Timer tokens below this are those of schedulers. The others belong to rates of tenants, and to rates by agents. */
const RETRY_TOKEN = 2 ** 30;
const AGENT_TOKEN = 2 ** 40;

/** The policy tassel. */
export class Tassel extends DevicePolicy<TasselScheduler> implements Policy {
  readonly name = 'tassel';
  readonly splitsAboveBytes: number;
  readonly limitsRates: boolean;
  /** While polls are late, 30 pieces with their 0_WAITs fill the link. */
  override readonly slots = 64;
  private options: TasselOptions;
  private readonly tenantRates: TenantRates<TasselOptions>;

  private readonly agentRates: AgentRates | null;

  /** @param agent sets rates of queue pairs; null: none does */
  constructor(options: TasselOptions, coordinators: CoordinatorRegistry, agent: AgentKind | null = null) {
    super(KINDS, coordinators);
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes ?? 4096;
    this.limitsRates = options.enforce === 'software';
    this.agentRates = agent && new AgentRates(coordinators, agent, AGENT_TOKEN);
    this.tenantRates = new TenantRates(coordinators, tasselRates, rateRulesOf, RETRY_TOKEN);
  }

  protected create(number: number, context: ContextView): TasselScheduler {
    const { options, registry, tenantRates, agentRates } = this;
    return new TasselScheduler(number, context, options, registry, tenantRates, agentRates);
  }

  protected reconfigure(scheduler: TasselScheduler, context: ContextView, out: Actions): void {
    scheduler.reconfigure(this.options, context, out);
  }

  override setup(resources: Resources, out: Actions): void {
    this.tenantRates.open(resources.context, this.options);
    this.agentRates?.open(resources.context);
    super.setup(resources, out);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('tassel', tasselOptions, this.options, changes, FIXED);
    for (const { context, qps } of this.tenantRates.openMembers) {
      this.tenantRates.changeRules(context, this.options);
      if (qps > 0) this.tenantRates.share(context, out);
    }
    this.reconfigureAll(out);
    for (const { context, scheduler } of this.openContexts()) scheduler.regrant(context, out);
  }

  override onTimer(token: number, out: Actions): void {
    if (this.agentRates?.onTimer(token, out)) return;
    if (!this.tenantRates.onTimer(token, out)) super.onTimer(token, out);
  }

  /** Of each device with a context: the entries of its timelines, and what its system time is slowed down by. */
  gauges(): Omit<PolicyGauge, 'policy'>[] {
    return this.schedulers.flatMap((scheduler) => {
      if (this.openContext(scheduler) === undefined) return [];
      const { device, gauges } = scheduler;
      return [
        { device, tenant: '', name: 'timeline', unit: 'entries', value: gauges.entries },
        { device, tenant: '', name: 'phi', unit: '', value: gauges.phi },
      ];
    });
  }
}
