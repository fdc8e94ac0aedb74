/**
 * Agents: actors that exist once per host and device, next to the contexts of a policy. An agent exchanges messages with
 * the agents of the same name on other hosts, measures paths, and has its device's coordinator decide. It owns no clock,
 * thread or file (docs/policies.md).
 */
import { InvalidArgumentError } from '../verbs/errors.ts';
import type { MemberPage } from './member-table.ts';
import type { MembersView, Ruler } from './ruler.ts';

/** The most words (float64) of a message: a datagram of 1024 bytes, the MTU that every device has, with its header. */
export const MAX_MESSAGE_WORDS = 100;

/** @throws InvalidArgumentError if a message cannot hold that many words */
export function requireWords({ length }: ArrayLike<number>): void {
  if (length <= MAX_MESSAGE_WORDS) return;
  throw new InvalidArgumentError(
    `a message of an agent has at most ${MAX_MESSAGE_WORDS} words, not ${length}: send several`,
  );
}

/** The tenant of the contexts that agents open for their own queue pairs. */
export const AGENT_TENANT = 'isoverbs agent';

/** The events of an agent. All are optional. */
export interface Agent {
  /** The agent begins. */
  onStart?(out: AgentActions): void;
  /** The first message of a peer has arrived, or none has for some time. */
  onPeer?(peer: number, change: 'up' | 'down', out: AgentActions): void;
  /**
   * A peer that the agent watches has been silent for 100 ms, so that what it has said may not hold any more; or it is
   * heard again. Only for peers that are up.
   */
  onSilent?(peer: number, isSilent: boolean, out: AgentActions): void;
  /**
   * A peer has been down for a minute. Returns whether the agent has no more use for it. If so, its number may be given to
   * another peer. Absent: the agent keeps the numbers of all peers.
   */
  forgetPeer?(peer: number): boolean;
  /** A message of the agent of this name at a peer. Anyone on the network can send one, so nothing in it is certain. */
  onMessage?(peer: number, words: Float64Array, out: AgentActions): void;
  /** The time that a probe took until its completion; NaN: lost. */
  onProbe?(peer: number, latencyNs: number, out: AgentActions): void;
  /** A ruler has decided at the agent's device, because a member joined, left or reported something. */
  onMembers?(out: AgentActions): void;
  /** A `timer` has expired. */
  onTimer?(token: number, out: AgentActions): void;
  /** A member of the agent's device has sent words over its line. They can have any values. */
  onTold?(member: number, words: Float64Array, out: AgentActions): void;
  /** A member that had a line has left; its number may be given to another. */
  onLeft?(member: number, out: AgentActions): void;
}

/**
 * The line of a context to the agent of its device. The agent runs next to the coordinator: in this process or in the
 * daemon.
 */
export interface AgentLine {
  /** The shortest average interval between messages, in nanoseconds; 0: no limit. Excess messages are lost (`tell`). */
  readonly intervalNs: number;
  /**
   * Sends the agent up to MAX_MESSAGE_WORDS words. Words sent while the line is down are lost. Returns false if they are
   * lost because there were too many messages: send what still matters after `intervalNs` or more.
   * @throws InvalidArgumentError for more words
   */
  tell(words: ArrayLike<number>): boolean;
}

/** The events of a line. */
export interface AgentLineEvents {
  /** The agent is reachable, but does not know this context: at first, and after the daemon restarts or reloads. */
  onUp?(line: AgentLine): void;
  /** The agent has sent words. To act on them at once, call `CoordinatorRegistry.notify`. */
  onTold?(words: Float64Array): void;
}

/** The actions of an agent in an event. */
export interface AgentActions {
  /** The device's time. */
  readonly nowNs: number;
  /** The GIDs of the device's port, by index; '::' for an unused one. */
  readonly gids: readonly string[];
  /**
   * The members of the agent's device as a ruler sees them. Set grants in the columns of this view, and announce them
   * with `changed`.
   */
  members(ruler: Ruler): MembersView;
  /** Members must act on their grants at once. */
  changed(member: number): void;
  /**
   * Sends a member up to MAX_MESSAGE_WORDS words over its line to this agent.
   * @throws InvalidArgumentError for more words
   */
  tell(member: number, words: ArrayLike<number>): void;
  /**
   * The number of the peer with a port of this GID, reached from the own port `fromGid`; -1 if no such agent is known.
   * Numbers stay the same until the agent forgets the peer (`forgetPeer`).
   */
  peerAt(gid: string, fromGid: string): number;
  /** The GID of a peer's port. @throws InvalidArgumentError for an unknown peer */
  gidOf(peer: number): string;
  /**
   * Sends a message of up to MAX_MESSAGE_WORDS words. It takes as long as a SEND, and may be lost.
   * @throws InvalidArgumentError for more words, or an unknown peer
   */
  send(peer: number, words: ArrayLike<number>): void;
  /**
   * Begins or ends to watch a peer: onSilent reports within 100 ms that it is silent. Over a network between daemons,
   * this takes up to 67 messages per second and peer, so watch peers only while it matters.
   * @throws InvalidArgumentError for an unknown peer
   */
  watch(peer: number, isWatched: boolean): void;
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
   * called when the member must act at once. Null if the table is full.
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
