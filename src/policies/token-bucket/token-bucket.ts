/**
 * A static token bucket for each tenant, as FreeFlow (NSDI 2019) limits containers. Requests of all queue pairs of a
 * tenant take tokens from its bucket: bytes on the wire, in the direction that a request loads more. Without tokens they
 * are held, and the queue pairs are served round robin, a piece each. The coordinator grants each context its rate
 * (shares.ts), and a bucket fills at the sum of its contexts'.
 */
import type { MemberPage } from '../../coordinator/member-table.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { BYTES } from '../../shim/counters.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import type { Resources } from '../../shim/resources.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import * as L from '../../verbs/layout.ts';
import type { PolicyGauge } from '../../verbs/provider.ts';
import { byContext, byTenant, Entities } from '../kit/entities.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { type WireFacts, wireBytes, wireFactsOf } from '../kit/wire.ts';
import { mergeOptions } from '../parse-options.ts';
import { requireRate, type TokenBucketOptions, tokenBucketOptions } from './options.ts';
import { RATE_GBPS, RATED_QPS, shareRulesOf, shares } from './shares.ts';

/** Timer tokens below this are tenants. From here on they retry share() for a context. */
const SHARE_RETRY_TOKEN = 2 ** 30;
const SHARE_RETRY_NS = 2000;

/** A context, as the coordinator knows it. */
export interface Sharer {
  readonly page: MemberPage;
  /** Its columns of the ruler `shares`. */
  readonly columns: MemberColumns;
}

/** The rate that contexts of one tenant are granted together. Asking shows that they are alive. */
export function grantedGbps(sharers: readonly Sharer[]): number {
  let gbps = 0;
  for (const { page, columns } of sharers) {
    // A context that sends is alive.
    page.beat();
    gbps += columns.grants[RATE_GBPS];
  }
  return gbps;
}

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
  // By context.
  private readonly contexts: (ContextView | undefined)[] = [];
  private readonly sharerOf: Sharer[] = [];
  private readonly wire: WireFacts[] = [];
  // By queue pair.
  private readonly qps: QpView[] = [];
  private readonly members = new Entities({ keyOf: byContext });
  /** Debt outlives the queue pairs: a tenant that returns still owes it. */
  private readonly tenants = new Entities({
    keyOf: byTenant,
    onNew: (tenant) => {
      this.buckets[tenant] = new Bucket({ burst: this.options.burstBytes });
      this.sharers[tenant] = [];
    },
    mayForget: (tenant, nowNs) => this.buckets[tenant].isFull(nowNs),
  });
  // By tenant: its tokens, and its contexts with queue pairs.
  private readonly buckets: Bucket[] = [];
  private readonly sharers: Sharer[][] = [];
  /** Queue pairs that wait for tokens, a queue for each tenant. */
  private readonly waiting = new RunQueue();

  constructor(options: TokenBucketOptions, coordinators: CoordinatorRegistry) {
    this.options = options;
    this.splitsAboveBytes = options.pieceBytes;
    this.registry = coordinators;
  }

  setup({ context }: Resources): void {
    this.contexts[context.index] = undefined;
    requireRate(context, this.options);
    this.registry.govern(context, shares, this.options, shareRulesOf);
    const page = this.registry.page(context);
    const columns = page.columns(shares);
    columns.reports[RATED_QPS] = 0;
    this.sharerOf[context.index] = { page, columns };
    this.contexts[context.index] = context;
    this.wire[context.index] = wireFactsOf(context.nic);
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    const options = mergeOptions('token-bucket', tokenBucketOptions, this.options, changes, []);
    for (const context of this.contexts) if (context !== undefined) requireRate(context, options);
    this.options = options;
    for (const bucket of this.buckets) bucket.setBurst(options.burstBytes);
    for (const context of this.contexts) {
      if (context === undefined || !this.registry.has(context)) continue;
      this.registry.changeRules(context, shares, options, shareRulesOf);
      if (this.members.find(byContext({ context })) !== NONE) this.share(context, out);
    }
    for (let tenant = 0; tenant < this.tenants.limit; tenant++) this.serve(tenant, out);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') this.addQp(qp, out);
    if (change === 'labels') this.share(qp.context, out);
    if (change === 'destroyed') this.removeQp(this.qps[qp.index], out);
  }

  private addQp(qp: QpView, out: Actions): void {
    const { context, index } = qp;
    const sharer = this.sharerOf[context.index];
    const nowNs = out.nowNs(context);
    const tenant = this.tenants.join(qp, nowNs);
    this.qps[index] = qp;
    const { reports } = sharer.columns;
    reports[RATED_QPS] = this.members.count(this.members.join(qp));
    if (reports[RATED_QPS] === 1) {
      this.sharers[tenant].push(sharer);
      this.share(context, out);
    }
    this.fill(tenant, nowNs);
  }

  private removeQp(qp: QpView | undefined, out: Actions): void {
    if (qp === undefined || this.tenants.of(qp) === NONE) return;
    const { context, index } = qp;
    const sharer = this.sharerOf[context.index];
    const nowNs = out.nowNs(context);
    this.waiting.remove(index);
    this.fill(this.tenants.of(qp), nowNs);
    const tenant = this.tenants.leave(qp, nowNs);
    const left = this.members.count(this.members.leave(qp));
    if (left === 0) this.sharers[tenant] = this.sharers[tenant].filter((one) => one !== sharer);
    if (!this.registry.has(context)) return;
    sharer.columns.reports[RATED_QPS] = left;
    if (left === 0) this.share(context, out);
  }

  /** Recomputes the rates of all tenants after a context got its first queue pair or lost its last. */
  private share(context: ContextView, out: Actions): void {
    const nowNs = out.nowNs(context);
    const isDone = this.registry.decide(context, shares, nowNs);
    this.registry.announce(context.device);
    if (isDone) return;
    out.timer(context, nowNs + SHARE_RETRY_NS, SHARE_RETRY_TOKEN + context.index);
  }

  /** Adds the tokens earned at the previous rate, and adopts the rate granted last. Without queue pairs, it stays. */
  private fill(tenant: number, nowNs: number): void {
    this.buckets[tenant].fill(nowNs);
    if (this.sharers[tenant].length > 0) this.buckets[tenant].setRate(grantedGbps(this.sharers[tenant]) / 8);
  }

  /** Passes short messages while the bucket has tokens, so that a tenant below its rate is not delayed. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    const tenant = this.tenants.of(qp);
    if (tenant === NONE || this.waiting.first(tenant) !== NONE) return 0;
    const bucket = this.buckets[tenant];
    const wire = this.wire[qp.context.index];
    let passedBytes = 0;
    let i = 0;
    for (; i < count; i++) {
      const at = L.slotAt(start + i);
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (bucket.tokens <= 0 || words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > this.options.pieceBytes) break;
      passedBytes += bytes;
      bucket.take(wireBytes(wire, words[at + L.WR_OP] & 0xff, bytes));
    }
    qp.counts[BYTES] += passedBytes;
    return i;
  }

  feed(qp: QpView, out: Actions): void {
    const tenant = this.tenants.of(qp);
    if (tenant === NONE || this.waiting.has(qp.index)) return;
    this.waiting.push(qp.index, tenant);
    this.serve(tenant, out);
  }

  onGrants(context: ContextView, out: Actions): void {
    const tenant = this.tenants.find(byTenant({ context }));
    if (tenant === NONE) return;
    this.fill(tenant, out.nowNs(context));
    this.serve(tenant, out);
  }

  onTimer(token: number, out: Actions): void {
    const context = this.contexts[token - SHARE_RETRY_TOKEN];
    if (token < SHARE_RETRY_TOKEN) this.serve(token, out);
    else if (context !== undefined && this.registry.has(context)) this.share(context, out);
  }

  /** The tokens of each tenant with queue pairs, and the rate at which they arrive. */
  gauges(out: Actions): Omit<PolicyGauge, 'policy'>[] {
    const { tenants, buckets, sharers } = this;
    return sharers.flatMap((pages, tenant) => {
      if (pages.length === 0) return [];
      const { context } = this.qps[tenants.firstQp(tenant)];
      const { device, tenant: name } = context;
      const tokens = buckets[tenant].tokensAt(out.nowNs(context));
      const gbps = pages.reduce((sum, { columns }) => sum + columns.grants[RATE_GBPS], 0);
      return [
        { device, tenant: name, name: 'tokens', unit: 'bytes', value: tokens },
        { device, tenant: name, name: 'rate', unit: 'Gbit/s', value: gbps },
      ];
    });
  }

  /** Serves the waiting queue pairs round robin until the tokens are used up, then sets timers for the next one. */
  private serve(tenant: number, out: Actions): void {
    const { waiting } = this;
    const bucket = this.buckets[tenant];
    let i = waiting.first(tenant);
    if (i !== NONE) this.fill(tenant, out.nowNs(this.qps[i].context));
    for (; i !== NONE && bucket.tokens > 0; i = waiting.first(tenant)) {
      const qp = this.qps[i];
      waiting.remove(i);
      const opcode = out.nextOpcode(qp);
      const bytes = step(qp, out, this.options.pieceBytes);
      // A queue pair that could not be served waits for completions, not for tokens.
      if (bytes === BLOCKED) continue;
      bucket.take(wireBytes(this.wire[qp.context.index], opcode, bytes));
      if (out.backlog(qp) > 0) waiting.push(i, tenant);
    }
    let armed: ContextView | null = null;
    for (; i !== NONE; i = waiting.next(i)) {
      const { context } = this.qps[i];
      if (context !== armed) out.timer(context, bucket.readyNs(1), tenant);
      armed = context;
    }
  }
}
