/**
 * WRITEs from one device to another, posted and polled by one loop: how many complete per second, and how long a single
 * WRITE takes. Nothing else runs in the process meanwhile, so that nothing competes with the measurement.
 */
import type { CompletionQueue, Context, MemoryRegion, QueuePair } from '../../objects/index.ts';
import {
  CompletionError,
  ConnectionError,
  IBV_SEND_SIGNALED,
  IBV_WC_SUCCESS,
  type SendBatch,
  type WcBatch,
  wcStatusName,
} from '../../verbs/index.ts';

/** The most completions per poll. */
const POLLED = 64;
/** Time without a completion, on the device's clock, after which a measurement fails. */
const PATIENCE_NS = 10e9;

/** Retries go on for 4 seconds, because a busy machine may run soft-RoCE late. The patience above is longer. */
const PATH = { timeout: 17, retryCnt: 7 };

/** The load of a measurement of a rate. */
export interface Load {
  readonly bytes: number;
  /** WRITEs posted together, of which the last one is signaled; default 1. */
  readonly list?: number;
  /** Lists of each queue pair that are in flight; at most those of the Flows. */
  readonly lists: number;
  /** Lists of each queue pair that are measured, after half as many unmeasured ones; more than `lists`. */
  readonly measured: number;
}

/** What Flows can hold. */
export interface FlowsOptions {
  readonly qps: number;
  readonly maxBytes: number;
  /** Most WRITEs in flight on each queue pair. */
  readonly depth: number;
}

/** Queue pairs from one device to another, or to itself. */
export class Flows {
  private readonly from: Context;
  private readonly qps: readonly QueuePair[];
  private readonly cq: CompletionQueue;
  private readonly wcs: WcBatch;
  private readonly local: MemoryRegion;
  private readonly remote: MemoryRegion;
  private readonly closing: { close(): void }[] = [];

  /** Creates and connects the queue pairs. @throws NoResourcesError, UnsupportedError */
  constructor(from: Context, to: Context, { qps, maxBytes, depth }: FlowsOptions) {
    this.from = from;
    const access = { localWrite: true, remoteWrite: true };
    const domains = [from, to].map((context) => this.own(context.allocPd()));
    [this.local, this.remote] = domains.map((pd) => this.own(pd.allocate(maxBytes, { access })));
    const [cq, passive] = [from, to].map((context) =>
      this.own(context.createCq({ cqe: Math.max(POLLED, qps * depth), channel: null })),
    );
    this.cq = cq;
    this.wcs = from.wcBatch({ capacity: POLLED });
    this.qps = Array.from({ length: qps }, () => {
      const cap = { maxSendWr: depth, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1 };
      const near = this.own(domains[0].createQp({ sendCq: cq, cap }));
      const far = this.own(domains[1].createQp({ sendCq: passive, cap }));
      near.connectTo(far.endpoint(), PATH);
      far.connectTo(near.endpoint(), PATH);
      return near;
    });
  }

  /** Nanoseconds per WRITE under a load. @throws CompletionError, ConnectionError */
  nsPerMessage({ bytes, list = 1, lists, measured }: Load): number {
    const { qps, from, wcs } = this;
    const batches = qps.map((_, index) => this.batchOf(index, bytes, list));
    const before = Math.ceil(measured / 2) * qps.length;
    const until = before + measured * qps.length;
    // The load outlasts the measurement, so that the measurement begins and ends with a bunch of completions under
    // load.
    const perQp = Math.ceil(measured / 2) + measured + lists;
    const left = qps.map(() => perQp - lists);
    for (const [index, batch] of batches.entries()) {
      for (let i = 0; i < lists; i++) qps[index].postSend(batch);
    }
    const start = { ns: Number.NaN, done: 0 };
    const end = { ns: Number.NaN, done: 0 };
    let done = 0;
    while (done < perQp * qps.length) {
      const n = this.completions();
      const nowNs = from.nowNs();
      for (let i = 0; i < n; i++) {
        const index = wcs.wrId(i);
        if (left[index]-- > 0) qps[index].postSend(batches[index]);
      }
      done += n;
      if (done >= before && start.done === 0) Object.assign(start, { ns: nowNs, done });
      if (done >= until && end.done === 0) Object.assign(end, { ns: nowNs, done });
    }
    return (end.ns - start.ns) / ((end.done - start.done) * list);
  }

  /**
   * The latencies of single WRITEs on the first queue pair, from post to completion, in nanoseconds. A WRITE is posted
   * every `everyNs`, or as soon as the previous one has completed if that takes longer.
   * @throws CompletionError, ConnectionError
   */
  latenciesNs(bytes: number, { samples, everyNs }: { samples: number; everyNs: number }): Float64Array {
    const { from, qps, cq, wcs } = this;
    const batch = this.batchOf(0, bytes, 1);
    const latencies = new Float64Array(samples);
    let dueNs = from.nowNs();
    for (let i = 0; i < samples; i++) {
      // Polls also let simulated time pass.
      while (from.nowNs() < dueNs) cq.poll(wcs);
      const postedNs = from.nowNs();
      qps[0].postSend(batch);
      this.completions();
      const doneNs = from.nowNs();
      latencies[i] = doneNs - postedNs;
      dueNs = Math.max(postedNs + everyNs, doneNs);
    }
    return latencies;
  }

  /** Closes the queue pairs and their memory. */
  close(): void {
    for (const resource of this.closing.reverse()) resource.close();
  }

  private own<T extends { close(): void }>(resource: T): T {
    this.closing.push(resource);
    return resource;
  }

  /** A list of WRITEs with the index of the queue pair as wr_id; only the last one is signaled. */
  private batchOf(index: number, bytes: number, list: number): SendBatch {
    const { from, local, remote } = this;
    const batch = from.sendBatch({ capacity: list });
    for (let i = 0; i < list; i++) {
      const flags = i === list - 1 ? IBV_SEND_SIGNALED : 0;
      batch.write(index, flags, local.addr, bytes, local.lkey, remote.addr, remote.rkey);
    }
    return batch;
  }

  /** Polls until something completes. Returns the number of completions, all of them successful. */
  private completions(): number {
    const { cq, wcs, from } = this;
    let n = cq.poll(wcs);
    if (n === 0) {
      const untilNs = from.nowNs() + PATIENCE_NS;
      for (n = cq.poll(wcs); n === 0; n = cq.poll(wcs)) {
        if (from.nowNs() > untilNs) {
          throw new ConnectionError(`${from.name}: no WRITE completed for ${PATIENCE_NS / 1e9} s`);
        }
      }
    }
    for (let i = 0; i < n; i++) {
      const status = wcs.status(i);
      if (status === IBV_WC_SUCCESS) continue;
      throw new CompletionError(`${from.name}: a WRITE failed: ${wcStatusName(status)}`, { status });
    }
    return n;
  }
}
