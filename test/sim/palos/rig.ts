/** The scheduler alone: queue pairs whose packets, gaps and pauses a test decides. */
import { NicWeights } from '../../../src/sim/egress/palos/nic-weights.ts';
import { Palos } from '../../../src/sim/egress/palos/palos-scheduler.ts';
import { DoubleRows } from '../../../src/sim/kernel/double-rows.ts';
import { override } from '../../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../../src/sim/profile/profiles.ts';
import { Simulation } from '../../../src/sim/simulation.ts';
import { IDLE, type Qp, RUNS, SENDING, type Sender, STEP } from '../../../src/sim/transport/qp.ts';
import { DEFAULT_LABELS, type Labels } from '../../../src/verbs/labels.ts';

const CAP = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
const HEADER_BYTES = 82;

export const MTU = 1500;

export class Rig {
  readonly clock = new Float64Array(1);
  readonly weights: NicWeights;
  readonly scheduler: Palos;
  private readonly sim = new Simulation();
  /** Payload that each queue pair has sent. */
  readonly sent = new Map<Qp, number>();

  constructor(changes: Record<string, unknown> = {}) {
    const params = override(PROFILES.ideal, { mtuBytes: MTU, ...changes });
    this.weights = new NicWeights(params, this.clock);
    this.scheduler = new Palos(params, this.weights);
  }

  /** A queue pair without work. */
  add(labels: Partial<Labels> = {}, tenant = 't'): Qp {
    const cq = this.sim.createCq(0, 1);
    const qp: Qp = this.sim.createQp({ host: 0, pd: 1, cap: CAP, sendCq: cq, recvCq: cq });
    qp.openSends(false, new DoubleRows(RUNS));
    this.label(qp, labels, tenant);
    this.sent.set(qp, 0);
    return qp;
  }

  label(qp: Qp, labels: Partial<Labels>, tenant = 't'): void {
    this.weights.setLabels(qp, tenant, { ...DEFAULT_LABELS, ...labels });
  }

  /** A queue pair has a packet. */
  ready(qp: Qp): void {
    if (qp.phase === IDLE) this.begin(qp);
    qp.phase = SENDING;
    this.scheduler.join(qp.requests);
  }

  /** A queue pair has work, but no packet. */
  begin(qp: Qp): void {
    qp.phase = STEP;
    this.scheduler.began(qp.requests);
  }

  /** Sends the next packet, of this payload. What the queue pair does next is up to the test. */
  send(payloadBytes: number = MTU): Qp | null {
    const sender: Sender | null = this.scheduler.next();
    if (sender === null) return null;
    const { qp } = sender;
    this.scheduler.charge(payloadBytes + HEADER_BYTES, payloadBytes);
    this.sent.set(qp, this.sentBy(qp) + payloadBytes);
    this.clock[0] += (payloadBytes + HEADER_BYTES) * 0.08;
    return qp;
  }

  /** Sends packets of queue pairs that are always ready again at once. */
  sendMany(packets: number, payloadBytes: (qp: Qp) => number = () => MTU): void {
    for (let i = 0; i < packets; i++) {
      const sender = this.scheduler.next() as Sender;
      const qp = this.send(payloadBytes(sender.qp)) as Qp;
      this.ready(qp);
    }
  }

  sentBy(qp: Qp): number {
    return this.sent.get(qp) ?? 0;
  }

  /** What each queue pair sends during `run`, divided by what the first one sends. */
  during(qps: readonly Qp[], run: () => void): number[] {
    const before = qps.map((qp) => this.sentBy(qp));
    run();
    const bytes = qps.map((qp, i) => this.sentBy(qp) - before[i]);
    return bytes.map((each) => each / bytes[0]);
  }
}
