/**
 * Limits what queue pairs labelled `latency` send before all others. Palos has no such limit, so a single queue pair
 * with the label could take the whole link.
 *
 * Token buckets in virtual time: one for all, at the rate of the cap, and one for each labelled queue pair, at an equal
 * part of it. A packet may go first while its queue pair has tokens of its own, or while the common bucket has tokens.
 * Every packet takes tokens of the common bucket, so the sum keeps to the cap, and a queue pair that sends little keeps
 * its precedence alongside one that sends as much as it can.
 */
import { fitColumn } from '../../../shim/tables.ts';
import type { NicParams } from '../../profile/params.ts';

/** What a bucket holds: ten round trips of a small message, so that a flow may have several in flight. */
const BURST_NS = 10_000;

export class UrgentCap {
  /** The bytes that may go first at once, headers included. */
  readonly burstBytes: number;
  private readonly unlimited: boolean;
  private readonly bytesPerNs: number;
  private readonly clock: Float64Array;
  /** Number of labelled queue pairs. */
  private labelled = 0;
  private labels: Uint8Array = new Uint8Array(16);
  /** [0] tokens of all, in bytes on the wire; [1] when they were counted. */
  private readonly all: Float64Array;
  // By member: the same, of its own.
  private tokens: Float64Array = new Float64Array(16);
  private countedNs: Float64Array = new Float64Array(16);

  /** @param clock [0] the current time in ns */
  constructor({ palosUrgentShare, linkGbps }: Readonly<NicParams>, clock: Float64Array) {
    this.unlimited = palosUrgentShare === 1;
    this.bytesPerNs = (palosUrgentShare * linkGbps) / 8;
    this.clock = clock;
    this.burstBytes = BURST_NS * this.bytesPerNs;
    this.all = new Float64Array([this.burstBytes, 0]);
  }

  /** Sets or removes the label of a queue pair. */
  setLabelled(member: number, isLabelled: boolean): void {
    this.labels = fitColumn(this.labels, member);
    if (isLabelled === (this.labels[member] === 1)) return;
    this.labels[member] = isLabelled ? 1 : 0;
    this.labelled += isLabelled ? 1 : -1;
    this.tokens = fitColumn(this.tokens, member);
    this.countedNs = fitColumn(this.countedNs, member);
    this.tokens[member] = 0;
    this.countedNs[member] = this.clock[0];
  }

  isLabelled(member: number): boolean {
    return this.labels[member] === 1;
  }

  /** Whether a labelled queue pair is within the cap. */
  allows(member: number): boolean {
    if (this.unlimited) return true;
    const nowNs = this.clock[0];
    const { all, bytesPerNs } = this;
    all[0] = Math.min(all[0] + (nowNs - all[1]) * bytesPerNs, this.burstBytes);
    all[1] = nowNs;
    if (all[0] > 0) return true;
    const ownPerNs = bytesPerNs / this.labelled;
    const filled = this.tokens[member] + (nowNs - this.countedNs[member]) * ownPerNs;
    this.tokens[member] = Math.min(filled, this.burstBytes / this.labelled);
    this.countedNs[member] = nowNs;
    return this.tokens[member] > 0;
  }

  /** Takes the tokens for a packet that goes first. */
  take(member: number, wireBytes: number): void {
    if (this.unlimited) return;
    // A queue pair uses its own tokens only while the common bucket is empty.
    if (this.all[0] <= 0) this.tokens[member] -= wireBytes;
    this.all[0] -= wireBytes;
  }
}
