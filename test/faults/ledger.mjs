// @ts-nocheck
// Records the requests that a program posts, and checks its completions: one for each, in order, with its wr_id.
import { resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const { Rings } = await import(`${ROOT}/dist/interceptors/rings.js`);
const V = await import(`${ROOT}/dist/verbs/index.js`);

export class RequestLedger {
  name = 'requests';
  completions = 0;
  /** By queue pair: failed completions other than flushes. */
  failed = new Map();
  wrong = [];
  outstanding = new Map();
  rings = new Rings();

  wrap(next) {
    return {
      ...this.rings.verbs(next),
      postSend: (qp, ring, start, count) =>
        this.note(`${qp} send`, ring, start, next.postSend(qp, ring, start, count)),
      postRecv: (qp, ring, start, count) =>
        this.note(`${qp} recv`, ring, start, next.postRecv(qp, ring, start, count)),
      postSrqRecv: (srq, ring, start, count) =>
        this.note(`${srq} recv`, ring, start, next.postSrqRecv(srq, ring, start, count)),
      modifyQp: (qp, attr, mask) => {
        next.modifyQp(qp, attr, mask);
        if ((mask & V.IBV_QP_STATE) !== 0 && attr.qpState === V.IBV_QPS_RESET) this.forget(qp);
      },
      destroyQp: (qp) => {
        next.destroyQp(qp);
        this.forget(qp);
      },
      pollCq: (cq, ring, start, max) => {
        const polled = next.pollCq(cq, ring, start, max);
        const words = this.rings.wc(ring)?.words;
        for (let i = 0; i < polled; i++) this.completed(words, V.slotAt(start + i));
        return polled;
      },
    };
  }

  note(queue, ring, start, posted) {
    const { words } = this.rings.wr(ring);
    const ids = this.outstanding.get(queue) ?? [];
    this.outstanding.set(queue, ids);
    for (let i = 0; i < posted; i++) ids.push(idAt(words, V.slotAt(start + i)));
    return posted;
  }

  forget(qp) {
    this.outstanding.delete(`${qp} send`);
    this.outstanding.delete(`${qp} recv`);
  }

  completed(words, at) {
    const status = words[at + V.WC_OP] & 0xff;
    this.completions++;
    if (status !== V.IBV_WC_SUCCESS && status !== V.IBV_WC_WR_FLUSH_ERR)
      this.failed.set(words[at + V.WC_QP], (this.failed.get(words[at + V.WC_QP]) ?? 0) + 1);
    const isRecv = (words[at + V.WC_OP] & V.WC_RECV_SIDE) !== 0;
    const owner = isRecv && words[at + V.WC_SRQ] !== 0 ? words[at + V.WC_SRQ] : words[at + V.WC_QP];
    const queue = `${owner} ${isRecv ? 'recv' : 'send'}`;
    const ids = this.outstanding.get(queue) ?? [];
    const id = idAt(words, at);
    const position = ids.indexOf(id);
    if (position < 0) this.wrong.push(`completion of ${id}, which is not outstanding on ${queue}`);
    // Receives complete one by one; a send's completion also stands for the unsignaled sends before it.
    else if (isRecv && words[at + V.WC_SRQ] === 0 && position > 0)
      this.wrong.push(`${id} overtook ${ids[0]} on ${queue}`);
    ids.splice(isRecv ? position : 0, isRecv ? 1 : position + 1);
  }
}

function idAt(words, at) {
  return (BigInt(words[at + 1]) << 32n) | BigInt(words[at]);
}
