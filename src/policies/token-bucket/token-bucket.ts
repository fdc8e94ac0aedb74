/**
 * A static token bucket for each tenant, as FreeFlow (NSDI 2019) limits containers. Requests of all queue pairs of a
 * tenant take tokens from its bucket. Without tokens they are held, and the queue pairs are served round robin, a piece
 * each. The coordinator computes the rates (src/coordinator/shares.ts).
 */
import { tenantId } from '../../coordinator/coordinator.ts';
import { RATE_GBPS, RATED_QPS } from '../../coordinator/member-table.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { ShareRules } from '../../coordinator/shares.ts';
import type { Grant } from '../../shim/coordinator-port.ts';
import { BYTES } from '../../shim/counters.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import type { Resources } from '../../shim/resources.ts';
import { fitColumn } from '../../shim/tables.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { ConfigError } from '../../verbs/errors.ts';
import * as L from '../../verbs/layout.ts';
import { mergeOptions } from '../parse-options.ts';
import { type Bucket, Buckets } from './buckets.ts';
import { type TokenBucketOptions, tokenBucketOptions } from './options.ts';

/** RoCEv2's values, for devices that do not report them. */
const MTU_BYTES = 4096;
const HEADER_BYTES = 82;
const NONE = -1;
/** Timer tokens below this are indices of buckets. From here on they retry share() for a context. */
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
  private pieceBytes: number;
  private options: TokenBucketOptions;
  private readonly registry: CoordinatorRegistry;
  /** By index. */
  private readonly contexts: (ContextView | undefined)[] = [];
  private readonly buckets: Buckets;
  // By index of the queue pair.
  private readonly qps: (QpView | undefined)[] = [];
  private readonly bucketOf: (Bucket | undefined)[] = [];
  private isWaiting = new Uint8Array(64);
  /** The next queue pair that waits for the same bucket. */
  private nextWaiting = new Float64Array(64);
  // By index of the bucket: the first and the last waiting queue pair.
  private readonly firstWaiting: number[] = [];
  private readonly lastWaiting: number[] = [];

  constructor(options: TokenBucketOptions, coordinators: CoordinatorRegistry) {
    this.options = options;
    this.pieceBytes = options.pieceBytes;
    this.splitsAboveBytes = options.pieceBytes;
    this.buckets = new Buckets(options.burstBytes);
    this.registry = coordinators;
  }

  setup({ context }: Resources): void {
    this.contexts[context.index] = undefined;
    this.requireRate(context, this.options);
    this.registry.page(context).counters[RATED_QPS] = 0;
    this.contexts[context.index] = context;
  }

  private requireRate(context: ContextView, options: TokenBucketOptions): void {
    if (linkGbpsOf(context, options) > 0 || Object.hasOwn(options.ratesGbps, context.tenant)) return;
    throw new ConfigError(
      `token-bucket: ${context.device} does not report the rate of its link; set linkGbps, or a rate for '${context.tenant}' in ratesGbps`,
    );
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    const options = mergeOptions('token-bucket', tokenBucketOptions, this.options, changes, []);
    const contexts = this.contexts.filter((context) => context !== undefined);
    for (const context of contexts) this.requireRate(context, options);
    this.options = options;
    this.pieceBytes = options.pieceBytes;
    this.buckets.configure(options.burstBytes);
    for (const context of new Set(this.qps.flatMap((qp) => qp?.context ?? []))) this.share(context, out);
    for (const bucket of this.buckets.all) if (bucket !== undefined) this.serve(bucket, out);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') this.addQp(qp, out);
    if (change === 'destroyed') this.removeQp(qp, out);
  }

  /** Passes short messages while the bucket has tokens, so that a tenant below its rate is not delayed. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    const bucket = this.bucketOf[qp.index];
    if (bucket === undefined || this.firstWaiting[bucket.index] !== NONE) return 0;
    let passedBytes = 0;
    let i = 0;
    for (; i < count; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (bucket.tokens <= 0 || words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > this.pieceBytes) break;
      passedBytes += bytes;
      bucket.take(wireBytes(qp.context, bytes));
    }
    qp.counts[BYTES] += passedBytes;
    return i;
  }

  feed(qp: QpView, out: Actions): void {
    const bucket = this.bucketOf[qp.index];
    if (bucket === undefined || this.isWaiting[qp.index] === 1) return;
    this.enqueue(qp.index, bucket);
    this.serve(bucket, out);
  }

  onGrant(context: ContextView, { kind }: Grant, out: Actions): void {
    const bucket = kind === RATE_GBPS ? this.buckets.find(context) : undefined;
    if (bucket === undefined) return;
    bucket.fill(out.nowNs(context));
    this.serve(bucket, out);
  }

  onTimer(token: number, out: Actions): void {
    if (token >= SHARE_RETRY_TOKEN) {
      const context = this.contexts[token - SHARE_RETRY_TOKEN];
      if (context !== undefined && this.registry.has(context)) this.share(context, out);
      return;
    }
    const bucket = this.buckets.at(token);
    if (bucket !== undefined) this.serve(bucket, out);
  }

  /** Serves the waiting queue pairs round robin until the tokens are used up, then sets a timer for the next one. */
  private serve(bucket: Bucket, out: Actions): void {
    const { firstWaiting } = this;
    const b = bucket.index;
    let filled = false;
    while (firstWaiting[b] !== NONE) {
      const qp = this.qps[firstWaiting[b]]!;
      if (!filled) bucket.fill(out.nowNs(qp.context));
      filled = true;
      if (bucket.tokens <= 0) break;
      this.dequeue(bucket);
      // A queue pair that could not be served waits for completions, not for tokens.
      if (this.step(qp, bucket, out) && out.backlog(qp) > 0) this.enqueue(qp.index, bucket);
    }
    this.arm(bucket, out);
  }

  /** Issues the next request of the queue pair, or a piece of it. Returns false if it cannot be issued now. */
  private step(qp: QpView, bucket: Bucket, out: Actions): boolean {
    if (out.backlog(qp) === 0) return false;
    if (out.isCrossChannel(qp)) return out.execute(qp);
    const room = out.room(qp);
    if (room === 0) return false;
    const bytes = out.nextBytes(qp);
    // With room for one request and none in flight to free more, a split message could never be finished.
    const stuck = room === 1 && out.inflight(qp) === 0;
    if (bytes > this.pieceBytes && !stuck && out.splittable(qp)) {
      if (room === 1) return false;
      bucket.take(wireBytes(qp.context, this.pieceBytes));
      out.piece(qp, this.pieceBytes);
    } else {
      bucket.take(wireBytes(qp.context, bytes));
      out.pass(qp);
    }
    return true;
  }

  /** Sets a timer for the next token in each context with waiting queue pairs. */
  private arm(bucket: Bucket, out: Actions): void {
    let armed: ContextView | null = null;
    for (let i = this.firstWaiting[bucket.index]; i !== NONE; i = this.nextWaiting[i]) {
      const { context } = this.qps[i]!;
      if (context !== armed) out.timer(context, bucket.readyNs, bucket.index);
      armed = context;
    }
  }

  /** Appends a queue pair to the waiting ones. */
  private enqueue(qp: number, bucket: Bucket): void {
    const b = bucket.index;
    this.isWaiting[qp] = 1;
    this.nextWaiting[qp] = NONE;
    if (this.firstWaiting[b] === NONE) this.firstWaiting[b] = qp;
    else this.nextWaiting[this.lastWaiting[b]] = qp;
    this.lastWaiting[b] = qp;
  }

  private dequeue(bucket: Bucket): void {
    const qp = this.firstWaiting[bucket.index];
    this.isWaiting[qp] = 0;
    this.firstWaiting[bucket.index] = this.nextWaiting[qp];
  }

  private addQp(qp: QpView, out: Actions): void {
    const { context, index } = qp;
    this.isWaiting = fitColumn(this.isWaiting, index);
    this.nextWaiting = fitColumn(this.nextWaiting, index);
    const bucket = this.buckets.getOrCreate(context, out.nowNs(context));
    const page = this.registry.page(context);
    if (bucket.qps === 0) this.firstWaiting[bucket.index] = NONE;
    this.qps[index] = qp;
    this.bucketOf[index] = bucket;
    page.counters[RATED_QPS] = bucket.addQp(context, page);
    if (page.counters[RATED_QPS] === 1) this.share(context, out);
    bucket.fill(out.nowNs(context));
  }

  /** Recomputes the rates of all tenants after a context got its first queue pair or lost its last. */
  private share(context: ContextView, out: Actions): void {
    const nowNs = out.nowNs(context);
    if (this.registry.share(context, rulesOf(context, this.options), nowNs)) return;
    out.timer(context, nowNs + SHARE_RETRY_NS, SHARE_RETRY_TOKEN + context.index);
  }

  private removeQp(qp: QpView, out: Actions): void {
    const bucket = this.bucketOf[qp.index];
    const known = this.qps[qp.index];
    if (bucket === undefined || known === undefined) return;
    if (this.isWaiting[qp.index] === 1) this.removeWaiting(qp.index, bucket);
    this.qps[qp.index] = undefined;
    this.bucketOf[qp.index] = undefined;
    const { context } = known;
    bucket.fill(out.nowNs(context));
    const left = bucket.removeQp(context);
    if (!this.registry.has(context)) return;
    this.registry.page(context).counters[RATED_QPS] = left;
    if (left === 0) this.share(context, out);
  }

  private removeWaiting(qp: number, bucket: Bucket): void {
    const waiting: number[] = [];
    for (let i = this.firstWaiting[bucket.index]; i !== NONE; i = this.nextWaiting[i]) waiting.push(i);
    this.firstWaiting[bucket.index] = NONE;
    for (const one of waiting) if (one !== qp) this.enqueue(one, bucket);
    this.isWaiting[qp] = 0;
  }
}

const byNumber = (byName: Readonly<Record<string, number>>): Map<number, number> =>
  new Map(Object.entries(byName).map(([tenant, value]) => [tenantId(tenant), value]));

const linkGbpsOf = ({ nic }: ContextView, { linkGbps }: TokenBucketOptions): number =>
  linkGbps ?? nic?.linkGbps ?? 0;

function rulesOf(context: ContextView, options: TokenBucketOptions): ShareRules {
  return {
    linkGbps: linkGbpsOf(context, options),
    weights: byNumber(options.weights),
    ratesGbps: byNumber(options.ratesGbps),
  };
}

/** Bytes of a message on the wire, with headers. */
function wireBytes({ nic }: ContextView, bytes: number): number {
  const mtuBytes = nic?.mtuBytes ?? MTU_BYTES;
  const packets = Math.max(1, Math.ceil(bytes / mtuBytes));
  return bytes + packets * (nic?.headerBytes ?? HEADER_BYTES);
}
