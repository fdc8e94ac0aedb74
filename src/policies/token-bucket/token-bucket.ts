/**
 * A static token bucket for each tenant, as FreeFlow (NSDI 2019) limits containers. The coordinator grants each context
 * its rate (shares.ts), and the bucket of a tenant fills at the sum of its contexts' (../kit/throttle.ts).
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import type { PolicyGauge } from '../../verbs/provider.ts';
import { NONE } from '../kit/run-queue.ts';
import { Throttle } from '../kit/throttle.ts';
import { mergeOptions } from '../parse-options.ts';
import { requireRate, type TokenBucketOptions, tokenBucketOptions } from './options.ts';
import { RATE_GBPS, shareRulesOf, shares } from './shares.ts';
import { TenantRates } from './tenant-rates.ts';

/** Timer tokens below this are tenants. From here on they belong to TenantRates. */
const RETRY_TOKEN = 2 ** 30;

/** The policy token-bucket: holds requests until the bucket of their tenant has tokens for them. */
export class TokenBucket implements Policy {
  readonly name = 'token-bucket';
  readonly needs = { wait: 'none' } as const;
  /** Pieces of the oldest message that may be in the device's queue. */
  readonly slots = 16;
  readonly splitsAboveBytes: number;
  /** The shim executes the application's WAITs, because the device would count the completions of pieces. */
  readonly crossChannel = true;
  readonly statistics = 'itself';
  private options: TokenBucketOptions;
  private readonly throttle: Throttle;
  private readonly rates: TenantRates<TokenBucketOptions>;

  constructor(options: TokenBucketOptions, coordinators: CoordinatorRegistry) {
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes;
    this.rates = new TenantRates(coordinators, shares, shareRulesOf, RETRY_TOKEN);
    this.throttle = new Throttle({
      ...options,
      keyOf: (qp) => this.rates.keyOf(qp),
      perNsOf: (tenant) => this.rates.gbpsOf(tenant, this.throttle.takePaid(tenant)) / 8,
      firstBurst: ({ context }) => (coordinators.isRemote(context) ? 0 : 1),
    });
  }

  setup({ context }: Resources): void {
    requireRate(context, this.options);
    this.rates.open(context, this.options);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    const options = mergeOptions('token-bucket', tokenBucketOptions, this.options, changes, []);
    const open = this.rates.openMembers;
    for (const { context } of open) requireRate(context, options);
    this.options = options;
    this.throttle.configure(options);
    for (const { context, qps } of open) {
      this.rates.changeRules(context, options);
      if (qps > 0) this.rates.share(context, out);
    }
    for (let tenant = 0; tenant < this.throttle.entities.limit; tenant++) this.throttle.serve(tenant, out);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') this.addQp(qp, out);
    // A bucket that was empty at first may have tokens by now, so that the first requests need not be held.
    if (change === 'state') this.throttle.fill(this.throttle.entities.of(qp), qp.context, out);
    if (change === 'labels') this.rates.share(qp.context, out);
    if (change === 'destroyed') this.removeQp(qp, out);
  }

  private addQp(qp: QpView, out: Actions): void {
    const tenant = this.throttle.join(qp, out);
    this.rates.join(qp, tenant, out);
    this.throttle.fill(tenant, qp.context, out);
  }

  private removeQp(qp: QpView, out: Actions): void {
    const tenant = this.throttle.leave(qp, out);
    if (tenant !== NONE) this.rates.leave(qp, tenant, out);
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    return this.throttle.onload(qp, words, start, count);
  }

  feed(qp: QpView, out: Actions): void {
    this.throttle.feed(qp, out);
  }

  onGrants(context: ContextView, out: Actions): void {
    const tenant = this.throttle.entities.find(this.rates.memberAt(context)!.key);
    if (tenant === NONE) return;
    this.throttle.fill(tenant, context, out);
    this.throttle.serve(tenant, out);
  }

  onTimer(token: number, out: Actions): void {
    if (!this.rates.onTimer(token, out)) this.throttle.serve(token, out);
  }

  /** The tokens of each tenant with queue pairs, and the rate at which they arrive. */
  gauges(out: Actions): Omit<PolicyGauge, 'policy'>[] {
    return Array.from({ length: this.rates.limit }, (_, tenant) => tenant).flatMap((tenant) => {
      const members = this.rates.sharersOf(tenant);
      if (members.length === 0) return [];
      const [{ context }] = members;
      const { device, tenant: name } = context;
      const tokens = this.throttle.tokensAt(tenant, out.nowNs(context));
      const gbps = members.reduce((sum, { columns }) => sum + columns.grants[RATE_GBPS], 0);
      return [
        { device, tenant: name, name: 'tokens', unit: 'bytes', value: tokens },
        { device, tenant: name, name: 'rate', unit: 'Gbit/s', value: gbps },
      ];
    });
  }
}
