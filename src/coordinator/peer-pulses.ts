/**
 * Finds out quickly that a peer is silent. The carrier between daemons takes seconds to report that a host is gone, and
 * what a peer has said may not count for as long. So peers that matter are asked for a sign of life all the time. There
 * is no clock here: times are arguments.
 */

/** A peer that matters is asked at this interval, or less often if that would take more requests in a check. */
const PULSE_NS = 30e6;
const PULSES_PER_CHECK = 32;
/** A peer that has not been heard for this many intervals is silent. Checks come every 10 ms: at most 100 ms in all. */
const MISSED = 3;

interface Watched {
  askedNs: number;
  heardNs: number;
  isSilent: boolean;
}

export interface PulseEvents {
  /** Requests a sign of life. */
  ask(peer: number): void;
  silent(peer: number, isSilent: boolean): void;
}

export class PeerPulses {
  private readonly events: PulseEvents;
  private readonly checkNs: number;
  private readonly peers = new Map<number, Watched>();
  private checkedNs = Number.NaN;

  /** @param checkNs the interval between calls of `check` */
  constructor(checkNs: number, events: PulseEvents) {
    this.checkNs = checkNs;
    this.events = events;
  }

  /** From now on, a peer matters. */
  watch(peer: number, nowNs: number): void {
    if (!this.peers.has(peer)) this.peers.set(peer, { askedNs: nowNs, heardNs: nowNs, isSilent: false });
  }

  unwatch(peer: number): void {
    this.peers.delete(peer);
  }

  /** A peer has given a sign of life. */
  heard(peer: number, nowNs: number): void {
    const one = this.peers.get(peer);
    if (one === undefined) return;
    one.heardNs = nowNs;
    if (!one.isSilent) return;
    one.isSilent = false;
    this.events.silent(peer, false);
  }

  /** Asks the peers whose turn it is, and finds those that are silent. */
  check(nowNs: number): void {
    const { peers, checkNs, events } = this;
    // Signs of life that arrived while this process did not run are read first.
    const isLate = !(Math.abs(nowNs - this.checkedNs) <= 2 * checkNs);
    this.checkedNs = nowNs;
    const pulseNs = Math.max(PULSE_NS, checkNs * Math.ceil(peers.size / PULSES_PER_CHECK));
    let asked = 0;
    for (const [peer, one] of peers) {
      // A clock that jumps back begins anew.
      if (one.heardNs > nowNs) one.heardNs = nowNs;
      if (one.askedNs > nowNs || (nowNs - one.askedNs >= pulseNs && asked < PULSES_PER_CHECK)) {
        one.askedNs = nowNs;
        asked++;
        events.ask(peer);
      }
      if (isLate || one.isSilent || nowNs - one.heardNs < MISSED * pulseNs) continue;
      one.isSilent = true;
      events.silent(peer, true);
    }
  }
}
