/**
 * A static token bucket for each tenant, as FreeFlow (NSDI 2019) limits containers. The coordinator grants each context
 * its rate (shares.ts), and the bucket of a tenant fills at the sum of its contexts' (../kit/throttle.ts).
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import type { PolicyGauge } from '../../verbs/provider.ts';
import { entityOfTenant } from '../kit/entities.ts';
import { NONE } from '../kit/run-queue.ts';
import { Throttle } from '../kit/throttle.ts';
import { mergeOptions } from '../parse-options.ts';
import { requireRate, type TokenBucketOptions, tokenBucketOptions } from './options.ts';
import { grantedGbps, type Member, RATE_GBPS, RATED_QPS, shareRulesOf, shares } from './shares.ts';

/** Timer tokens below this are tenants. From here on they retry share() for a context. */
const SHARE_RETRY_TOKEN = 2 ** 30;
const SHARE_RETRY_NS = 2000;

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
  private readonly registry: CoordinatorRegistry;
  private readonly throttle: Throttle;
  // By context, and by queue pair.
  private readonly members: Member[] = [];
  private readonly memberOf: Member[] = [];
  /** By tenant: its contexts with queue pairs. */
  private readonly sharers: Member[][] = [];

  constructor(options: TokenBucketOptions, coordinators: CoordinatorRegistry) {
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes;
    this.registry = coordinators;
    this.throttle = new Throttle({
      ...options,
      keyOf: ({ context }) => this.members[context.index].key,
      perNsOf: (tenant) => grantedGbps(this.sharers[tenant], this.throttle.takePaid(tenant)) / 8,
      firstBurst: ({ context }) => (coordinators.isRemote(context) ? 0 : 1),
    });
  }

  setup({ context }: Resources): void {
    requireRate(context, this.options);
    this.registry.govern(context, shares, this.options, shareRulesOf);
    const page = this.registry.page(context);
    const columns = page.columns(shares);
    columns.reports[RATED_QPS] = 0;
    this.members[context.index] = { context, page, columns, qps: 0, key: '' };
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    const options = mergeOptions('token-bucket', tokenBucketOptions, this.options, changes, []);
    const open = this.members.filter(({ context }) => this.registry.has(context));
    for (const { context } of open) requireRate(context, options);
    this.options = options;
    this.throttle.configure(options);
    for (const { context, qps } of open) {
      this.registry.changeRules(context, shares, options, shareRulesOf);
      if (qps > 0) this.share(context, out);
    }
    for (let tenant = 0; tenant < this.throttle.entities.limit; tenant++) this.throttle.serve(tenant, out);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') this.addQp(qp, out);
    // A bucket that was empty at first may have tokens by now, so that the first requests need not be held.
    if (change === 'state') this.throttle.fill(this.throttle.entities.of(qp), qp.context, out);
    if (change === 'labels') this.share(qp.context, out);
    if (change === 'destroyed') this.removeQp(qp, out);
  }

  private addQp(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    if (member.qps === 0) member.key = entityOfTenant(qp.context, this.registry.tenantOf(qp.context));
    const tenant = this.throttle.join(qp, out);
    this.memberOf[qp.index] = member;
    member.columns.reports[RATED_QPS] = ++member.qps;
    if (member.qps === 1) {
      this.sharers[tenant] = [...(this.sharers[tenant] ?? []), member];
      this.share(qp.context, out);
    }
    this.throttle.fill(tenant, qp.context, out);
  }

  private removeQp(qp: QpView, out: Actions): void {
    const tenant = this.throttle.leave(qp, out);
    if (tenant === NONE) return;
    const member = this.memberOf[qp.index];
    if (--member.qps === 0) this.sharers[tenant] = this.sharers[tenant].filter((one) => one !== member);
    if (!this.registry.has(member.context)) return;
    member.columns.reports[RATED_QPS] = member.qps;
    if (member.qps === 0) this.share(member.context, out);
  }

  /** Recomputes the rates of all tenants after a context got its first queue pair or lost its last. */
  private share(context: ContextView, out: Actions): void {
    const nowNs = out.nowNs(context);
    const isDone = this.registry.decide(context, shares, nowNs);
    this.registry.announce(context.device);
    if (!isDone) out.timer(context, nowNs + SHARE_RETRY_NS, SHARE_RETRY_TOKEN + context.index);
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    return this.throttle.onload(qp, words, start, count);
  }

  feed(qp: QpView, out: Actions): void {
    this.throttle.feed(qp, out);
  }

  onGrants(context: ContextView, out: Actions): void {
    const tenant = this.throttle.entities.find(this.members[context.index].key);
    if (tenant === NONE) return;
    this.throttle.fill(tenant, context, out);
    this.throttle.serve(tenant, out);
  }

  onTimer(token: number, out: Actions): void {
    const member = this.members[token - SHARE_RETRY_TOKEN];
    if (token < SHARE_RETRY_TOKEN) this.throttle.serve(token, out);
    else if (member !== undefined && this.registry.has(member.context)) this.share(member.context, out);
  }

  /** The tokens of each tenant with queue pairs, and the rate at which they arrive. */
  gauges(out: Actions): Omit<PolicyGauge, 'policy'>[] {
    return this.sharers.flatMap((members, tenant) => {
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
