/**
 * Buckets of tokens, one for each tenant of each device. Tokens are bytes on the wire; below zero they are owed.
 * The coordinator gives each context its rate (src/coordinator/shares.ts); a bucket has that of all its contexts.
 */
import { HEARTBEAT, type MemberPage, RATE_GBPS } from '../../coordinator/member-table.ts';
import type { ContextView } from '../../shim/policy.ts';

/** The tokens of one tenant on one device, in bytes on the wire. */
export class Bucket {
  /** Dense. */
  readonly index: number;
  readonly device: string;
  readonly key: string;
  burstBytes: number;
  qps = 0;
  /** By context that has queue pairs: how many, and where its rate stands. */
  private readonly contexts = new Map<ContextView, { qps: number; readonly page: MemberPage }>();
  /** Tokens, when they were counted, and how many bytes a nanosecond brings since then. */
  private readonly state: Float64Array;

  constructor(of: Pick<Bucket, 'index' | 'device' | 'key' | 'burstBytes'>) {
    this.index = of.index;
    this.device = of.device;
    this.key = of.key;
    this.burstBytes = of.burstBytes;
    this.state = Float64Array.of(of.burstBytes, 0, 0);
  }

  /** As last counted: by now there may be more. */
  get tokens(): number {
    return this.state[0];
  }

  /** Whether nothing that was sent in the past counts any more. */
  isFull(nowNs: number): boolean {
    return this.state[0] + (nowNs - this.state[1]) * this.state[2] >= this.burstBytes;
  }

  take(bytes: number): void {
    this.state[0] -= bytes;
  }

  /** What was earned until now was earned at the rate that was known; from now on it is what was granted last. */
  fill(nowNs: number): void {
    const { state } = this;
    state[0] = Math.min(this.burstBytes, state[0] + (nowNs - state[1]) * state[2]);
    state[1] = nowNs;
    // Nobody with a queue pair: what is owed is paid back at the last rate.
    if (this.qps > 0) state[2] = this.grantedGbps() / 8;
  }

  private grantedGbps(): number {
    let gbps = 0;
    for (const { page } of this.contexts.values()) {
      // Who sends is alive, even if its event loop never gets to say so.
      page.counters[HEARTBEAT]++;
      page.poll?.();
      gbps += page.grants[RATE_GBPS];
    }
    return gbps;
  }

  /** When the first token is there. */
  get readyNs(): number {
    const { state } = this;
    return state[2] > 0 ? state[1] + Math.max(0, 1 - state[0]) / state[2] : Number.POSITIVE_INFINITY;
  }

  /** One more queue pair of a context. Returns how many it has. */
  addQp(context: ContextView, page: MemberPage): number {
    const known = this.contexts.get(context) ?? { qps: 0, page };
    this.contexts.set(context, known);
    this.qps++;
    return ++known.qps;
  }

  /** One less. */
  removeQp(context: ContextView): number {
    const known = this.contexts.get(context);
    if (known === undefined) return 0;
    this.qps--;
    if (--known.qps === 0) this.contexts.delete(context);
    return known.qps;
  }
}

/** Without a name a context is a tenant of its own. */
function keyOf({ device, tenant, handle }: ContextView): string {
  return tenant === '' ? `${device} #${handle}` : `${device} ${tenant}`;
}

/** Finds the bucket of a context. */
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

  /** Nobody has use for the full buckets of those who are gone; what a tenant owes it owes when it comes back. */
  private sweep(device: string, nowNs: number): void {
    for (const bucket of this.byKey.values()) {
      if (bucket.qps > 0 || bucket.device !== device || !bucket.isFull(nowNs)) continue;
      this.byKey.delete(bucket.key);
      this.all[bucket.index] = undefined;
    }
  }
}
