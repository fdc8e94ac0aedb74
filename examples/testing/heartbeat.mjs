// @ts-nocheck
// Heartbeats by datagram: each end beats once per period, and considers a peer dead that is silent for too long.
import { GRH_BYTES } from 'isoverbs';

export const PERIOD_NS = 1_000_000;
export const TIMEOUT_NS = 12 * PERIOD_NS;
const BEAT_BYTES = 8;
const RECEIVES = 16;

export class Heart {
  constructor(context) {
    this.context = context;
    this.pd = context.allocPd();
    this.cq = context.createCq({ channel: null });
    this.mr = this.pd.allocate(RECEIVES * (GRH_BYTES + BEAT_BYTES));
    this.wc = context.wcBatch({ capacity: RECEIVES });
    this.qp = this.pd.createQp({ sendCq: this.cq, type: 'UD' });
    this.qp.start();
    for (let i = 0; i < RECEIVES; i++) this.receive(i);
    this.received = 0;
  }

  receive(i) {
    const length = GRH_BYTES + BEAT_BYTES;
    this.qp.receive({ wrId: i, sgList: [{ mr: this.mr, offset: i * length, length }] });
  }

  /** Whether a beat of the peer has arrived since the last call. */
  listen() {
    const before = this.received;
    for (let i = 0, n = this.cq.poll(this.wc); i < n; i++) {
      if (!this.wc.isRecv(i)) continue;
      this.received++;
      this.receive(this.wc.wrId(i));
    }
    return this.received > before;
  }

  /** Beats towards `peer` (its heart.qp.endpoint()) for `forNs`; resolves to false as soon as the peer is dead. */
  async beat(peer, forNs) {
    const { context, qp, mr } = this;
    const to = { ah: this.pd.createAhTo(peer), qpNum: peer.qpNum, qkey: peer.qkey };
    const beganNs = context.nowNs();
    let lastNs = beganNs;
    while (context.nowNs() - beganNs < forNs) {
      qp.post({ opcode: 'SEND', sgList: [{ mr, length: BEAT_BYTES }], to });
      await context.sleep(PERIOD_NS);
      if (this.listen()) lastNs = context.nowNs();
      else if (context.nowNs() - lastNs > TIMEOUT_NS) return false;
    }
    return true;
  }
}
