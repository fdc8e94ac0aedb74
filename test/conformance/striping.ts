// A policy that stripes messages over queue pairs and their twins.
import type { Actions, Policy, QpChange, QpView } from '../../src/shim/policy.ts';
import type { Resources, ResourceView } from '../../src/shim/resources.ts';
import { isCrossChannel } from '../../src/shim/wait/cross-channel.ts';
import * as L from '../../src/verbs/layout.ts';

/** Pieces that each queue pair has in flight at most. */
const DEPTH = 8;

/** Sends a piece on the queue pair itself and one on each of its twins, in turns, as far as there is room. */
export class Striping implements Policy {
  readonly name = 'striping';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 16;
  readonly crossChannel = true;
  readonly splitsAboveBytes: number;
  /** Twins of each queue pair, by index. */
  readonly twins: ResourceView[][] = [];
  /** Pieces, on the queue pairs themselves and on twins. */
  readonly pieces = [0, 0];
  /** Whether the queue pairs themselves send no pieces while their twins work. */
  twinsOnly = false;
  /** Pieces of one message that are in flight on twins at most. */
  most = 0;
  private readonly pieceBytes: number;
  private readonly kinds: { of: Resources; kinds: number[] }[] = [];
  private readonly count: number;

  constructor(pieceBytes: number, count = 1) {
    this.pieceBytes = pieceBytes;
    this.splitsAboveBytes = pieceBytes;
    this.count = count;
  }

  setup(of: Resources): void {
    const kinds = Array.from({ length: this.count }, () => of.twins({ depth: DEPTH }));
    this.kinds[of.context.index] = { of, kinds };
  }

  onQp(qp: QpView, change: QpChange): void {
    if (change !== 'created') return;
    const { of, kinds } = this.kinds[qp.context.index];
    this.twins[qp.index] = kinds.flatMap((kind) => of.twin(qp, kind) ?? []);
  }

  /** WAITs and ENABLEs are held, and what is long enough to be cut. */
  onload(_qp: QpView, words: Uint32Array, start: number, count: number): number {
    for (let i = 0; i < count; i++) {
      const at = L.slotAt(start + i);
      if (isCrossChannel(words, at) || words[at + L.WR_OP] >>> 16 > 0) return i;
    }
    return count;
  }

  feed(qp: QpView, out: Actions): void {
    for (let isMoving = true; isMoving; ) {
      isMoving = false;
      for (const twin of this.twins[qp.index]) {
        if (out.nextBytes(qp) > this.pieceBytes) isMoving = this.onTwin(qp, twin, out) || isMoving;
      }
      if (!this.leavesToTwins(qp, out)) isMoving = this.onItself(qp, out) || isMoving;
    }
  }

  private leavesToTwins(qp: QpView, out: Actions): boolean {
    return (
      this.twinsOnly &&
      out.nextBytes(qp) > this.pieceBytes &&
      this.twins[qp.index].some((one) => one.connected)
    );
  }

  private onTwin(qp: QpView, twin: ResourceView, out: Actions): boolean {
    const taken = out.pieceOn(qp, twin, this.pieceBytes);
    if (taken > 0) this.pieces[1]++;
    this.most = Math.max(this.most, DEPTH - twin.room);
    return taken > 0;
  }

  private onItself(qp: QpView, out: Actions): boolean {
    if (out.backlog(qp) === 0) return false;
    if (out.isCrossChannel(qp)) return out.execute(qp);
    const room = out.room(qp);
    const isCut = out.nextBytes(qp) > this.pieceBytes && out.splittable(qp) && room > 1;
    if (room === 0 || (isCut && out.inflight(qp) >= DEPTH)) return false;
    if (isCut) out.piece(qp, this.pieceBytes);
    else out.pass(qp);
    if (isCut) this.pieces[0]++;
    return true;
  }
}
