/**
 * The kind of each queue pair under justitia: as declared, or according to what it sends. A declared latency
 * application that sends more than its share is treated according to what it sends, because nothing else would limit
 * it.
 */
import { BYTES, SEEN } from '../../shim/counters.ts';
import type { Actions, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { Classifier } from '../kit/classifier.ts';
import { packetBytes, wireFactsOf } from '../kit/wire.ts';
import type { JustitiaOptions } from './options.ts';

/** Kinds of applications, with the values of the kinds of traffic (ISO_TRAFFIC_*). */
export const UNKNOWN = 0;
export const LATENCY = 1;
export const THROUGHPUT = 2;
export const BANDWIDTH = 3;

/** The length of the window of traffic that determines the kind. */
const WINDOW_NS = 8e6;
/** A latency application may send more than its share for this long: two windows. */
const EXCESS_NS = 2 * WINDOW_NS;
/** Minimum mean length of the messages of such an application that makes it a bandwidth application. */
const LARGE_BYTES = 1024;

/** The kinds of all queue pairs. */
export class Kinds {
  private readonly options: () => JustitiaOptions;
  private readonly classifier = new Classifier({ windowNs: WINDOW_NS });
  // By queue pair.
  private kinds: Uint8Array = new Uint8Array(64);
  /** 1 if the queue pair declares nothing, so that the classifier decides. */
  private isOpen: Uint8Array = new Uint8Array(64);
  /** Bytes and messages at the last sample, its time, and how long the queue pair has sent more than its share. */
  private bytesAt: Float64Array = new Float64Array(64);
  private messagesAt: Float64Array = new Float64Array(64);
  private sampledNs: Float64Array = new Float64Array(64);
  private excessNs: Float64Array = new Float64Array(64);

  /** How a declared latency application that sends more than its share is treated. */
  private behaviour: Uint8Array = new Uint8Array(64);

  constructor(options: () => JustitiaOptions) {
    this.options = options;
  }

  /** The kind of a queue pair: UNKNOWN if it declares nothing and has not sent a request yet. */
  of({ index }: Pick<QpView, 'index'>): number {
    return this.kinds[index];
  }

  /** A queue pair was created. */
  add(qp: QpView): void {
    this.set(qp);
    this.excessNs[qp.index] = 0;
  }

  /** The labels of a queue pair have changed. */
  set(qp: QpView): void {
    const { index, labels } = qp;
    for (const name of ['bytesAt', 'messagesAt', 'sampledNs', 'excessNs'] as const)
      this[name] = fitColumn(this[name], index);
    this.kinds = fitColumn(this.kinds, index);
    this.isOpen = fitColumn(this.isOpen, index);
    this.behaviour = fitColumn(this.behaviour, index);
    const isDeclared = labels.traffic !== UNKNOWN;
    this.isOpen[index] = !isDeclared && this.classifies ? 1 : 0;
    if (this.isOpen[index] === 0) this.kinds[index] = isDeclared ? labels.traffic : BANDWIDTH;
    else this.kinds[index] = UNKNOWN;
    this.classifier.join(qp);
    // What it sent as another kind says nothing about a latency application. What it has sent too much still counts.
    this.sampledNs[index] = 0;
    // A declaration is believed, but one sample above the share is then enough.
    this.excessNs[index] = Math.min(this.excessNs[index], EXCESS_NS - 1);
  }

  /** Whether the classifier decides on queue pairs that declare nothing. */
  private get classifies(): boolean {
    const { classify, paper } = this.options();
    return classify === true && paper !== true;
  }

  /** The options have changed. Returns whether the kind of this queue pair must be found again. */
  review(qp: QpView): boolean {
    const isOpen = qp.labels.traffic === UNKNOWN && this.classifies;
    if ((this.isOpen[qp.index] === 1) === isOpen) return false;
    this.set(qp);
    return true;
  }

  /** A queue pair of unknown kind posts `count` requests, the largest of which has `bytes`. */
  first(qp: QpView, bytes: number, count: number): void {
    this.kinds[qp.index] = this.classifier.first(qp, bytes, count);
  }

  /**
   * Samples what a queue pair has sent since the last sample. Returns whether its kind has changed.
   * @param bytesPerNs the share of a latency application; Infinity if it has no competitors
   * @param messageBytes the least that a message takes of a token
   */
  sample(qp: QpView, bytesPerNs: number, messageBytes: number, out: Actions): boolean {
    const { index } = qp;
    const before = this.kinds[index];
    if (before === UNKNOWN) return false;
    const nowNs = out.nowNs(qp.context);
    const classifies = this.options().classify === true;
    const found = classifies ? this.classifier.sample(qp, nowNs, out.outstanding(qp)) : UNKNOWN;
    if (this.isOpen[index] === 1) {
      // An idle queue pair remains what it was.
      if (found !== UNKNOWN) this.kinds[index] = found;
    } else if (before === LATENCY) {
      // Only the classifier distinguishes frequent small messages from many at a time. Without it, only bytes count.
      this.limit(qp, bytesPerNs, classifies ? messageBytes : 0, nowNs);
      if (found === LATENCY) this.excessNs[index] = 0;
      if (this.excessNs[index] >= EXCESS_NS) this.kinds[index] = this.behaviour[index];
    }
    return this.kinds[index] !== before;
  }

  /** Updates how long a declared latency application has sent more than its share. */
  private limit(qp: QpView, bytesPerNs: number, messageBytes: number, nowNs: number): void {
    const { index, counts } = qp;
    const bytes = counts[BYTES] - this.bytesAt[index];
    const messages = counts[SEEN] - this.messagesAt[index];
    const spanNs = nowNs - this.sampledNs[index];
    const isFirst = this.sampledNs[index] === 0;
    // A message counts for all of the time since the one before.
    if (!isFirst && messages === 0) return;
    [this.bytesAt[index], this.messagesAt[index], this.sampledNs[index]] = [
      counts[BYTES],
      counts[SEEN],
      nowNs,
    ];
    if (isFirst) return;
    const mean = bytes / messages;
    const cost = messages * Math.max(packetBytes(wireFactsOf(qp.context.nic), mean), messageBytes);
    if (!(cost > bytesPerNs * spanNs)) this.excessNs[index] = 0;
    else this.excessNs[index] += spanNs;
    this.behaviour[index] = mean >= LARGE_BYTES ? BANDWIDTH : THROUGHPUT;
  }
}
