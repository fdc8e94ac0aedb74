import { isIP } from 'node:net';
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { type CmConnParam, gidToBytes, gidToString, isMulticastGid } from '../../verbs/index.ts';
import type { Access } from '../access.ts';
import type { QueuePair } from '../queue-pair.ts';
import type { CmConnection } from './connection.ts';
import type { DatagramEnd } from './datagram-end.ts';
import type { CmPlaceOptions } from './qp-resources.ts';

/** Longest delay of a Node.js timer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Bytes, or text that is sent as UTF-8. */
export type CmPrivateData = Uint8Array | string;

/** Options of both ends of a connection. */
export interface CmConnectionOptions extends CmPlaceOptions {
  /** Rights of the peer on the queue pair. Default: read, write and atomics, within the rights of each key. */
  access?: Access;
  /** Runs in INIT, before the peer can send: post the receives here. */
  prepare?: (connection: CmConnection) => void | Promise<void>;
  /** READs and atomics of the peer served concurrently. Default: the limit of the device, at most 16. */
  responderResources?: number;
  /** Own READs and atomics outstanding. Default: the limit of the device, at most 16. */
  initiatorDepth?: number;
  /** Transport retries. Default 7. */
  retryCount?: number;
  /** Retries after RNR NAKs. Default 7: no limit. */
  rnrRetryCount?: number;
  /** Code of the delay that senders wait while no receive is posted. Default 12 (0.64 ms). */
  minRnrTimer?: number;
}

/** Options of a server's answer to one request. */
export interface CmAcceptOptions extends CmConnectionOptions {
  /** Private data for the client, at most 196 bytes. */
  privateData?: CmPrivateData;
}

/** Address of the server, and time limit of the attempt. */
export interface CmCallOptions {
  /** Address or name of the server. Default 'localhost'. */
  host?: string;
  port: number;
  /** Local address or name, which selects the device. Default: the route determines it. */
  localAddress?: string;
  /** Local port. Default: a free one. */
  localPort?: number;
  /** Time limit of the whole attempt, in milliseconds of real time. Default 10 000. */
  timeoutMs?: number;
  /** Aborts the attempt: the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Options of connect(). */
export interface CmConnectOptions extends CmCallOptions, CmConnectionOptions {
  /** Private data for the server, at most 56 bytes. */
  privateData?: CmPrivateData;
}

/** Options of listen(). */
export interface CmListenOptions {
  /** Default 0, a free port: see address(). */
  port?: number;
  /** Address or name of the device to listen on. Default: all devices. */
  host?: string;
  /** Requests queued for the event loop. Further ones are dropped, and their clients retry. Default 128. */
  backlog?: number;
}

/** Options of a queue pair for datagrams. */
export interface CmDatagramOptions extends CmPlaceOptions {
  /** Runs when the queue pair can receive: post the receives here. The GRH takes their first 40 bytes. */
  prepare?: (end: DatagramEnd) => void | Promise<void>;
}

/** Options of createDatagramServer(). */
export interface CmDatagramServerOptions extends CmDatagramOptions {
  /** Private data of the answer to clients, at most 136 bytes. */
  privateData?: CmPrivateData;
}

/** Options of resolveDatagram(). */
export interface CmResolveOptions extends CmCallOptions, CmDatagramOptions {
  /** Private data for the server, at most 180 bytes. */
  privateData?: CmPrivateData;
}

/** Options of joinMulticast(). */
export interface CmMulticastOptions
  extends CmDatagramOptions,
    Omit<CmCallOptions, 'host' | 'port' | 'localPort'> {}

/** @throws InvalidArgumentError unless `options` is an object */
export function requireOptions<T extends object>(verb: string, options: T): T {
  if (typeof options === 'object' && options !== null) return options;
  throw new InvalidArgumentError(`${verb}: options must be an object, got ${shown(options)}`);
}

/** Checks the address of a multicast group, which may end with a zone. @throws InvalidArgumentError */
export function requireGroup(verb: string, group: unknown): void {
  const version = typeof group === 'string' ? isIP(group) : 0;
  const [address] = String(group).split('%', 1);
  const gid = version === 4 ? `::ffff:${address}` : address;
  if (version !== 0 && isMulticastGid(gidToString(gidToBytes(gid)))) return;
  throw new InvalidArgumentError(
    `${verb}: the group must be a multicast address (224.0.0.0/4 or ff00::/8), such as '239.1.2.3', got ${shown(group)}`,
  );
}

/** Checks options that no layer below checks. @throws InvalidArgumentError */
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

/** Checks callbacks before they are needed. @throws InvalidArgumentError */
export function requireFunctions(verb: string, options: object): void {
  for (const name of ['prepare', 'createQp'] as const) {
    const value = (options as Record<string, unknown>)[name];
    if (value === undefined || typeof value === 'function') continue;
    throw new InvalidArgumentError(`${verb}: ${name} must be a function, got ${shown(value)}`);
  }
}

/** Private data as bytes. */
export function bytesOf(data: CmPrivateData | undefined): Uint8Array {
  if (data === undefined) return new Uint8Array(0);
  return typeof data === 'string' ? new TextEncoder().encode(data) : data;
}

const DEFAULT_RD_ATOMIC = 16;

/** Parameters of rdma_connect and rdma_accept. */
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
