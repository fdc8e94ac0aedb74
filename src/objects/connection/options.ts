import type { CompletionQueue } from '../completion-queue.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { ConnectToOptions, QueuePair, QueuePairOptions } from '../queue-pair.ts';
import type { Remote } from './connection.ts';
import type { PrivateData } from './frames.ts';

/** Options of both ends of a connection. The queue pair is created from `pd` and `sendCq`, or by `createQp`. */
export interface ConnectionOptions
  extends ConnectToOptions,
    Omit<QueuePairOptions, 'sendCq' | 'managed' | 'type'> {
  /** Default 'RC'. */
  type?: 'RC' | 'UC';
  pd?: ProtectionDomain;
  sendCq?: CompletionQueue;
  /**
   * Creates the queue pair, in place of `pd` and `sendCq`. `remote` is null on the connecting side, which does not know
   * its peer yet.
   */
  createQp?: (remote: Remote | null) => QueuePair;
  /** Runs in INIT, before the peer can send: post the receives here. */
  prepare?: (qp: QueuePair, remote: Remote) => void | Promise<void>;
  /** Private data for the peer: bytes or JSON, at most 4 KiB. A function can choose it by peer. */
  privateData?: PrivateData | ((remote: Remote | null, qp: QueuePair) => PrivateData | undefined);
  /** Time limit of the handshake, in milliseconds of real time. Default 10 000. */
  timeoutMs?: number;
}

/** Options of connect(). */
export interface ConnectOptions extends ConnectionOptions {
  port: number;
  host?: string;
}

/** Options of listen(). */
export interface ListenOptions extends ConnectionOptions {
  /** 0 chooses a free port: see Listener.port. */
  port: number;
  host?: string;
  /** Concurrent handshakes; further callers are rejected. Default 128. */
  maxPending?: number;
}
