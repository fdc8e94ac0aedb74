/** Always busy queue pairs: the speed of a NIC that no host CPU limits. */
import { ACCESS, QKEY, setAddr, takeToRts } from '../../bench/against-cpp/sim-load.ts';
import { brokenInvariants } from '../../src/sim/invariants.ts';
import type { Ah } from '../../src/sim/network/address.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { postSend, WrRing } from '../../src/sim/queues/post.ts';
import { Simulation } from '../../src/sim/simulation.ts';
import type { Qp } from '../../src/sim/transport/qp.ts';
import * as V from '../../src/verbs/index.ts';

const OPCODES = {
  write: V.IBV_WR_RDMA_WRITE,
  read: V.IBV_WR_RDMA_READ,
  fetchAdd: V.IBV_WR_ATOMIC_FETCH_AND_ADD,
  datagram: V.IBV_WR_SEND,
};

export interface Flow {
  from: number;
  to: number;
  op: keyof typeof OPCODES;
  size: number;
  /** Requests outstanding, posted `batch` at a time. */
  depth: number;
  batch: number;
  /** Datagrams: further destination hosts, used in turn. */
  alsoTo?: number[];
}

/** A simulation of always busy queue pairs on a changed cx6-100g. */
export class Bulk {
  readonly sim: Simulation;
  private readonly feeds: (() => void)[] = [];
  private readonly ahs: Ah[] = [];
  private readonly qps: Qp[] = [];

  constructor(changes: Record<string, unknown>, hosts = 2) {
    const params = override(PROFILES['cx6-100g'], {
      pcieJitter: 0,
      dmaReads: 1024,
      linkGbps: 400,
      ...changes,
    });
    this.sim = new Simulation({ params, hosts, payload: false });
    this.sim.world.hooks = {
      ...this.sim.world.hooks,
      actor: (actor) => this.feeds[actor](),
      ahOf: (handle) => this.ahs[handle],
    };
  }

  /** Requests started per microsecond between `warmNs` and `untilNs`. */
  ratePerUs(warmNs: number, untilNs: number): number {
    for (let i = 0; i < this.feeds.length; i++) this.sim.wake(0, i, 0);
    this.sim.runUntil(warmNs);
    const before = this.begun;
    this.sim.runUntil(untilNs);
    const broken = brokenInvariants(this.sim);
    if (broken.length > 0) throw new Error(broken.join('; '));
    return ((this.begun - before) * 1000) / (untilNs - warmNs);
  }

  private get begun(): number {
    return this.qps.reduce((sum, qp) => sum + qp.started, 0);
  }

  add(flow: Flow): void {
    const { from, to, op, depth, batch } = flow;
    const type = op === 'datagram' ? V.IBV_QPT_UD : V.IBV_QPT_RC;
    const qp = this.makeQp(from, type, depth);
    const peers = [to, ...(flow.alsoTo ?? [])].map((host) => this.makeQp(host, type, 1));
    takeToRts(this.sim, qp, peers[0]);
    for (const peer of peers) takeToRts(this.sim, peer, qp);
    const [near, far] = [from, to].map((host) => this.region(host, Math.max(flow.size, 4096)));
    const ring = new WrRing(new ArrayBuffer(V.ringBytes(batch, 0)), batch, 0);
    const handles = peers.map((peer) => this.makeAh(from, peer.host));
    for (let i = 0; i < batch; i++) {
      const at = V.slotAt(i);
      const w = ring.words;
      w[at + V.WR_OP] = OPCODES[op] | ((i === batch - 1 ? V.IBV_SEND_SIGNALED : 0) << 8) | (1 << 16);
      if (op === 'datagram') {
        w[at + V.WR_AH] = handles[i % peers.length];
        w[at + V.WR_REMOTE_QPN] = peers[i % peers.length].qpn;
        w[at + V.WR_REMOTE_QKEY] = QKEY;
      } else {
        setAddr(w, at + V.WR_REMOTE_LO, far.addr);
        w[at + V.WR_RKEY] = far.rkey;
      }
      setAddr(w, at + V.WR_SGE0, near.addr);
      w[at + V.WR_SGE0 + V.SGE_LENGTH] = flow.size;
      w[at + V.WR_SGE0 + V.SGE_LKEY] = near.lkey;
    }
    this.feed(qp, ring, flow);
  }

  private feed(qp: Qp, ring: WrRing, { depth, batch }: Flow): void {
    const out = new Uint32Array(V.HEADER_WORDS + 64 * V.SLOT_WORDS);
    let outstanding = 0;
    this.qps.push(qp);
    qp.sendCq.actor = this.feeds.length;
    this.feeds.push(() => {
      const n = qp.sendCq.poll(out, 0, 64, this.sim.world.qps);
      for (let i = 0; i < n; i++) {
        const status = out[V.slotAt(i) + V.WC_OP] & 0xff;
        if (status !== V.IBV_WC_SUCCESS) throw new Error(`a request failed: ${V.wcStatusName(status)}`);
        outstanding -= batch;
      }
      for (; outstanding < depth; outstanding += batch) postSend(this.sim.world, qp, ring, 0, batch, true);
    });
  }

  private makeQp(host: number, type: number, depth: number): Qp {
    const cq = this.sim.createCq(host, 4096);
    const cap = { maxSendWr: depth, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    return this.sim.createQp({ host, pd: 1, cap, sendCq: cq, recvCq: cq, type });
  }

  private region(host: number, bytes: number) {
    return this.sim.world.regions.add(host, 1, new ArrayBuffer(bytes), 0, bytes, ACCESS);
  }

  private makeAh(host: number, peerHost: number): number {
    const gid = new Uint8Array(16);
    const path = { sgid: gid, dgid: gid, sl: 0, trafficClass: 0, flowLabel: 0, hopLimit: 1 };
    return this.ahs.push({ host, pd: 1, peerHost, group: null, ...path }) - 1;
  }
}
