/** What receivers allow the members of a device to send (section 4.4 of the paper). */
import type { MembersView } from '../../coordinator/ruler.ts';
import type { MemberWeights } from './member-weights.ts';

/** No receiver has so many senders that it allows less for a unit of weight. */
const LEAST_SHARE = 2 ** -20;
/** The least part of its share that a member keeps, so that it is not served too late when its receivers allow more. */
const LEAST_PART = 2 ** -10;

/** A share that a peer has sent, within its bounds. 0: the peer does not limit this host. */
export const shareOf = (share: number): number => (share > 0 ? Math.min(1, Math.max(LEAST_SHARE, share)) : 0);

/** What a member does at one peer. */
export interface Sending {
  readonly peer: number;
  readonly sends: number;
  readonly reads: number;
}

/** What is known of a device. */
export interface Allowances {
  readonly members: MembersView;
  readonly weights: MemberWeights;
  /** What a member does at its peers. */
  flowsOf(member: number): Iterable<Sending>;
  /** What a peer allows for a unit of weight; 0: it has not answered. */
  allowedBy(peer: number): number;
  readonly readWeight: number;
  readonly remoteLatency: number;
  readonly countsLatencyOnce: boolean;
}

/**
 * The part of the device's rate that all receivers together allow: each member's weight times what its receiver allows
 * for a unit of it. A receiver that has not answered counts as allowing what this host's own rule allows. `setPart` is
 * called with the part of its own share that a member's receivers allow, so that the others need not give up theirs.
 */
export function receiverPart(of: Allowances, setPart: (member: number, part: number) => void): number {
  const { members, weights, readWeight } = of;
  const { tenants } = members;
  tenants.group();
  const count = tenants.firstOf(tenants.length);
  let [weight, latency] = [readWeight, 0];
  for (let at = 0; at < count; at++) {
    weight += weights.hungryOf(tenants.memberAt(at));
    latency += weights.latencyOf(tenants.memberAt(at));
  }
  if (of.countsLatencyOnce && latency > 0) latency = 1;
  const byLocal = weight > 0 ? 1 / (weight + Math.max(latency, of.remoteLatency)) : 1;
  let part = readWeight * byLocal;
  for (let at = 0; at < count; at++) {
    const member = tenants.memberAt(at);
    const own = weights.hungryOf(member) * byLocal;
    const allowed = allowedTo(member, of, byLocal);
    part += allowed > 0 ? allowed : own;
    const isLess = allowed > 0 && allowed < own && !reads(of.flowsOf(member));
    setPart(member, isLess ? Math.max(LEAST_PART, allowed / own) : 1);
  }
  return weight > 0 ? Math.min(1, part) : 1;
}

/** What a member may send to its receivers; 0: it sends to none that is known. */
function allowedTo(member: number, { weights, flowsOf, allowedBy }: Allowances, byLocal: number): number {
  let sum = 0;
  for (const { peer, sends } of flowsOf(member)) {
    if (sends > 0) sum += weights.held(member, sends) * (allowedBy(peer) || byLocal);
  }
  return sum;
}

/** The data of READs goes to no receiver. */
function reads(flows: Iterable<Sending>): boolean {
  for (const flow of flows) if (flow.reads > 0) return true;
  return false;
}
