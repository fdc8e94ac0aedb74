// @ts-nocheck
/** Cuts, holds and waits at random, with its own generator; in time it does everything that a policy may do. */
class Arbitrary {
  name = 'arbitrary';
  needs = { wait: 'none' };
  slots = 24;

  constructor({ seed = 7, splitsAboveBytes = undefined } = {}) {
    this.state = seed | 1;
    this.splitsAboveBytes = splitsAboveBytes;
  }

  next(n) {
    this.state = (Math.imul(this.state, 1664525) + 1013904223) | 0;
    return (this.state >>> 8) % n;
  }

  onload(_qp, _words, _start, count) {
    return this.next(count + 1);
  }

  feed(qp, out) {
    if (out.inflight(qp) > 0 && this.next(3) === 0) return;
    while (out.backlog(qp) > 0 && out.room(qp) >= 2 && this.next(8) !== 0) {
      if (out.splittable(qp) && out.nextBytes(qp) > 0 && this.next(4) !== 0)
        out.piece(qp, 1 + this.next(5000));
      else out.pass(qp);
      if (out.wait !== 'none' && this.next(2) === 0) out.zeroWaits(qp, 1 + this.next(3));
    }
    if (out.inflight(qp) === 0 && out.room(qp) > 0 && out.backlog(qp) > 0) out.pass(qp);
  }
}

export default (options) => new Arbitrary(options);
