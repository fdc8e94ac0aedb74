/**
 * A second model of the minimal NIC, written from its description alone and deliberately as plain as possible: a sorted
 * list of events, objects, no code from src/sim. It models WRITEs of closed-loop applications on one wire, and nothing
 * else.
 *
 * The description: every WQE occupies its queue pair's processing unit for one step; then its packets take turns,
 * one at a time, round robin over the queue pairs that have one (a queue pair with more joins the tail), for admission
 * to one FIFO of limited bytes; the wire empties it in order. A small message on an idle NIC takes the base latency,
 * one step and its time on the wire. This model adds the whole base latency after the wire, as only the sum matters.
 */

export interface OracleNic {
  stepNs: number;
  fifoBytes: number;
  linkGbps: number;
  mtuBytes: number;
  headerBytes: number;
  baseNs: number;
}

/** The NIC whose parameters follow from PeRF's figures. */
export const ORACLE_NIC: Readonly<OracleNic> = {
  stepNs: 80.6,
  fifoBytes: 48 * 1024,
  linkGbps: 100,
  mtuBytes: 4096,
  headerBytes: 78,
  baseNs: 900,
};

/** One queue pair: `batch` WRITEs of `sizeBytes` whenever as many have completed, `depth` at first. */
export interface OracleApp {
  sizeBytes: number;
  batch: number;
  depth: number;
  /** Next think time before a post; none: posts at once. */
  thinkNs?: () => number;
}

export interface OracleResult {
  /** Messages per microsecond between the first and the last completion after the warm-up. */
  mmps: number;
  gbps: number;
  /** The latency, only for applications of depth 1. */
  meanLatencyNs: number;
}

interface Message {
  postedNs: number;
  leftBytes: number;
  last: boolean;
}

interface QueuePair {
  app: OracleApp;
  posted: Message[];
  /** Whether the queue pair is in the processing unit, or sending. */
  current: Message | null;
  completions: number[];
  latenciesNs: number[];
}

class Oracle {
  private nowNs = 0;
  private readonly events: { at: number; run: () => void }[] = [];
  /** Queue pairs with a packet, in the order of their turns. */
  private readonly ready: QueuePair[] = [];
  /** Packets that have not been sent yet, and their bytes. */
  private readonly fifo: { bytes: number; outNs: number }[] = [];
  private used = 0;
  private wireFreeNs = 0;
  private readonly nic: OracleNic;
  private readonly qps: QueuePair[];

  constructor(nic: OracleNic, apps: OracleApp[]) {
    this.nic = nic;
    this.qps = apps.map((app) => ({ app, posted: [], current: null, completions: [], latenciesNs: [] }));
  }

  run(warmupNs: number, endNs: number): OracleResult[] {
    for (const qp of this.qps) {
      for (let i = 0; i < qp.app.depth; i += qp.app.batch) this.think(qp);
    }
    for (;;) {
      const event = this.events.shift();
      if (event === undefined || event.at > endNs) break;
      this.nowNs = event.at;
      event.run();
      this.admit();
    }
    return this.qps.map((qp) => result(qp, warmupNs));
  }

  /** Inserts an event after all others of the same time. */
  private after(delayNs: number, run: () => void): void {
    const at = this.nowNs + delayNs;
    let i = this.events.length;
    while (i > 0 && this.events[i - 1].at > at) i--;
    this.events.splice(i, 0, { at, run });
  }

  private think(qp: QueuePair): void {
    if (qp.app.thinkNs === undefined) this.post(qp);
    else this.after(qp.app.thinkNs(), () => this.post(qp));
  }

  private post(qp: QueuePair): void {
    const { batch, sizeBytes: leftBytes } = qp.app;
    for (let i = 1; i <= batch; i++) qp.posted.push({ postedNs: this.nowNs, leftBytes, last: i === batch });
    this.step(qp);
  }

  private step(qp: QueuePair): void {
    if (qp.current !== null) return;
    qp.current = qp.posted.shift() ?? null;
    if (qp.current !== null) this.after(this.nic.stepNs, () => this.ready.push(qp));
  }

  private admit(): void {
    while (this.fifo.length > 0 && this.fifo[0].outNs <= this.nowNs)
      this.used -= this.fifo.shift()?.bytes ?? 0;
    for (let qp = this.ready[0]; qp !== undefined; qp = this.ready[0]) {
      const message = qp.current as Message;
      const payload = Math.min(message.leftBytes, this.nic.mtuBytes);
      const bytes = payload + this.nic.headerBytes;
      // Every departing packet causes an event that continues here.
      if (this.used + bytes > this.nic.fifoBytes) return;
      this.used += bytes;
      this.ready.shift();
      this.wireFreeNs = Math.max(this.wireFreeNs, this.nowNs) + (bytes * 8) / this.nic.linkGbps;
      this.fifo.push({ bytes, outNs: this.wireFreeNs });
      this.after(this.wireFreeNs - this.nowNs, () => {});
      message.leftBytes -= payload;
      if (message.leftBytes > 0) {
        this.ready.push(qp);
        continue;
      }
      const completesIn = this.wireFreeNs - this.nowNs + this.nic.baseNs;
      if (message.last) this.after(completesIn, () => this.complete(qp, message));
      qp.current = null;
      this.step(qp);
    }
  }

  private complete(qp: QueuePair, message: Message): void {
    qp.completions.push(this.nowNs);
    qp.latenciesNs.push(this.nowNs - message.postedNs);
    this.think(qp);
  }
}

function result(qp: QueuePair, warmupNs: number): OracleResult {
  const { batch, sizeBytes, depth } = qp.app;
  const from = qp.completions.findIndex((ns) => ns >= warmupNs);
  const times = from < 0 ? [] : qp.completions.slice(from);
  const latencies = depth === 1 && from >= 0 ? qp.latenciesNs.slice(from) : [];
  const spanNs = times[times.length - 1] - times[0];
  const mmps = ((times.length - 1) * batch * 1000) / spanNs;
  const meanLatencyNs = latencies.reduce((sum, ns) => sum + ns, 0) / latencies.length;
  return { mmps, gbps: (mmps * sizeBytes * 8) / 1000, meanLatencyNs };
}

/** The results of these applications between the warm-up and the end. */
export function runOracle(
  apps: OracleApp[],
  options: { warmupNs: number; endNs: number; nic?: OracleNic },
): OracleResult[] {
  const { warmupNs, endNs, nic = ORACLE_NIC } = options;
  return new Oracle(nic, apps).run(warmupNs, endNs);
}
