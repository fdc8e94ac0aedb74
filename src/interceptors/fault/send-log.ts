/** Outstanding send requests, kept so that those behind a failed one can be flushed. */
import { IBV_WC_WR_FLUSH_ERR } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Rings } from '../rings.ts';

interface Sends {
  /** wr_id, low and high word, by sequence number. */
  readonly ids: Map<number, readonly [number, number]>;
  posted: number;
  /** Sequence number of the last request that was flushed here. Completions of the device up to it are dropped. */
  flushed: number;
}

export class SendLog {
  private readonly rings: Rings;
  private readonly qps = new Map<number, Sends>();

  constructor(rings: Rings) {
    this.rings = rings;
  }

  posted(qp: number, ring: number, start: number, count: number): void {
    const words = this.rings.wr(ring)?.words;
    if (words === undefined || count === 0) return;
    const sends = this.qps.get(qp) ?? { ids: new Map(), posted: 0, flushed: -1 };
    this.qps.set(qp, sends);
    for (let i = 0; i < count; i++) {
      const at = L.slotAt(start + i);
      sends.ids.set(sends.posted++, [words[at + L.WR_ID_LO], words[at + L.WR_ID_HI]]);
    }
  }

  /** Retires a send and those before it. Returns false if it was already flushed. */
  completed(words: Uint32Array): boolean {
    const sends = this.qps.get(words[L.WC_QP]);
    if (sends === undefined) return true;
    const seq = words[L.WC_SEQ];
    if (seq <= sends.flushed) return false;
    for (const known of sends.ids.keys()) {
      if (known > seq) break;
      sends.ids.delete(known);
    }
    return true;
  }

  /** Makes completions for all outstanding requests behind the failed one. */
  flush(failed: Uint32Array): Uint32Array[] {
    const sends = this.qps.get(failed[L.WC_QP]);
    if (sends === undefined) return [];
    sends.flushed = sends.posted - 1;
    const flushed = [...sends.ids].map(([seq, [lo, hi]]) => {
      const words = failed.slice();
      words[L.WC_OP] = IBV_WC_WR_FLUSH_ERR;
      words[L.WC_ID_LO] = lo;
      words[L.WC_ID_HI] = hi;
      words[L.WC_SEQ] = seq;
      return words;
    });
    sends.ids.clear();
    return flushed;
  }

  /** RESET: outstanding requests are lost, and numbering continues. */
  clear(qp: number): void {
    this.qps.get(qp)?.ids.clear();
  }

  /** Forgets a destroyed queue pair. */
  remove(qp: number): void {
    this.qps.delete(qp);
  }
}
