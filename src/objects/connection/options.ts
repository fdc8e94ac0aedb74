import type { CompletionQueue } from '../completion-queue.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { ConnectToOptions, QueuePair, QueuePairOptions } from '../queue-pair.ts';
import type { Remote } from './connection.ts';
import type { PrivateData } from './frames.ts';
import type { StandardSchema } from './schema.ts';

/**
 * Options of both ends of a connection. The queue pair is created from `pd` and `sendCq`, or by `createQp`. `T` is the
 * type of the peer's private data.
 */
export interface ConnectionOptions<T = PrivateData | undefined>
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
  createQp?: (remote: Remote<T> | null) => QueuePair;
  /** Runs in INIT, before the peer can send: post the receives here. */
  prepare?: (qp: QueuePair, remote: Remote<T>) => void | Promise<void>;
  /** Private data for the peer: bytes or JSON, at most 4 KiB. A function can choose it by peer. */
  privateData?: PrivateData | ((remote: Remote<T> | null, qp: QueuePair) => PrivateData | undefined);
  /**
   * Validates the peer's private data, which are then of its type: a schema of zod 4 or another Standard Schema. A
   * peer whose data do not fit is rejected. Without a schema, `T` is a claim that nothing checks.
   */
  remoteSchema?: StandardSchema<T>;
  /** Time limit of the handshake, in milliseconds of real time. Default 10 000. */
  timeoutMs?: number;
}

/** Options of connect(). */
export interface ConnectOptions<T = PrivateData | undefined> extends ConnectionOptions<T> {
  port: number;
  host?: string;
  /** Aborts the attempt; the promise rejects with the signal's reason. An established connection stays open. */
  signal?: AbortSignal;
}

/** Options of listen(). */
export interface ListenOptions<T = PrivateData | undefined> extends ConnectionOptions<T> {
  /** 0 chooses a free port: see Listener.port. */
  port: number;
  host?: string;
  /** Concurrent handshakes; further callers are rejected. Default 128. */
  maxPending?: number;
  /** Closes the listener, as close() does. Aborted before it listens, the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}
