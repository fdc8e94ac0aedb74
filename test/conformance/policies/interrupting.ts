/** A policy that uses timers, WAIT, ENABLE and internal queue pairs, at random. */
import { type Actions, NO_TOKEN, type Policy, type QpView } from '../../../src/shim/policy.ts';
import type { ResourceRequest, Resources, ResourceView } from '../../../src/shim/resources.ts';
import { IBV_WR_RDMA_WRITE, ISO_WR_ENABLE } from '../../../src/verbs/constants.ts';

const PCQ_DEPTH = 64;
const CLOCK = 0;
const PAUSE = 1;
const PULSE = 2;
const ENABLED = 3;

/**
 * Does everything that a policy can do except cutting: pauses by WAITs on the queue of a managed loopback, resumes by
 * ENABLEs from another one, at random times, and holds requests until timers expire.
 */
export class Interrupting implements Policy {
  readonly name = 'interrupting';
  readonly needs = { wait: 'required' } as const;
  readonly slots = 24;
  private state: number;
  private readonly machines: { resources: Resources; pcq: ResourceView; ordinary: ResourceView }[] = [];
  private readonly qps: (QpView | undefined)[] = [];
  /** By context: WAITs that have not been released yet, and pulses that may release them. */
  private readonly paused: number[] = [];
  private readonly pulses: number[] = [];
  private readonly zeroWrite: ResourceRequest = {
    opcode: IBV_WR_RDMA_WRITE,
    signaled: true,
    offsetBytes: 0,
    bytes: 0,
    remoteOffsetBytes: 0,
    target: 0,
    count: 0,
    token: NO_TOKEN,
  };
  constructor(seed: number) {
    this.state = seed | 1;
  }
  private next(n: number): number {
    this.state = (Math.imul(this.state, 1664525) + 1013904223) | 0;
    return (this.state >>> 8) % n;
  }
  setup(resources: Resources, out: Actions): void {
    const { context } = resources;
    const pcq = resources.loopback({ depth: PCQ_DEPTH, managed: true });
    const ordinary = resources.loopback({ depth: PCQ_DEPTH, bufferBytes: 64 });
    this.machines[context.index] = { resources, pcq, ordinary };
    this.paused[context.index] = 0;
    this.pulses[context.index] = 0;
    for (let i = 0; i < PCQ_DEPTH / 2; i++) this.pulse(context.index, out);
    out.timer(context, out.nowNs(context) + 1000, context.index * 8 + CLOCK);
  }
  /** One more request on the managed queue pair, whose completion will release one WAIT. */
  private pulse(context: number, out: Actions): void {
    const token = context * 8 + PULSE;
    if (out.post(this.machines[context].pcq, { ...this.zeroWrite, token })) this.pulses[context]++;
  }
  onQp(qp: QpView, change: string): void {
    this.qps[qp.index] = change === 'destroyed' ? undefined : qp;
  }
  onload(_qp: QpView, _words: Uint32Array, _start: number, count: number): number {
    return this.next(count + 1);
  }
  feed(qp: QpView, out: Actions): void {
    const context = qp.context.index;
    while (out.backlog(qp) > 0 && out.room(qp) >= 3 && this.next(6) !== 0) {
      const what = this.next(8);
      if (what === 0 && this.paused[context] < PCQ_DEPTH / 4) {
        this.paused[context]++;
        out.waitFor(qp, this.machines[context].pcq.cq, 1, context * 8 + PAUSE);
      } else if (what === 1) out.signalNow(qp);
      else if (what < 5 && out.splittable(qp) && out.nextBytes(qp) > 1) out.piece(qp, 1 + this.next(3000));
      else out.pass(qp);
    }
  }
  onCompleted(qp: QpView, _count: number, out: Actions): void {
    if (this.next(4) === 0) out.signalNow(qp);
  }
  onTimer(token: number, out: Actions): void {
    const context = token >> 3;
    const { resources, pcq, ordinary } = this.machines[context];
    if (this.paused[context] > 0 && this.pulses[context] > 0) {
      this.pulses[context]--;
      const enable = { ...this.zeroWrite, opcode: ISO_WR_ENABLE, target: pcq.qp, count: 1 };
      out.post(ordinary, { ...enable, token: context * 8 + ENABLED });
    }
    for (const qp of this.qps) {
      if (qp === undefined || qp.context.index !== context || out.backlog(qp) === 0) continue;
      if (out.inflight(qp) === 0 && out.room(qp) > 0) out.pass(qp);
      else this.feed(qp, out);
    }
    out.timer(resources.context, out.nowNs(resources.context) + 3000 + this.next(20_000), token);
  }
  onInternal(token: number, _status: number, out: Actions): void {
    const context = token >> 3;
    if ((token & 7) === PAUSE) this.paused[context]--;
    if ((token & 7) === PULSE) this.pulse(context, out);
  }
}
