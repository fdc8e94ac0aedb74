/**
 * Buckets of tokens, one for each tenant of each device. Tokens are bytes on the wire; below zero they are owed.
 * A tenant has a rate of its own, or a share of the link by its weight among those that have queue pairs.
 */
import type { ContextView } from '../../shim/policy.ts';

export interface BucketOptions {
  readonly weights: Readonly<Record<string, number>>;
  readonly ratesGbps: Readonly<Record<string, number>>;
  readonly linkGbps?: number;
  readonly burstBytes: number;
}

/** Of the link, when rates of their own leave less to all others. */
const LEAST_SHARE = 0.01;

export class Bucket {
  /** Dense. */
  readonly index: number;
  readonly device: string;
  readonly key: string;
  readonly tenant: string;
  /** Share of the link; 0: it has a rate of its own. */
  weight = 0;
  bytesPerNs = 0;
  qps = 0;
  private burstBytes = 0;
  /** Tokens, and when they were counted. */
  private readonly state = new Float64Array(2);

  constructor(of: Pick<Bucket, 'index' | 'device' | 'key' | 'tenant'>, options: BucketOptions) {
    this.index = of.index;
    this.device = of.device;
    this.key = of.key;
    this.tenant = of.tenant;
    this.configure(options);
    this.state[0] = options.burstBytes;
  }

  configure({ weights, ratesGbps, burstBytes }: BucketOptions): void {
    const { tenant } = this;
    const own = Object.hasOwn(ratesGbps, tenant) ? ratesGbps[tenant] : 0;
    const weight = Object.hasOwn(weights, tenant) ? weights[tenant] : 1;
    this.weight = own === 0 ? weight : 0;
    this.bytesPerNs = own / 8;
    this.burstBytes = burstBytes;
  }

  /** As last counted: by now there may be more. */
  get tokens(): number {
    return this.state[0];
  }

  /** Whether nothing that was sent in the past counts any more. */
  isFull(nowNs: number): boolean {
    return this.state[0] + (nowNs - this.state[1]) * this.bytesPerNs >= this.burstBytes;
  }

  take(bytes: number): void {
    this.state[0] -= bytes;
  }

  fill(nowNs: number): void {
    const { state } = this;
    state[0] = Math.min(this.burstBytes, state[0] + (nowNs - state[1]) * this.bytesPerNs);
    state[1] = nowNs;
  }

  /** When the first token is there. */
  get readyNs(): number {
    return this.state[1] + Math.max(0, 1 - this.state[0]) / this.bytesPerNs;
  }
}

/** Finds the bucket of a context, and gives each its rate. */
export class Buckets {
  private options: BucketOptions;
  private readonly byKey = new Map<string, Bucket>();
  /** By index. */
  readonly all: (Bucket | undefined)[] = [];

  constructor(options: BucketOptions) {
    this.options = options;
  }

  /** Whether there is a rate for the context. */
  knows({ tenant, nic }: ContextView, options = this.options): boolean {
    const { linkGbps = nic?.linkGbps ?? 0, ratesGbps } = options;
    return linkGbps > 0 || Object.hasOwn(ratesGbps, tenant);
  }

  at(index: number): Bucket | undefined {
    return this.all[index];
  }

  /** One more queue pair of the context. Returns its bucket; rates of others may have changed. */
  join(context: ContextView, nowNs: number): Bucket {
    const { device, tenant, handle } = context;
    // Without a name a context is a tenant of its own.
    const key = tenant === '' ? `${device} #${handle}` : `${device} ${tenant}`;
    let bucket = this.byKey.get(key);
    if (bucket === undefined) {
      this.sweep(device, nowNs);
      bucket = this.make(context, key);
      bucket.fill(nowNs);
      this.byKey.set(key, bucket);
      this.all[bucket.index] = bucket;
    }
    bucket.qps++;
    if (bucket.qps === 1) this.share(device, nowNs, context);
    return bucket;
  }

  /** The bucket stays as long as it is not full: what a tenant owes it owes when it comes back with another queue pair. */
  leave(bucket: Bucket, context: ContextView, nowNs: number): void {
    bucket.qps--;
    if (bucket.qps === 0) this.share(bucket.device, nowNs, context);
  }

  /** Nobody has use for the full buckets of those who are gone. */
  private sweep(device: string, nowNs: number): void {
    for (const bucket of this.byKey.values()) {
      if (bucket.qps > 0 || bucket.device !== device || !bucket.isFull(nowNs)) continue;
      this.byKey.delete(bucket.key);
      this.all[bucket.index] = undefined;
    }
  }

  private make({ device, tenant }: ContextView, key: string): Bucket {
    const free = this.all.indexOf(undefined);
    const index = free < 0 ? this.all.length : free;
    return new Bucket({ index, device, key, tenant }, this.options);
  }

  /** What was earned until now was earned at the old rates. */
  configure(
    options: BucketOptions,
    contexts: Iterable<ContextView>,
    now: (context: ContextView) => number,
  ): void {
    this.options = options;
    const devices = new Map([...contexts].map((context) => [context.device, context]));
    for (const bucket of this.byKey.values()) {
      const context = devices.get(bucket.device);
      if (context !== undefined) bucket.fill(now(context));
      bucket.configure(options);
    }
    for (const [device, context] of devices) this.share(device, now(context), context);
  }

  /** What rates of their own leave of the link is shared by weight. */
  private share(device: string, nowNs: number, { nic }: ContextView): void {
    const there = [...this.byKey.values()].filter((one) => one.device === device && one.qps > 0);
    const linkGbps = this.options.linkGbps ?? nic?.linkGbps ?? 0;
    const owned = there.reduce((sum, one) => sum + (one.weight === 0 ? one.bytesPerNs * 8 : 0), 0);
    const leftGbps = Math.max(linkGbps - owned, linkGbps * LEAST_SHARE);
    const total = there.reduce((sum, { weight }) => sum + weight, 0);
    for (const bucket of there) {
      if (bucket.weight === 0) continue;
      bucket.fill(nowNs);
      bucket.bytesPerNs = ((leftGbps / 8) * bucket.weight) / total;
    }
  }
}
