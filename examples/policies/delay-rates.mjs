// @ts-nocheck
// Congestion control over tassel: an agent probes each peer, and sets the rates of the queue pairs to it. While a probe
// takes longer than the target, rates fall in proportion; otherwise they rise in steps.
import { gidFromWords, gidToWords, tasselWithAgent } from 'isoverbs/policies';

const [TARGET_NS, PERIOD_NS, PROBE_BYTES] = [6000, 20_000, 64];
/** Programs may claim any number of connections. */
const MOST_FLOWS = 4096;
const [LEAST_KBPS, MOST_KBPS, STEP_KBPS] = [100e3, 100e6, 200e3];

/** The agent of one host. */
class DelayRates {
  flows = new Map(); // by member and handle
  peers = new Map(); // by peer: its rate
  phase = 0;

  /** A queue pair was connected, or destroyed. */
  onTold(member, words, out) {
    for (let i = 0; i + 9 < words.length; i += 10) {
      const [isConnected, handle] = words.subarray(i, i + 2);
      const [gid, fromGid] = [gidFromWords(words, i + 2), gidFromWords(words, i + 6)];
      this.flows.delete(`${member} ${handle}`);
      if (isConnected !== 1 || gid === null || fromGid === null || this.flows.size >= MOST_FLOWS) continue;
      this.flows.set(`${member} ${handle}`, { member, handle, gid, fromGid });
    }
    if (this.flows.size > 0) out.timer(out.nowNs + PERIOD_NS, 0);
  }

  onLeft(member) {
    for (const [key, flow] of this.flows) if (flow.member === member) this.flows.delete(key);
  }

  onTimer(_token, out) {
    for (const flow of this.flows.values()) flow.peer = out.peerAt(flow.gid, flow.fromGid);
    const peers = new Set([...this.flows.values()].map(({ peer }) => peer).filter((peer) => peer >= 0));
    for (const peer of peers) out.probe(peer, PROBE_BYTES);
    // Hosts that always probed at the same time in the same order would see different queues.
    this.phase = (this.phase + gidToWords(out.gids[0])[3] * 0.618) % 1;
    if (this.flows.size > 0) out.timer(out.nowNs + PERIOD_NS * (0.5 + this.phase), 0);
  }

  onProbe(peer, latencyNs, out) {
    const before = this.peers.get(peer) ?? MOST_KBPS;
    // A lost probe (NaN) is a late one.
    const isLate = !(latencyNs <= TARGET_NS);
    const changed = isLate ? before * Math.max(0.5, TARGET_NS / (latencyNs || Infinity)) : before + STEP_KBPS;
    const kbps = Math.min(MOST_KBPS, Math.max(LEAST_KBPS, changed));
    this.peers.set(peer, kbps);
    for (const flow of this.flows.values())
      if (flow.peer === peer) out.tell(flow.member, [flow.handle, kbps]);
  }
}

/** A daemon loads this when its configuration names this module. */
export const agents = [{ name: 'delay-rates', create: () => new DelayRates() }];

export default (options) => tasselWithAgent(agents[0], options);
