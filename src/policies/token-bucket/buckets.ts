/**
 * Token buckets, one for each tenant of each device. A token is a byte on the wire; a negative number of tokens is debt.
 * The coordinator grants each context its rate (src/coordinator/shares.ts), and a bucket fills at the sum of its contexts'.
 */
import { HEARTBEAT, type MemberPage, RATE_GBPS } from '../../coordinator/member-table.ts';
import type { ContextView } from '../../shim/policy.ts';

/** The tokens of one tenant on one device, in bytes on the wire. */
export class Bucket {
  /** Dense, and reused. */
  readonly index: number;
  readonly device: string;
  readonly key: string;
  burstBytes: number;
  qps = 0;
  /** Contexts with queue pairs: their number, and the page with the granted rate. */
  private readonly contexts = new Map<ContextView, { qps: number; readonly page: MemberPage }>();
  /** Tokens, the time of that count, and the rate since then in bytes per nanosecond. */
  private readonly state: Float64Array;

  constructor(of: Pick<Bucket, 'index' | 'device' | 'key' | 'burstBytes'>) {
    this.index = of.index;
    this.device = of.device;
    this.key = of.key;
    this.burstBytes = of.burstBytes;
    this.state = Float64Array.of(of.burstBytes, 0, 0);
  }

  /** Tokens as of the last fill(). */
  get tokens(): number {
    return this.state[0];
  }

  /** Whether the bucket is full, so that past traffic no longer matters. */
  isFull(nowNs: number): boolean {
    return this.state[0] + (nowNs - this.state[1]) * this.state[2] >= this.burstBytes;
  }

  take(bytes: number): void {
    this.state[0] -= bytes;
  }

  /** Adds the tokens earned at the previous rate, and adopts the rate granted last. */
  fill(nowNs: number): void {
    const { state } = this;
    state[0] = Math.min(this.burstBytes, state[0] + (nowNs - state[1]) * state[2]);
    state[1] = nowNs;
    // Without queue pairs, debt is repaid at the last rate.
    if (this.qps > 0) state[2] = this.grantedGbps() / 8;
  }

  private grantedGbps(): number {
    let gbps = 0;
    for (const { page } of this.contexts.values()) {
      // A context that sends is alive, even if its event loop never runs.
      page.counters[HEARTBEAT]++;
      page.poll?.();
      gbps += page.grants[RATE_GBPS];
    }
    return gbps;
  }

  /** The time at which the first token is available. */
  get readyNs(): number {
    const { state } = this;
    return state[2] > 0 ? state[1] + Math.max(0, 1 - state[0]) / state[2] : Number.POSITIVE_INFINITY;
  }

  /** Adds a queue pair of a context. Returns the context's number of queue pairs. */
  addQp(context: ContextView, page: MemberPage): number {
    const known = this.contexts.get(context) ?? { qps: 0, page };
    this.contexts.set(context, known);
    this.qps++;
    return ++known.qps;
  }

  /** Removes a queue pair of a context. Returns the number left. */
  removeQp(context: ContextView): number {
    const known = this.contexts.get(context);
    if (known === undefined) return 0;
    this.qps--;
    if (--known.qps === 0) this.contexts.delete(context);
    return known.qps;
  }
}

/** A context without a tenant name is a tenant of its own. */
function keyOf({ device, tenant, handle }: ContextView): string {
  return tenant === '' ? `${device} #${handle}` : `${device} ${tenant}`;
}

/** The buckets of all tenants, found by context. */
export class Buckets {
  private burstBytes: number;
  private readonly byKey = new Map<string, Bucket>();
  /** By index. */
  readonly all: (Bucket | undefined)[] = [];

  constructor(burstBytes: number) {
    this.burstBytes = burstBytes;
  }

  at(index: number): Bucket | undefined {
    return this.all[index];
  }

  configure(burstBytes: number): void {
    this.burstBytes = burstBytes;
    for (const bucket of this.byKey.values()) bucket.burstBytes = burstBytes;
  }

  find(context: ContextView): Bucket | undefined {
    return this.byKey.get(keyOf(context));
  }

  getOrCreate(context: ContextView, nowNs: number): Bucket {
    const { device } = context;
    const key = keyOf(context);
    let bucket = this.byKey.get(key);
    if (bucket === undefined) {
      this.sweep(device, nowNs);
      const free = this.all.indexOf(undefined);
      const index = free < 0 ? this.all.length : free;
      bucket = new Bucket({ index, device, key, burstBytes: this.burstBytes });
      bucket.fill(nowNs);
      this.byKey.set(key, bucket);
      this.all[index] = bucket;
    }
    return bucket;
  }

  /** Drops full buckets without queue pairs. Others are kept, so that a tenant that returns still owes its debt. */
  private sweep(device: string, nowNs: number): void {
    for (const bucket of this.byKey.values()) {
      if (bucket.qps > 0 || bucket.device !== device || !bucket.isFull(nowNs)) continue;
      this.byKey.delete(bucket.key);
      this.all[bucket.index] = undefined;
    }
  }
}
