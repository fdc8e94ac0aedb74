/**
 * The list of tenants, encoded for sending. There may be thousands of tenants, and tools that send requests without
 * pause.
 */
import type { Host } from './host.ts';
import { frame } from './protocol.ts';

/** A row has up to eleven kilobytes if every character of its names must be escaped. */
const ROWS_PER_FRAME = 5;
/** Bounds the size of the first message. */
const MAX_SHOWN_DEVICES = 8;
/**
 * A list is reused for this many times the time it took to make, so making lists takes at most a tenth of the core.
 */
const CACHE_FACTOR = 9;

export class Listing {
  private readonly host: Host;
  private readonly nowNs: () => number;
  private readonly policy: string;
  private cachedFrames: Buffer[] = [];
  private cacheEndNs = Number.NEGATIVE_INFINITY;

  constructor(host: Host, policy: string, nowNs: () => number) {
    this.host = host;
    this.policy = policy;
    this.nowNs = nowNs;
  }

  /** The list, in as many messages as it needs. */
  frames(): readonly Buffer[] {
    const nowNs = this.nowNs();
    if (nowNs < this.cacheEndNs) return this.cachedFrames;
    const rows = this.host.tenants();
    const devices = this.host.shownDevices().slice(0, MAX_SHOWN_DEVICES);
    this.cachedFrames = [
      frame({ type: 'tenants', nowNs, rows: [], devices, policy: this.policy, more: rows.length > 0 }),
    ];
    let next = 0;
    while (next < rows.length) {
      const part = rows.slice(next, next + ROWS_PER_FRAME);
      next += part.length;
      this.cachedFrames.push(frame({ type: 'tenants', nowNs, rows: part, more: next < rows.length }));
    }
    const endNs = this.nowNs();
    this.cacheEndNs = endNs + CACHE_FACTOR * (endNs - nowNs);
    return this.cachedFrames;
  }

  /** Drops the cached list after a change that the next answer must show. */
  invalidate(): void {
    this.cacheEndNs = Number.NEGATIVE_INFINITY;
  }
}
