/** A policy that issues one piece of a held request per period, and records how late each of its timers fires. */
import type { Actions, Policy, QpView } from '#src/shim/policy.ts';

export interface PacingOptions {
  pieceBytes: number;
  periodNs: number;
  /** [0]: number of times; from [1] on: how late each timer fired, in nanoseconds. */
  lateNs: Float64Array;
}

export default function pacing({ pieceBytes, periodNs, lateNs }: PacingOptions): Policy {
  let dueNs = 0;
  let paced: QpView | null = null;
  const set = (qp: QpView, atNs: number, out: Actions) => {
    paced = qp;
    dueNs = atNs;
    out.timer(qp.context, atNs, 0);
  };
  return {
    name: 'pacing',
    needs: { wait: 'none' },
    slots: 8,
    onload: () => 0,
    feed(qp, out) {
      if (paced === null && out.backlog(qp) > 0) set(qp, out.nowNs(qp.context) + periodNs, out);
    },
    onTimer(_token, out) {
      const qp = paced;
      if (qp === null) return;
      const nowNs = out.nowNs(qp.context);
      lateNs[0]++;
      if (lateNs[0] < lateNs.length) lateNs[lateNs[0]] = nowNs - dueNs;
      paced = null;
      if (out.backlog(qp) === 0) return;
      out.signalNow(qp);
      out.piece(qp, pieceBytes);
      if (out.backlog(qp) > 0) set(qp, Math.max(nowNs, dueNs + periodNs), out);
    },
  };
}
