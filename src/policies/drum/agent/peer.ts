/** What drum's agent knows about the agent of another host. */

import { type Header, MOST_REPORTS, readReports } from './messages.ts';
import type { Pull } from './model.ts';

/** Rounds in a row without a message, after which a peer is assumed to have come to rest. */
const QUIET_ROUNDS = 3;
/** The weight of one round trip in the mean. */
const RTT_PART = 1 / 8;
const MOST_RTT_NS = 1e7;

/** The agent of another host. */
export class Peer {
  isUp = false;
  isSilent = false;
  isWatched = false;
  /** Whether it has nothing more to change, as it said last. */
  isDone = true;
  /** The last round of which all reports have arrived, and the last one that a step has used; 0: none. */
  heard = 0;
  used = 0;
  /** Whether it may still count something that this host has reported. */
  isReported = false;
  /** The last own round that was reported to it, and the last one that it has answered. */
  reportedRound = 0;
  answeredRound = 0;
  /** Smoothed time from a report to its answer. */
  rttNs = 0;
  /** What its applications cause here. */
  private readonly pulls = new Map<number, Pull>();
  /** The round whose parts are arriving, which of them have, and the applications in them. */
  private round = 0;
  private arrived = new Set<number>();
  private named = new Set<number>();
  private quietRounds = 0;

  /** Whether its messages count. */
  get isLive(): boolean {
    return this.isUp && !this.isSilent;
  }

  /** What its applications cause here, while it is live. */
  get counted(): Iterable<Pull> {
    return this.isLive ? this.pulls.values() : [];
  }

  get hasPulls(): boolean {
    return this.pulls.size > 0;
  }

  /** Whether it has sent reports that no step has used. */
  get hasNews(): boolean {
    return this.heard !== this.used;
  }

  /** It went down: it begins again when it is up. */
  reset(): void {
    this.pulls.clear();
    this.arrived.clear();
    this.named.clear();
    [this.round, this.heard, this.used, this.quietRounds] = [0, 0, 0, 0];
    [this.reportedRound, this.answeredRound] = [0, 0];
    [this.isDone, this.isReported] = [true, false];
  }

  /** A message has arrived. */
  listen(isDone: boolean): void {
    this.isDone = isDone;
    this.quietRounds = 0;
  }

  /** A round has ended in which nothing arrived from the peer. */
  missed(): void {
    if (++this.quietRounds >= QUIET_ROUNDS) this.isDone = true;
  }

  /** Own reports were answered. */
  answered(round: number, tookNs: number): void {
    this.answeredRound = round;
    const ns = Math.min(MOST_RTT_NS, tookNs);
    this.rttNs = this.rttNs === 0 ? ns : this.rttNs + RTT_PART * (ns - this.rttNs);
  }

  /**
   * Reports have arrived; those of rounds before the last one are discarded. Returns whether they belong to the last round,
   * and whether there are applications that have not been there before, or are no longer there.
   */
  report({ round, part, parts }: Header, words: Float64Array): { isCurrent: boolean; hasChanged: boolean } {
    if (round < this.round || round <= this.heard) return { isCurrent: false, hasChanged: false };
    if (round > this.round) {
      this.round = round;
      this.arrived.clear();
      this.named.clear();
    }
    let hasChanged = false;
    for (const pull of readReports(words)) {
      const known = this.pulls.get(pull.key);
      if (known === undefined && this.pulls.size >= MOST_REPORTS) continue;
      this.named.add(pull.key);
      if (known === undefined) {
        this.pulls.set(pull.key, pull);
        hasChanged = true;
      } else Object.assign(known, pull);
    }
    this.arrived.add(part);
    if (this.arrived.size < parts) return { isCurrent: true, hasChanged };
    this.heard = round;
    for (const key of this.pulls.keys()) {
      if (this.named.has(key)) continue;
      this.pulls.delete(key);
      hasChanged = true;
    }
    return { isCurrent: true, hasChanged };
  }
}
