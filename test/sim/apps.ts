/** Closed-loop applications inside the simulation: the papers' B, M and D applications. */

import { RandomStream } from '../../src/sim/kernel/random.ts';
import { postSend, WrRing } from '../../src/sim/queues/post.ts';
import { Simulation, type SimulationOptions } from '../../src/sim/simulation.ts';
import type { Qp } from '../../src/sim/transport/qp.ts';
import * as V from '../../src/verbs/index.ts';

export interface AppOptions {
  /** Bytes of each WRITE. */
  size: number;
  /** Requests per post; the last one is signaled. */
  batch: number;
  depth: number;
  /** Service level. */
  sl?: number;
  /** Mean of the exponential think time before each post. */
  thinkNs?: number;
}

/** B: 1 MiB WRITEs, four outstanding. */
export const B: AppOptions = { size: 1 << 20, batch: 1, depth: 4 };
/** M: 16 B WRITEs, in batches. */
export const M: AppOptions = { size: 16, batch: 32, depth: 128 };
/** D: one 16 B WRITE at a time. The think time keeps it from synchronizing with the rounds of others. */
export const D: AppOptions = { size: 16, batch: 1, depth: 1, thinkNs: 200 };

const CAP = { maxSendSge: 1, maxRecvWr: 1, maxRecvSge: 1, maxInlineData: 0 };
const ACCESS = V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_REMOTE_WRITE;

/** One application on one queue pair from host 0 to host 1. */
export class App {
  /** Requests completed, and the times of the first and last counted completion. */
  completed = 0;
  firstNs = Number.NaN;
  lastNs = 0.5;
  readonly latenciesNs: number[] = [];
  private readonly lab: Lab;
  private readonly qp: Qp;
  private readonly o: AppOptions;
  private readonly ring: WrRing;
  private readonly out = new Uint32Array(V.HEADER_WORDS + 64 * V.SLOT_WORDS);
  private readonly actor: number;
  private readonly random: RandomStream;
  private postedNs = 0.5;

  constructor(lab: Lab, actor: number, o: AppOptions) {
    this.lab = lab;
    this.actor = actor;
    this.o = o;
    this.random = new RandomStream(lab.seed, 'app', actor);
    const { sim } = lab;
    const [qp, peer] = [0, 1].map((host) => {
      const cq = sim.createCq(host, 4096);
      const cap = { ...CAP, maxSendWr: o.depth };
      return sim.createQp({ host, pd: 1, cap, sendCq: cq, recvCq: cq });
    });
    lab.join(qp, peer, o.sl);
    lab.join(peer, qp, o.sl);
    this.qp = qp;
    qp.sendCq.actor = actor;
    const bytes = Math.max(o.size, 4096);
    const [from, to] = [0, 1].map((host) =>
      sim.world.regions.add(host, 1, new ArrayBuffer(bytes), 0, bytes, ACCESS),
    );
    this.ring = new WrRing(new ArrayBuffer(V.ringBytes(o.batch, 0)), o.batch, 0);
    for (let i = 0; i < o.batch; i++) {
      const flags = i === o.batch - 1 ? V.IBV_SEND_SIGNALED : 0;
      const at = V.slotAt(i);
      const w = this.ring.words;
      w[at + V.WR_OP] = V.IBV_WR_RDMA_WRITE | (flags << 8) | (1 << 16);
      setAddr(w, at + V.WR_REMOTE_LO, to.addr);
      w[at + V.WR_RKEY] = to.rkey;
      setAddr(w, at + V.WR_SGE0, from.addr);
      w[at + V.WR_SGE0 + V.SGE_LENGTH] = o.size;
      w[at + V.WR_SGE0 + V.SGE_LKEY] = from.lkey;
    }
  }

  /** Called by the simulation: with b = 0 for a completion, 1 when the think time is over. */
  wake(b: number): void {
    if (b === 1) {
      this.post();
      return;
    }
    const { sim } = this.lab;
    const n = this.qp.sendCq.poll(this.out, 0, 64, sim.world.qps);
    for (let i = 0; i < n; i++) {
      if ((this.out[V.slotAt(i) + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) throw new Error('a request failed');
      this.count(sim.nowNs);
      this.think();
    }
  }

  start(): void {
    for (let i = 0; i < this.o.depth; i += this.o.batch) this.think();
  }

  /** Payload rate between the first and last counted completion. */
  get gbps(): number {
    return (this.completed * this.o.size * 8) / (this.lastNs - this.firstNs);
  }

  get mmps(): number {
    return (this.completed * 1000) / (this.lastNs - this.firstNs);
  }

  get meanLatencyNs(): number {
    return this.latenciesNs.reduce((sum, x) => sum + x, 0) / this.latenciesNs.length;
  }

  private count(nowNs: number): void {
    if (nowNs < this.lab.warmupNs) return;
    if (this.o.depth === 1) this.latenciesNs.push(nowNs - this.postedNs);
    if (Number.isNaN(this.firstNs)) {
      this.firstNs = nowNs;
      return;
    }
    this.completed += this.o.batch;
    this.lastNs = nowNs;
  }

  private think(): void {
    const { thinkNs = 0 } = this.o;
    if (thinkNs === 0) this.post();
    else this.lab.sim.wake(this.random.exponential(thinkNs), this.actor, 1);
  }

  private post(): void {
    const { sim } = this.lab;
    this.postedNs = sim.nowNs;
    const n = postSend(sim.world, this.qp, this.ring, 0, this.o.batch, true);
    if (n !== this.o.batch) throw new Error(`posted ${n} of ${this.o.batch}`);
  }
}

function setAddr(w: Uint32Array, at: number, addr: number): void {
  w[at] = addr;
  w[at + 1] = addr / 4294967296;
}

/** A simulation with applications. */
export class Lab {
  readonly sim: Simulation;
  readonly seed: number;
  readonly warmupNs = 1e6;
  private readonly apps: App[] = [];

  constructor(options: SimulationOptions = {}) {
    this.seed = options.seed ?? 1;
    this.sim = new Simulation({ payload: false, ...options });
    this.sim.world.hooks = { ...this.sim.world.hooks, actor: (actor, b) => this.apps[actor].wake(b) };
  }

  add(o: AppOptions): App {
    const app = new App(this, this.apps.length, o);
    this.apps.push(app);
    return app;
  }

  run(durationNs: number): void {
    for (const app of this.apps) app.start();
    this.sim.runUntil(this.warmupNs + durationNs);
  }

  join(qp: Qp, peer: Qp, sl = 0): void {
    const attr: V.QpAttr = {
      qpAccessFlags: V.IBV_ACCESS_REMOTE_WRITE,
      ah: { sl },
      pathMtu: V.IBV_MTU_4096,
      destQpNum: peer.qpn,
      rqPsn: 0,
      sqPsn: 0,
      maxDestRdAtomic: 1,
      maxRdAtomic: 1,
      minRnrTimer: 1,
      timeout: 14,
      retryCnt: 7,
      rnrRetry: 7,
    };
    this.sim.modifyQp(qp, attr, V.maskOf(attr), V.IBV_QPS_RTS, peer.host);
  }
}
