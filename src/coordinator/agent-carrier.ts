/**
 * How the agents of one host reach those of another: they exchange frames, and a carrier takes a frame to another host. A
 * datagram queue pair is one carrier (agent-datagrams.ts), the network between daemons is another.
 */
/** Kinds of frames. */
export const MESSAGE = 0;
export const HELLO = 1;
export const CONNECT = 2;
export const CONNECTED = 3;

/** The queue pair at which an agent's host receives messages. */
export interface AgentAddress {
  readonly gid: string;
  readonly qpNum: number;
  /** What takes messages there; absent: they are datagrams. */
  readonly carrier?: AgentCarrier;
}

/** A frame that has arrived. */
export interface Frame {
  /** The peer that has sent it; -1: to be found by the address. */
  readonly peer: number;
  /** The GIDs of the sender's port and of the own one; '' if the peer is known. */
  readonly from: string;
  readonly to: string;
  /** The sender's queue pair. */
  readonly qpNum: number;
  readonly kind: number;
  /** The hash of the agent's name. */
  readonly agent: number;
  readonly words: Float64Array;
}

/** The way to one peer. */
export interface AgentChannel {
  /** Sends a frame of at most MAX_MESSAGE_WORDS words. It may be lost. */
  send(kind: number, agent: number, words: ArrayLike<number>): void;
  /** Nothing more is sent, and the peer's number may be given to another one. */
  close(): void;
}

/** A way to the agents of other hosts. */
export interface AgentCarrier {
  /**
   * Whether the carrier itself finds out which hosts are alive, and reports it (AgentHost.setAlive). If not, the hosts
   * greet each other.
   */
  readonly watchesPeers: boolean;
  /** The way from the own port `fromGid` to an address, for the peer with this number. Null: there is none. */
  channel(to: AgentAddress, fromGid: string, peer: number): AgentChannel | null;
}
