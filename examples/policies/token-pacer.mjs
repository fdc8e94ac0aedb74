// @ts-nocheck
// A custom policy: a token bucket per queue pair. docs/policies.md explains it line by line.
//   openDevice('sim0', { policy: tokenPacer({ rateBytesPerS: 1e9 }) })
import { createShim } from 'isoverbs/policies';

export class TokenPacer {
  name = 'token-pacer';
  needs = { wait: 'none' };
  /** Slots per queue in addition to the application's own requests: pieces of the oldest one. */
  slots = 16;

  /** By index of the queue pair. Tokens are bytes; a negative number is a debt. */
  qps = [];
  tokens = [];
  filledNs = [];

  constructor({ rateBytesPerS, burstBytes = 65536 }) {
    if (!(rateBytesPerS > 0 && burstBytes >= 1))
      throw new Error('token-pacer: rateBytesPerS must be above 0, and burstBytes at least 1');
    this.bytesPerNs = rateBytesPerS / 1e9;
    this.burstBytes = burstBytes;
  }

  onQp(qp, change, out) {
    this.qps[qp.index] = change === 'destroyed' ? undefined : qp;
    if (change !== 'created') return;
    this.tokens[qp.index] = this.burstBytes;
    this.filledNs[qp.index] = out.nowNs(qp.context);
  }

  // All requests are held; `feed` issues them at once while there are tokens.
  onload() {
    return 0;
  }

  feed(qp, out) {
    const i = qp.index;
    this.fill(i, out.nowNs(qp.context));
    while (out.backlog(qp) > 0 && out.room(qp) > 0) {
      if (this.tokens[i] <= 0) {
        out.timer(qp.context, this.filledNs[i] + (1 - this.tokens[i]) / this.bytesPerNs, i);
        return;
      }
      this.tokens[i] -= this.issue(qp, out);
    }
  }

  /** Issues the oldest request, or its next piece; returns its bytes. */
  issue(qp, out) {
    const bytes = out.nextBytes(qp);
    if (bytes <= this.burstBytes || !out.splittable(qp)) {
      out.pass(qp);
      return bytes;
    }
    out.piece(qp, this.burstBytes);
    return this.burstBytes;
  }

  fill(i, nowNs) {
    const earned = (nowNs - this.filledNs[i]) * this.bytesPerNs;
    this.tokens[i] = Math.min(this.burstBytes, this.tokens[i] + earned);
    this.filledNs[i] = nowNs;
  }

  onTimer(token, out) {
    const qp = this.qps[token];
    if (qp !== undefined) this.feed(qp, out);
  }
}

/** For configuration files, and for drivers in other threads. */
export default (options) => new TokenPacer(options);

/** An interceptor for the option `policy` of openDevice(). */
export const tokenPacer = (options) => createShim(() => new TokenPacer(options));
