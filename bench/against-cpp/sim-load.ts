/** Minimal closed loops inside a simulation, so that almost all time is spent in the simulated NIC. */
import type { NicParams } from '#src/sim/profile/params.ts';
import { postSend, WrRing } from '#src/sim/queues/post.ts';
import { Simulation } from '#src/sim/simulation.ts';
import type { Qp } from '#src/sim/transport/qp.ts';
import * as V from '#src/verbs/index.ts';

export interface LoadOptions {
  qps: number;
  /** Bytes of each WRITE or READ. */
  sizeBytes: number;
  read?: boolean;
  /** Requests posted at once, of which the last is signaled. */
  batch: number;
  /** Requests outstanding per queue pair. */
  depth: number;
}

/** All access rights. */
export const ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;
/** Q_Key of datagrams. */
export const QKEY = 7;
const POLL = 16;

/** Two hosts on one cable, with applications on host 0 and their peers on host 1. No payload is moved. */
export class Load {
  readonly sim: Simulation;
  /** By actor: its queue pair, the peer, its requests, and its depth. */
  private readonly qps: Qp[] = [];
  private readonly peers: Qp[] = [];
  private readonly rings: WrRing[] = [];
  private readonly depths: number[] = [];
  private readonly out = new Uint32Array(V.HEADER_WORDS + POLL * V.SLOT_WORDS);

  constructor(params: Readonly<NicParams>, seed: number) {
    this.sim = new Simulation({ params, seed, payload: false });
    this.sim.world.hooks = { ...this.sim.world.hooks, actor: (actor) => this.wake(actor) };
  }

  add(o: LoadOptions): void {
    const { sim } = this;
    const bytes = Math.max(o.sizeBytes, 4096);
    const [from, to] = [0, 1].map((host) =>
      sim.world.regions.add(host, 1, new ArrayBuffer(bytes), 0, bytes, ACCESS),
    );
    const ring = new WrRing(new ArrayBuffer(V.ringBytes(o.batch, 0)), o.batch, 0);
    const opcode = o.read === true ? V.IBV_WR_RDMA_READ : V.IBV_WR_RDMA_WRITE;
    for (let i = 0; i < o.batch; i++) {
      const flags = i === o.batch - 1 ? V.IBV_SEND_SIGNALED : 0;
      const at = V.slotAt(i);
      const w = ring.words;
      w[at + V.WR_OP] = opcode | (flags << 8) | (1 << 16);
      setAddr(w, at + V.WR_REMOTE_LO, to.addr);
      w[at + V.WR_RKEY] = to.rkey;
      setAddr(w, at + V.WR_SGE0, from.addr);
      w[at + V.WR_SGE0 + V.SGE_LENGTH] = o.sizeBytes;
      w[at + V.WR_SGE0 + V.SGE_LKEY] = from.lkey;
    }
    for (let i = 0; i < o.qps; i++) this.addQp(ring, o.depth);
  }

  start(): void {
    for (let actor = 0; actor < this.qps.length; actor++) {
      for (let posted = 0; posted < this.depths[actor]; posted += this.rings[actor].capacity)
        this.post(actor);
    }
  }

  /** Payload that has arrived so far. */
  deliveredBytes(): number {
    return this.peers.reduce((sum, qp) => sum + qp.deliveredBytes, 0);
  }

  /** Packets admitted to ports so far, without acknowledgements. */
  get packets(): number {
    return this.sim.world.packetCount[0];
  }

  private addQp(ring: WrRing, depth: number): void {
    const { sim } = this;
    const cap = { maxSendWr: depth, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const cq = sim.createCq(0, Math.ceil(depth / ring.capacity));
    const qp = sim.createQp({ host: 0, pd: 1, cap, sendCq: cq, recvCq: cq });
    const peer = sim.createQp({ host: 1, pd: 1, cap });
    takeToRts(sim, qp, peer);
    takeToRts(sim, peer, qp);
    cq.actor = this.qps.length;
    this.qps.push(qp);
    this.peers.push(peer);
    this.rings.push(ring);
    this.depths.push(depth);
  }

  private wake(actor: number): void {
    const { sim, out } = this;
    const n = this.qps[actor].sendCq.poll(out, 0, POLL, sim.world.qps);
    for (let i = 0; i < n; i++) {
      if ((out[V.slotAt(i) + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) throw new Error('a request failed');
      this.post(actor);
    }
  }

  private post(actor: number): void {
    const ring = this.rings[actor];
    const n = postSend(this.sim.world, this.qps[actor], ring, 0, ring.capacity, false);
    if (n !== ring.capacity) throw new Error(`posted ${n} of ${ring.capacity}`);
  }
}

/** Takes a queue pair to RTS, connected to its peer unless it carries datagrams. */
export function takeToRts(sim: Simulation, qp: Qp, peer: Qp): void {
  const attr: V.QpAttr = {
    qkey: QKEY,
    qpAccessFlags: ACCESS,
    ah: {},
    pathMtu: V.IBV_MTU_4096,
    destQpNum: peer.qpn,
    rqPsn: 0,
    sqPsn: 0,
    maxDestRdAtomic: 16,
    maxRdAtomic: 16,
    minRnrTimer: 1,
    timeout: 14,
    retryCnt: 7,
    rnrRetry: 7,
  };
  sim.modifyQp(qp, attr, V.maskOf(attr), V.IBV_QPS_RTS, peer.host);
}

/** Writes an address into two words. */
export function setAddr(w: Uint32Array, at: number, addr: number): void {
  w[at] = addr;
  w[at + 1] = addr / 4294967296;
}
