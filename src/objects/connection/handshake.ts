/** The handshake: the caller sends hello, the listener answers hello once it can receive, the caller sends ready. */
import {
  ConnectionError,
  HandshakeError,
  InvalidArgumentError,
  IsoverbsError,
  type Wire,
} from '../../verbs/index.ts';
import type { Context } from '../context.ts';
import type { ConnectToOptions, Endpoint, QueuePair } from '../queue-pair.ts';
import { requireContext, requireOwned } from '../resource.ts';
import { untilAborted } from '../support/abort.ts';
import { connectionError } from '../support/diagnostics.ts';
import { Connection, type Remote } from './connection.ts';
import { FrameChannel } from './frame-channel.ts';
import {
  decodePrivateData,
  encodePrivateData,
  type Frame,
  type HelloFrame,
  type PrivateData,
} from './frames.ts';
import type { ConnectionOptions, ConnectOptions } from './options.ts';
import { requireSchema, validated } from './schema.ts';

const DEFAULT_TIMEOUT_MS = 10_000;
/** Largest number of outstanding READs and atomics to request and to offer by default. */
const DEFAULT_RD_ATOMIC = 16;

/**
 * Connects a queue pair to a listener. `T` is the type of the listener's private data: give `remoteSchema`, which
 * checks it, or name the type, `connect<{ addr: number }>(...)`, if the listener is trusted.
 * @throws ConnectionError when the listener does not answer or rejects the connection
 * @throws HandshakeError when the peer uses another protocol, or its private data do not fit `remoteSchema`
 */
export async function connect<T = PrivateData | undefined>(
  context: Context,
  options: ConnectOptions<T>,
): Promise<Connection<T>> {
  requireContext('connect', context, options);
  requireSchema(options.remoteSchema);
  try {
    const wire = await openWire(context, options);
    return await withDeadline(wire, options, (channel) => call(context, options, channel));
  } catch (error) {
    const address = `${options.host ?? 'localhost'}:${options.port}`;
    if (connectionError.hasSubscribers) connectionError.publish({ context, side: 'connect', address, error });
    throw error;
  }
}

/** A wire to the listener. After an abort, one that arrives late is closed. */
async function openWire<T>(context: Context, options: ConnectOptions<T>): Promise<Wire> {
  const { port, host, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  signal?.throwIfAborted();
  const wire = context.provider.rendezvous.connect(context.handle, { port, host, timeoutMs });
  try {
    return await untilAborted(wire, signal);
  } catch (cause) {
    if (signal?.aborted) {
      wire.then(
        (late) => late.close(),
        () => {},
      );
      throw signal.reason;
    }
    if (cause instanceof IsoverbsError) throw cause;
    const where = `${host ?? 'localhost'}:${port}`;
    throw new ConnectionError(`cannot connect to ${where}: ${(cause as Error).message}`, { cause });
  }
}

/** An accepted connection. Its completions are held back until `announced()`. */
export interface Accepted<T> {
  connection: Connection<T>;
  announced(): void;
}

/**
 * The listener's side of one connection; `port` is that of the listener. The peer can send as soon as it has the
 * answer. What arrives before the program has been given the connection is held back, so that programs see the
 * connection first.
 */
export function accept<T>(
  context: Context,
  options: ConnectionOptions<T> & { port: number },
  channel: FrameChannel,
): Promise<Accepted<T>> {
  return withCleanup(channel, async (cleanup) => {
    const hello = expectHello(await channel.receive());
    const remote = await remoteOf(hello, channel, options);
    const qp = makeQp(context, options, remote);
    const held = qp.recvCq.holdQp(qp.handle);
    cleanup(qp, held.discard);
    qp.toInit(options);
    // This precedes the posting of receives, because the shims negotiate the receives that follow.
    const endpoint = qp.endpoint(options);
    await options.prepare?.(qp, remote);
    const mine = helloOf(qp, endpoint, options, remote);
    moveToRts(qp, options, remote, mine, hello);
    channel.send(mine);
    const frame = await channel.receive();
    if (frame.type !== 'ready') throw new HandshakeError(`the peer sent '${frame.type}' instead of 'ready'`);
    // A failed receive can close the queue pair before the last frame arrives; the peer must learn of it.
    if (qp.closed) throw new ConnectionError(`${qp.label} was closed before the connection was established`);
    return { connection: new Connection(qp, remote, channel), announced: held.release };
  });
}

/** Runs a handshake on a wire within a time limit, until the signal aborts. */
export async function withDeadline<R>(
  wire: Wire,
  options: { timeoutMs?: number; signal?: AbortSignal },
  run: (channel: FrameChannel) => Promise<R>,
): Promise<R> {
  const { timeoutMs: limit = DEFAULT_TIMEOUT_MS, signal } = options;
  const channel = new FrameChannel(wire);
  const onAbort = () => channel.abort(new ConnectionError('the attempt was aborted'));
  const onTimeout = () =>
    channel.abort(new HandshakeError(`the peer did not finish the handshake within ${limit} ms`));
  const timer = setTimeout(onTimeout, limit);
  signal?.addEventListener('abort', onAbort);
  try {
    if (signal?.aborted) onAbort();
    return await run(channel);
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

function call<T>(
  context: Context,
  options: ConnectOptions<T>,
  channel: FrameChannel,
): Promise<Connection<T>> {
  return withCleanup(channel, async (cleanup) => {
    const qp = makeQp(context, options, null);
    cleanup(qp);
    qp.toInit(options);
    const mine = helloOf(qp, qp.endpoint(options), options, null);
    channel.send(mine);
    const hello = expectHello(await channel.receive());
    const remote = await remoteOf(hello, channel, options);
    await options.prepare?.(qp, remote);
    options.signal?.throwIfAborted();
    moveToRts(qp, options, remote, mine, hello);
    channel.send({ type: 'ready' });
    return new Connection(qp, remote, channel);
  });
}

/** On failure: notifies the peer, closes the wire and the queue pair, and rethrows the error. */
async function withCleanup<R>(
  channel: FrameChannel,
  run: (cleanup: (qp: QueuePair, discard?: () => void) => void) => Promise<R>,
): Promise<R> {
  let undo = () => {};
  try {
    return await run((qp, discard) => {
      undo = () => {
        discard?.();
        qp.close();
      };
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    channel.send({ type: 'refuse', message: message.slice(0, 1000) });
    channel.close();
    undo();
    throw error;
  }
}

function makeQp<T>(context: Context, options: ConnectionOptions<T>, remote: Remote<T> | null): QueuePair {
  const { createQp, pd, sendCq, recvCq, cap, sqSigAll, type, srq, extended, labels } = options;
  if (createQp !== undefined)
    return requireOwned(createQp(remote), 'QueuePair', context, "createQp's result");
  if (pd === undefined || sendCq === undefined) {
    throw new InvalidArgumentError('a connection requires pd and sendCq, or createQp');
  }
  requireOwned(pd, 'ProtectionDomain', context, 'pd');
  return pd.createQp({ sendCq, recvCq, cap, sqSigAll, type, srq, extended, labels });
}

function helloOf<T>(
  qp: QueuePair,
  endpoint: Endpoint,
  options: ConnectionOptions<T>,
  remote: Remote<T> | null,
): HelloFrame {
  const { privateData } = options;
  if (qp.type !== 'RC' && qp.type !== 'UC') {
    throw new InvalidArgumentError(`the handshake cannot connect ${qp.type} queue pairs; use RC or UC`);
  }
  const port = qp.context.queryPort(options.portNum ?? 1);
  const device = qp.context.queryDevice();
  return {
    type: 'hello',
    qpType: qp.type,
    ...endpoint,
    mtu: Math.min(port.activeMtu, options.mtu ?? port.activeMtu),
    initiatorDepth: options.maxRdAtomic ?? Math.min(device.maxQpInitRdAtom, DEFAULT_RD_ATOMIC),
    responderResources: options.maxDestRdAtomic ?? Math.min(device.maxQpRdAtom, DEFAULT_RD_ATOMIC),
    privateData: encodePrivateData(typeof privateData === 'function' ? privateData(remote, qp) : privateData),
  };
}

async function remoteOf<T>(
  hello: HelloFrame,
  channel: FrameChannel,
  { remoteSchema }: ConnectionOptions<T>,
): Promise<Remote<T>> {
  const { qpNum, psn, gid, lid, mtu, shim } = hello;
  const privateData = await validated(remoteSchema, decodePrivateData(hello.privateData));
  const address = channel.remoteAddress;
  return { qpNum, psn, gid, lid, mtu, ...(shim !== undefined && { shim }), privateData, address };
}

/** INIT -> RTS, with the limits of both ends. */
function moveToRts(
  qp: QueuePair,
  options: ConnectToOptions & { port: number },
  remote: Endpoint & { address: string },
  mine: HelloFrame,
  theirs: HelloFrame,
): void {
  if (theirs.qpType !== mine.qpType) {
    throw new HandshakeError(
      `the peer's queue pair is ${theirs.qpType}, this one is ${mine.qpType}; use the same type on both ends`,
    );
  }
  const address = remote.address.replace(/:\d+$/, '');
  qp.provider.namePeer?.(qp.handle, { address, ports: [options.port] });
  qp.toRtr(remote, {
    ...options,
    mtu: Math.min(mine.mtu, theirs.mtu),
    maxDestRdAtomic: Math.min(mine.responderResources, theirs.initiatorDepth),
  });
  qp.toRts({ ...options, maxRdAtomic: Math.min(mine.initiatorDepth, theirs.responderResources) });
}

function expectHello(frame: Frame): HelloFrame {
  if (frame.type === 'refuse')
    throw new ConnectionError(`the peer rejected the connection: ${frame.message}`);
  if (frame.type !== 'hello') throw new HandshakeError(`the peer sent '${frame.type}' instead of 'hello'`);
  return frame;
}
