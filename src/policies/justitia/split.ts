/**
 * How a message is cut into chunks (section 5.1 of the paper). Either all chunks go over its own queue pair, or all
 * but the last go over a split queue pair, and the last follows on its own queue pair when the others have arrived.
 */
import type { Actions, QpView } from '../../shim/policy.ts';
import type { Resources, ResourceView } from '../../shim/resources.ts';
import { fitColumn } from '../../shim/tables.ts';
import { BLOCKED, step } from '../kit/step.ts';
import type { JustitiaOptions } from './options.ts';

/** Slots of a split queue pair. */
const DEPTH = 16;
/**
 * The most long chunks (BULK_BYTES or more) in flight on a split queue pair: as many as a whole device has in flight.
 */
const BULK_CHUNKS = 2;
const BULK_BYTES = 65536;
/**
 * The shortest messages that `auto` splits: shorter ones would lose more by the strict wait than they gain, and so
 * would messages in long chunks.
 */
const AUTO_BYTES = 1_000_000;

/** The split queue pairs of all contexts. */
export class SplitQps {
  private readonly mode: JustitiaOptions['splitQp'];
  /** By context. */
  private readonly kinds: { readonly resources: Resources; readonly kind: number }[] = [];
  /** By queue pair: 1 if the first chunks of the oldest held message went over the split queue pair. */
  private isSplit: Uint8Array = new Uint8Array(64);

  constructor(mode: JustitiaOptions['splitQp']) {
    this.mode = mode;
  }

  setup(resources: Resources): void {
    if (this.mode === 'never') return;
    const kind = resources.twins({ depth: DEPTH });
    this.kinds[resources.context.index] = { resources, kind };
  }

  /** A queue pair was created, or its state changed. */
  reset({ index }: QpView): void {
    this.isSplit = fitColumn(this.isSplit, index);
    this.isSplit[index] = 0;
  }

  private twinOf(qp: QpView): ResourceView | null {
    const of = this.kinds[qp.context.index];
    return of === undefined ? null : of.resources.twin(qp, of.kind);
  }

  /** Issues the oldest held request or a chunk of it, as `step` of the kit does. */
  step(qp: QpView, out: Actions, chunkBytes: number): number {
    const { index } = qp;
    const left = out.nextBytes(qp);
    const mayGain = this.mode === 'always' || (left >= AUTO_BYTES && chunkBytes < BULK_BYTES);
    if (
      (!mayGain && this.isSplit[index] === 0) ||
      this.mode === 'never' ||
      out.backlog(qp) === 0 ||
      out.isCrossChannel(qp)
    )
      return step(qp, out, chunkBytes);
    const twin = this.twinOf(qp);
    if (twin === null || !twin.connected) return step(qp, out, chunkBytes);
    if (left > chunkBytes && !out.splittable(qp)) return step(qp, out, chunkBytes);
    if (left <= chunkBytes) {
      if (twin.room < DEPTH) return BLOCKED;
      this.isSplit[index] = 0;
      return step(qp, out, chunkBytes);
    }
    const most = chunkBytes >= BULK_BYTES ? BULK_CHUNKS : DEPTH;
    if (DEPTH - twin.room >= most) return BLOCKED;
    const bytes = out.pieceOn(qp, twin, chunkBytes);
    if (bytes > 0) {
      this.isSplit[index] = 1;
      return bytes;
    }
    // The completions of earlier requests, or of chunks, call `feed`.
    return out.inflight(qp) > 0 || twin.room < DEPTH ? BLOCKED : step(qp, out, chunkBytes);
  }
}

/** The paper sends chunks over split queue pairs, whatever the length of the message. */
export function splitQpOf({ paper, splitQp }: JustitiaOptions): JustitiaOptions['splitQp'] {
  return paper === true && splitQp === 'auto' ? 'always' : splitQp;
}
