import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import type { CmConnParam } from '../../verbs/index.ts';
import type { Access } from '../access.ts';
import type { QueuePair } from '../queue-pair.ts';
import type { CmConnection } from './connection.ts';
import type { DatagramEnd } from './datagram-end.ts';
import type { CmPlaceOptions } from './qp-resources.ts';

/** The longest that a timer of Node can wait. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Bytes, or text that is sent as UTF-8. */
export type CmPrivateData = Uint8Array | string;

export interface CmConnectionOptions extends CmPlaceOptions {
  /** What the peer may do through the queue pair. Default: read, write and atomics, as far as keys allow. */
  access?: Access;
  /** Runs when the queue pair is in INIT, before the peer can send: post the receives here. */
  prepare?: (connection: CmConnection) => void | Promise<void>;
  /** READs and atomics of the peer served at once. Default: what the device takes, at most 16. */
  responderResources?: number;
  /** Own READs and atomics under way at once. Default: what the device takes, at most 16. */
  initiatorDepth?: number;
  /** Default 7. */
  retryCount?: number;
  /** Default 7: for ever. */
  rnrRetryCount?: number;
  /** Code of the delay that is asked of senders while no receive is posted. Default 12 (0.64 ms). */
  minRnrTimer?: number;
}

/** A server's answer to one request. */
export interface CmAcceptOptions extends CmConnectionOptions {
  /** At most 196 bytes. */
  privateData?: CmPrivateData;
}

/** Whom to call, and for how long to try. */
export interface CmCallOptions {
  /** Address or name. Default 'localhost'. */
  host?: string;
  port: number;
  /** Own address or name: chooses the device. Default: as the route says. */
  localAddress?: string;
  /** Default: any free one. */
  localPort?: number;
  /** In milliseconds of real time, for all of it. Default 10 000. */
  timeoutMs?: number;
  /** Gives up: the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface CmConnectOptions extends CmCallOptions, CmConnectionOptions {
  /** At most 56 bytes. */
  privateData?: CmPrivateData;
}

/** Where a server listens. */
export interface CmListenOptions {
  /** 0, the default, takes a free one: see address(). */
  port?: number;
  /** Address or name of the device to listen on. Default: all of them. */
  host?: string;
  /** Requests that wait for the event loop at once; further ones are dropped and come again. Default 128. */
  backlog?: number;
}

/** How a datagram's end is made. */
export interface CmDatagramOptions extends CmPlaceOptions {
  /** Runs when the queue pair can receive: post the receives here. The first 40 bytes of each take the GRH. */
  prepare?: (end: DatagramEnd) => void | Promise<void>;
}

export interface CmDatagramServerOptions extends CmDatagramOptions {
  /** The answer to whoever asks; at most 136 bytes. */
  privateData?: CmPrivateData;
}

export interface CmResolveOptions extends CmCallOptions, CmDatagramOptions {
  /** At most 180 bytes. */
  privateData?: CmPrivateData;
}

export interface CmMulticastOptions
  extends CmDatagramOptions,
    Omit<CmCallOptions, 'host' | 'port' | 'localPort'> {}

/** @throws InvalidArgumentError unless `options` is an object */
export function requireOptions<T extends object>(verb: string, options: T): T {
  if (typeof options === 'object' && options !== null) return options;
  throw new InvalidArgumentError(`${verb}: options must be an object, got ${shown(options)}`);
}

/** What is checked here, because nothing below looks at it. @throws InvalidArgumentError */
export function requireCall(verb: string, options: Partial<CmCallOptions>): void {
  const { timeoutMs = 0, localPort = 0, signal } = options;
  if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0 && timeoutMs <= MAX_TIMEOUT_MS)) {
    const range = `from 0 to ${MAX_TIMEOUT_MS}`;
    throw new InvalidArgumentError(`${verb}: timeoutMs must be a number ${range}, got ${shown(timeoutMs)}`);
  }
  if (!Number.isInteger(localPort) || localPort < 0 || localPort > 65535) {
    const got = shown(localPort);
    throw new InvalidArgumentError(`${verb}: localPort must be an integer from 0 to 65535, got ${got}`);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new InvalidArgumentError(`${verb}: signal must be an AbortSignal, got ${shown(signal)}`);
  }
  requireFunctions(verb, options);
}

/** What will be called later. @throws InvalidArgumentError */
export function requireFunctions(verb: string, options: object): void {
  for (const name of ['prepare', 'createQp'] as const) {
    const value = (options as Record<string, unknown>)[name];
    if (value === undefined || typeof value === 'function') continue;
    throw new InvalidArgumentError(`${verb}: ${name} must be a function, got ${shown(value)}`);
  }
}

export function bytesOf(data: CmPrivateData | undefined): Uint8Array {
  if (data === undefined) return new Uint8Array(0);
  return typeof data === 'string' ? new TextEncoder().encode(data) : data;
}

const DEFAULT_RD_ATOMIC = 16;

/** What rdma_connect and rdma_accept are told. */
export function connParam(qp: QueuePair, options: CmConnectionOptions, privateData: Uint8Array): CmConnParam {
  const { maxQpRdAtom, maxQpInitRdAtom } = qp.context.queryDevice();
  return {
    privateData,
    responderResources: options.responderResources ?? Math.min(maxQpRdAtom, DEFAULT_RD_ATOMIC),
    initiatorDepth: options.initiatorDepth ?? Math.min(maxQpInitRdAtom, DEFAULT_RD_ATOMIC),
    retryCount: options.retryCount ?? 7,
    rnrRetryCount: options.rnrRetryCount ?? 7,
    qpNum: qp.qpNum,
  };
}
