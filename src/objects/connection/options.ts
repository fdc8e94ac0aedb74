import type { CompletionQueue } from '../completion-queue.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { ConnectToOptions, QueuePair, QueuePairOptions } from '../queue-pair.ts';
import type { Remote } from './connection.ts';
import type { PrivateData } from './frames.ts';

/** How an end of a connection makes its queue pair: from `pd` and `sendCq`, or by `createQp`. */
export interface ConnectionOptions
  extends ConnectToOptions,
    Omit<QueuePairOptions, 'sendCq' | 'managed' | 'type'> {
  /** Default 'RC'. */
  type?: 'RC' | 'UC';
  pd?: ProtectionDomain;
  sendCq?: CompletionQueue;
  /** Makes the queue pair instead; `remote` is null on the connecting side, which calls before it knows. */
  createQp?: (remote: Remote | null) => QueuePair;
  /** Runs in INIT, before the peer can send: post the receives here. */
  prepare?: (qp: QueuePair, remote: Remote) => void | Promise<void>;
  /** Sent along: bytes or JSON, at most 4 KiB. A listener may decide by the peer. */
  privateData?: PrivateData | ((remote: Remote | null, qp: QueuePair) => PrivateData | undefined);
  /** For the whole handshake, in milliseconds of real time. Default 10 000. */
  timeoutMs?: number;
}

export interface ConnectOptions extends ConnectionOptions {
  port: number;
  host?: string;
}

export interface ListenOptions extends ConnectionOptions {
  /** 0 takes a free one: see Listener.port. */
  port: number;
  host?: string;
  /** Handshakes under way at once; further callers are turned away. Default 128. */
  maxPending?: number;
}
