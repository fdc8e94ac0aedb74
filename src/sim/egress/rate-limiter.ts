/**
 * How fast the packets of one queue pair reach its port: a rate limit that a verb sets (a leaky bucket, made in
 * rate-limiters.ts), or congestion control (network/dcqcn.ts). Each is one object with these methods.
 */
export interface RateLimiter {
  /** Whether the next packet may go now, at `clock[0]`. If not, raises `due[0]` to when it may. */
  allows(clock: Float64Array, due: Float64Array): boolean;
  /** A packet is admitted to the port; `bytes` counts its headers. */
  count(bytes: number, clock: Float64Array): void;
}

/**
 * Each packet, headers included, moves the due time of the next one, which may run ahead by up to `burstNs`
 * (ibv_modify_qp_rate_limit(3)).
 */
export class LeakyBucket implements RateLimiter {
  private readonly nsPerByte: number;
  private readonly burstNs: number;
  /** [0] when the next packet is due at the exact rate. */
  private readonly dueNs = new Float64Array(1);

  constructor(kbps: number, burstBytes: number, nowNs: number) {
    this.nsPerByte = 8e6 / kbps;
    this.burstNs = burstBytes * this.nsPerByte;
    this.dueNs[0] = nowNs;
  }

  allows(clock: Float64Array, due: Float64Array): boolean {
    const earliestNs = this.dueNs[0] - this.burstNs;
    if (earliestNs <= clock[0]) return true;
    due[0] = Math.max(due[0], earliestNs);
    return false;
  }

  count(bytes: number, clock: Float64Array): void {
    this.dueNs[0] = Math.max(this.dueNs[0], clock[0]) + bytes * this.nsPerByte;
  }
}
