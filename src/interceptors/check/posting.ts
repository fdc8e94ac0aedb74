/** The posting verbs under `check`: they check each request and keep it in the ledger until it completes. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { KnownRing, Rings } from '../rings.ts';
import type { CheckCode, Findings } from './findings.ts';
import type { CheckedQp, Ledger, Region, WorkQueue } from './ledger.ts';
import { checkMemory, checkSend } from './requests.ts';

/** The mistake that a refused post reveals. A full queue is not a mistake. */
const REASON_CODES: Readonly<Record<number, CheckCode>> = {
  [L.REASON_STATE]: 'ISO_CHECK_QP_STATE',
  [L.REASON_INLINE]: 'ISO_CHECK_INLINE',
  [L.REASON_SRQ]: 'ISO_CHECK_SRQ',
  [L.REASON_OPCODE]: 'ISO_CHECK_REQUEST',
  [L.REASON_SGE_COUNT]: 'ISO_CHECK_REQUEST',
  [L.REASON_LENGTH]: 'ISO_CHECK_REQUEST',
  [L.REASON_ATOMIC]: 'ISO_CHECK_REQUEST',
  [L.REASON_TARGET]: 'ISO_CHECK_REQUEST',
  [L.REASON_RANGE]: 'ISO_CHECK_REQUEST',
  [L.REASON_FLAGS]: 'ISO_CHECK_REQUEST',
  [L.REASON_AH]: 'ISO_CHECK_REQUEST',
  [L.REASON_WINDOW]: 'ISO_CHECK_REQUEST',
};

interface Posted {
  verb: 'postSend' | 'postRecv' | 'postSrqRecv';
  subject: number;
  ring: KnownRing;
  start: number;
  count: number;
  taken: number;
}

export class PostChecker {
  private readonly next: Provider;
  private readonly rings: Rings;
  private readonly ledger: Ledger;
  private readonly findings: Findings;

  constructor(next: Provider, rings: Rings, ledger: Ledger, findings: Findings) {
    this.next = next;
    this.rings = rings;
    this.ledger = ledger;
    this.findings = findings;
  }

  verbs(): Pick<Verbs, 'postSend' | 'postRecv' | 'postSrqRecv'> {
    const { next } = this;
    return {
      postSend: (qp, ring, start, count) => {
        const taken = next.postSend(qp, ring, start, count);
        const known = this.rings.wr(ring);
        const to = this.ledger.qps.get(qp);
        if (known !== undefined && to !== undefined) {
          this.sent(to, { verb: 'postSend', subject: qp, ring: known, start, count, taken });
        }
        return taken;
      },
      postRecv: (qp, ring, start, count) => {
        const taken = next.postRecv(qp, ring, start, count);
        const known = this.rings.wr(ring);
        const to = this.ledger.qps.get(qp);
        if (known !== undefined && to !== undefined) {
          this.received(to.recvs, to.pd, { verb: 'postRecv', subject: qp, ring: known, start, count, taken });
        }
        return taken;
      },
      postSrqRecv: (srq, ring, start, count) => {
        const taken = next.postSrqRecv(srq, ring, start, count);
        const known = this.rings.wr(ring);
        const to = this.ledger.srqs.get(srq);
        if (known !== undefined && to !== undefined) {
          this.received(to.queue, to.pd, {
            verb: 'postSrqRecv',
            subject: srq,
            ring: known,
            start,
            count,
            taken,
          });
        }
        return taken;
      },
    };
  }

  private sent(qp: CheckedQp, post: Posted): void {
    const { ring, start, taken } = post;
    for (let i = start; i < start + taken; i++) {
      const at = L.slotAt(i);
      const signaled = qp.init.sqSigAll || ((ring.words[at + L.WR_OP] >>> 8) & C.IBV_SEND_SIGNALED) !== 0;
      const ah = qp.init.qpType === C.IBV_QPT_UD ? ring.words[at + L.WR_AH] : 0;
      this.keep(qp.sends, post, i, signaled, checkSend(this.ledger, this.findings, qp, ring, i), ah);
    }
    this.refused(post);
    this.checkQueues(qp, post);
  }

  private received(queue: WorkQueue, pd: number, post: Posted): void {
    const { verb, subject, ring, start, taken } = post;
    for (let i = start; i < start + taken; i++) {
      const where = { verb, subject, pd, writes: true };
      this.keep(queue, post, i, true, checkMemory(this.ledger, this.findings, where, ring, i), 0);
    }
    this.refused(post);
    this.checkCq(queue, post);
  }

  private keep(
    queue: WorkQueue,
    { verb, subject, ring }: Posted,
    index: number,
    signaled: boolean,
    regions: readonly Region[],
    ah: number,
  ): void {
    const at = L.slotAt(index);
    const idLo = ring.words[at + L.WR_ID_LO];
    const idHi = ring.words[at + L.WR_ID_HI];
    if (queue.has(idLo, idHi)) {
      const id = (BigInt(idHi) << 32n) | BigInt(idLo);
      this.findings.add('ISO_CHECK_WR_ID', verb, subject, `wr_id ${id}; their completions look the same`);
    }
    queue.add({ idLo, idHi, signaled, regions, ah });
  }

  private refused({ verb, subject, ring, start, count, taken }: Posted): void {
    if (taken >= count) return;
    const reason = ring.words[L.HDR_REASON];
    const code = REASON_CODES[reason];
    if (code === undefined) return;
    this.findings.add(code, verb, subject, `request ${start + taken}: ${L.REASON_TEXT[reason]}`);
  }

  private checkQueues(qp: CheckedQp, post: Posted): void {
    const { outstanding } = qp.sends;
    const depth = qp.init.cap.maxSendWr;
    if (depth > 0 && outstanding.length >= depth && !outstanding.some(({ signaled }) => signaled)) {
      const text = `${outstanding.length} requests in a queue of ${depth}; signal at least one in every ${Math.max(1, depth >> 1)}`;
      this.findings.add('ISO_CHECK_NEVER_SIGNALED', post.verb, qp.handle, text);
    }
    this.checkCq(qp.sends, post);
  }

  private checkCq({ cq }: WorkQueue, { verb, subject }: Posted): void {
    if (cq === undefined || cq.pending <= cq.cqe) return;
    const text = `${cq.pending} requests, ${cq.cqe} entries; create a larger one, or poll before posting more`;
    this.findings.add('ISO_CHECK_CQ_SIZE', verb, subject, text);
  }
}
