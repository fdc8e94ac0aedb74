/** The worker's side of lanes and queues: moves sends into the shim and completions out of it. */
import { IBV_QP_STATE, IBV_QPS_ERR, IBV_SEND_SIGNALED, IBV_WR_SEND } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { RingInfo } from '../../verbs/types.ts';
import * as P from './protocol.ts';

const STAGING_SLOTS = 64;

interface Ring {
  info: RingInfo;
  words: Uint32Array;
}

interface Lane {
  readonly info: P.LaneInfo;
  readonly laneWords: Uint32Array;
  readonly mask: number;
  adopted: boolean;
}

interface Queue {
  readonly cq: number;
  readonly words: Int32Array;
  readonly slots: Uint32Array;
  readonly size: number;
  /**
   * Completions known to have been taken by the application. The shared word is read only when there seems to
   * be no room.
   */
  head: number;
  adopted: boolean;
}

export class Lanes {
  private readonly chain: Provider;
  private readonly control: Int32Array;
  /** By index of the queue pair's handle, as stored in the ring of dirty lanes. */
  private readonly lanes = new Map<number, Lane>();
  private readonly queues = new Map<number, Queue>();
  /** Queues whose CQs the worker polls. */
  private owned: Queue[] = [];
  private staging: Ring | null = null;
  private stagingSges = 0;
  private stagingInline = 0;
  private polled: Ring | null = null;

  constructor(chain: Provider, control: Int32Array) {
    this.chain = chain;
    this.control = control;
  }

  addLane(index: number, info: P.LaneInfo): void {
    const held = new Uint32Array(info.words.buffer);
    this.lanes.set(index, { info, laneWords: held, mask: P.powerOfTwo(info.depth) - 1, adopted: false });
  }

  addQueue(cq: number, words: Int32Array): void {
    const slots = new Uint32Array(words.buffer);
    this.queues.set(cq, { cq, words, slots, size: P.queueSlots(words), head: 0, adopted: false });
  }

  removeLane(index: number): void {
    this.lanes.delete(index);
  }

  removeQueue(cq: number): void {
    this.queues.delete(cq);
    this.owned = this.owned.filter((queue) => queue.cq !== cq);
  }

  get ownsQueues(): boolean {
    return this.owned.length > 0;
  }

  /**
   * Takes what the application has posted to lanes since the last call, in its order. @returns whether there
   * was anything
   */
  takeSends(): boolean {
    const { control } = this;
    let head = control[P.DIRTY_HEAD];
    const tail = Atomics.load(control, P.DIRTY_TAIL);
    const lost = control[P.DIRTY_LOST] !== 0 && Atomics.exchange(control, P.DIRTY_LOST, 0) !== 0;
    if (head === tail && !lost) return false;
    while (head !== tail) {
      const lane = this.lanes.get(control[P.DIRTY_RING + (head & (P.DIRTY_SLOTS - 1))]);
      head = (head + 1) | 0;
      Atomics.store(control, P.DIRTY_HEAD, head);
      if (lane !== undefined) this.takeLane(lane);
    }
    if (lost) for (const lane of this.lanes.values()) this.takeLane(lane);
    return true;
  }

  /** Polls every CQ that the worker owns. @returns whether anything arrived */
  pump(): boolean {
    let any = false;
    for (const queue of this.owned) any = this.pumpQueue(queue, Number.MAX_SAFE_INTEGER) > 0 || any;
    return any;
  }

  /** Polls one CQ for at most `max` completions. */
  pumpCq(cq: number, max: number): void {
    this.claimNew();
    const queue = this.queues.get(cq);
    if (queue !== undefined && queue.words[P.OWNER] === P.BY_WORKER) this.pumpQueue(queue, max);
  }

  /** Adopts CQs that the application has handed over since the last call. */
  claimNew(): void {
    for (const queue of this.queues.values()) {
      if (queue.adopted || Atomics.load(queue.words, P.OWNER) !== P.BY_WORKER) continue;
      queue.adopted = true;
      this.owned.push(queue);
      this.chain.adopt?.cq(queue.cq, queue.words[P.PRODUCED]);
      for (const lane of this.lanes.values())
        if (lane.info.sendCq === queue.cq && !lane.adopted) this.adopt(lane);
    }
  }

  private adopt({ info: { qp, words } }: Lane): void {
    const posted = words[P.SHAPED] !== 0 ? words[P.TAKEN] : Atomics.load(words, P.POSTED);
    this.chain.adopt?.qp(qp, posted, words[P.FREED], words[P.LAST_SIGNALED]);
  }

  private takeLane(lane: Lane): void {
    const { words, qp, strideWords } = lane.info;
    if (words[P.SHAPED] === 0) return;
    if (!lane.adopted) {
      this.claimNew();
      this.adopt(lane);
      lane.adopted = true;
    }
    const posted = Atomics.load(words, P.POSTED);
    let taken = words[P.TAKEN];
    const { info, words: to } = this.stagingFor(lane.info);
    while (taken !== posted) {
      const n = Math.min((posted - taken) | 0, STAGING_SLOTS);
      for (let k = 0; k < n; k++) {
        const from = P.LANE_HEADER + ((taken + k) & lane.mask) * strideWords;
        const at = L.slotAt(k);
        for (let i = 0; i < L.SLOT_WORDS; i++) to[at + i] = lane.laneWords[from + i];
        const ext = L.extAt(k, STAGING_SLOTS, info.extBytes);
        for (let i = L.SLOT_WORDS; i < strideWords; i++)
          to[ext + i - L.SLOT_WORDS] = lane.laneWords[from + i];
      }
      const accepted = this.chain.postSend(qp, info.handle, 0, n);
      taken = (taken + n) | 0;
      Atomics.store(words, P.TAKEN, taken);
      if (accepted < n) this.flushRefused(lane, accepted, n);
    }
  }

  /**
   * The device accepted less than it had room for. As a device would, fails the queue pair and flushes the
   * lost requests, as empty ones because their memory may be what is gone.
   */
  private flushRefused({ info: { qp, sendCq } }: Lane, start: number, end: number): void {
    const { info, words } = this.staging!;
    this.chain.modifyQp(qp, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
    for (let k = start; k < end; k++) words[L.slotAt(k) + L.WR_OP] = IBV_WR_SEND | (IBV_SEND_SIGNALED << 8);
    const flushed = this.chain.postSend(qp, info.handle, start, end - start);
    const lost = end - start - flushed;
    process.emitWarning(
      `queue pair ${qp}: the device refused ${end - start} requests that were already accepted from the application; CQ ${sendCq}${lost > 0 ? `; ${lost} of them have no completion` : ''}`,
    );
  }

  private stagingFor({ sges, inlineBytes }: P.LaneInfo): Ring {
    if (this.staging === null || sges > this.stagingSges || inlineBytes > this.stagingInline) {
      if (this.staging !== null) this.chain.destroyRing(this.staging.info.handle);
      this.stagingSges = Math.max(sges, this.stagingSges);
      this.stagingInline = Math.max(inlineBytes, this.stagingInline);
      const info = this.chain.createWrRing(STAGING_SLOTS, this.stagingSges, this.stagingInline);
      this.staging = { info, words: new Uint32Array(info.memory) };
    }
    return this.staging;
  }

  private pumpQueue(queue: Queue, max: number): number {
    const { cq, words, slots, size } = queue;
    if (this.polled === null) {
      const info = this.chain.createWcRing(STAGING_SLOTS);
      this.polled = { info, words: new Uint32Array(info.memory) };
    }
    let total = 0;
    for (;;) {
      const tail = words[P.TAIL];
      const batch = Math.min(STAGING_SLOTS, max - total);
      if (((tail - queue.head) | 0) + batch > size) queue.head = Atomics.load(words, P.HEAD);
      const wanted = Math.min(size - ((tail - queue.head) | 0), batch);
      const n = wanted > 0 ? this.chain.pollCq(cq, this.polled.info.handle, 0, wanted) : 0;
      for (let k = 0; k < n; k++) {
        const to = P.QUEUE_HEADER + ((tail + k) & (size - 1)) * L.SLOT_WORDS;
        const from = L.slotAt(k);
        for (let i = 0; i < L.SLOT_WORDS; i++) slots[to + i] = this.polled.words[from + i];
      }
      if (n > 0) Atomics.store(words, P.TAIL, (tail + n) | 0);
      total += n;
      if (n < wanted || wanted === 0) return total;
    }
  }
}
