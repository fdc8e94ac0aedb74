/**
 * Agents: actors that exist once per host and device, next to the contexts of a policy. An agent exchanges messages with
 * the agents of the same name on other hosts, measures paths, and has its device's coordinator decide. It owns no clock,
 * thread or file (docs/policies.md).
 */
import type { MemberPage } from './member-table.ts';
import type { MembersView, Ruler } from './ruler.ts';

/** The most words (float64) of a message: a datagram of 1024 bytes, the MTU that every device has, with its header. */
export const MAX_MESSAGE_WORDS = 100;

/** The tenant of the contexts that agents open for their own queue pairs. */
export const AGENT_TENANT = 'isoverbs agent';

/** The queue pair at which an agent's host receives messages. */
export interface AgentAddress {
  readonly gid: string;
  readonly qpNum: number;
}

/** The events of an agent. All are optional. */
export interface Agent {
  /** The agent begins. */
  onStart?(out: AgentActions): void;
  /** The first message of a peer has arrived, or none has for some time. */
  onPeer?(peer: number, change: 'up' | 'down', out: AgentActions): void;
  /** A message of the agent of this name at a peer. Anyone on the network can send one, so nothing in it is certain. */
  onMessage?(peer: number, words: Float64Array, out: AgentActions): void;
  /** The time that a probe took until its completion; NaN: lost. */
  onProbe?(peer: number, latencyNs: number, out: AgentActions): void;
  /** A ruler has decided at the agent's device, because a member joined, left or reported something. */
  onMembers?(out: AgentActions): void;
  /** A `timer` has expired. */
  onTimer?(token: number, out: AgentActions): void;
}

/** The actions of an agent in an event. */
export interface AgentActions {
  /** The device's time. */
  readonly nowNs: number;
  /**
   * The members of the agent's device as a ruler sees them, or null under a daemon, which has them. Grants are set with
   * the columns of this view, and announced by `changed`.
   */
  members(ruler: Ruler): MembersView | null;
  /** Members must act on their grants at once. */
  changed(member: number): void;
  /**
   * The number of the peer with a port of this GID, reached from the own port `fromGid`; -1 if no such agent is known.
   * Numbers stay the same as long as the agent exists.
   */
  peerAt(gid: string, fromGid: string): number;
  /**
   * Sends a message of up to MAX_MESSAGE_WORDS words. It takes as long as a SEND, and may be lost.
   * @throws InvalidArgumentError for more words, or an unknown peer
   */
  send(peer: number, words: ArrayLike<number>): void;
  /**
   * Measures the time of one signaled WRITE of `bytes` (up to 4096) on a reliable connection of its own; onProbe reports
   * it. While a probe of this peer is in progress, nothing happens.
   * @throws InvalidArgumentError for another number of bytes, or an unknown peer
   */
  probe(peer: number, bytes: number): void;
  /** Calls onTimer(token) at `atNs`. A token has one time; Infinity removes it. A pending timer keeps nothing running. */
  timer(atNs: number, token: number): void;
  /**
   * Adds a member on behalf of a context of another host, of a tenant (tenantId) or a tenant of its own (0). `granted` is
   * called when it must act on its grants at once. Null if the table is full, or the members are elsewhere.
   */
  join(tenant: number, granted: () => void): MemberPage | null;
  /** Removes a member that `join` added. */
  leave(page: MemberPage): void;
  /** Lets a ruler decide at the agent's device, by the device's rules or its own defaults, and announces changes. */
  decide(ruler: Ruler, isNews: boolean): void;
}

/** What creates the agents of a policy. */
export interface AgentKind<Kind extends Agent = Agent> {
  /** Unique among the agents of a device. Messages go to agents of the same name. */
  readonly name: string;
  /** Creates the agent of one host at one device. */
  create(): Kind;
}
