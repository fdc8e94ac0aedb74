/** The handshake: the caller sends hello, the listener answers hello once it can receive, the caller sends ready. */
import {
  ConnectionError,
  HandshakeError,
  InvalidArgumentError,
  IsoverbsError,
  type Wire,
} from '../../verbs/index.ts';
import type { Context } from '../context.ts';
import type { Endpoint, QueuePair } from '../queue-pair.ts';
import { requireOwned } from '../resource.ts';
import { Connection, type Remote } from './connection.ts';
import { FrameChannel } from './frame-channel.ts';
import { decodePrivateData, encodePrivateData, type Frame, type HelloFrame } from './frames.ts';
import type { ConnectionOptions, ConnectOptions } from './options.ts';

const DEFAULT_TIMEOUT_MS = 10_000;
/** Largest number of outstanding READs and atomics to request and to offer by default. */
const DEFAULT_RD_ATOMIC = 16;

/**
 * Connects a queue pair to a listener.
 * @throws ConnectionError when the listener does not answer or rejects the connection
 * @throws HandshakeError when the peer uses another protocol
 */
export async function connect(context: Context, options: ConnectOptions): Promise<Connection> {
  const { port, host, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  let wire: Wire;
  try {
    wire = await context.provider.rendezvous.connect(context.handle, { port, host, timeoutMs });
  } catch (cause) {
    if (cause instanceof IsoverbsError) throw cause;
    const where = `${host ?? 'localhost'}:${port}`;
    throw new ConnectionError(`cannot connect to ${where}: ${(cause as Error).message}`, { cause });
  }
  return withDeadline(wire, timeoutMs, (channel) => call(context, options, channel));
}

/** The listener's side of one connection; `port` is that of the listener. */
export function accept(
  context: Context,
  options: ConnectionOptions & { port: number },
  channel: FrameChannel,
): Promise<Connection> {
  return withCleanup(channel, async (cleanup) => {
    const hello = expectHello(await channel.receive());
    const remote = remoteOf(hello, channel);
    const qp = makeQp(context, options, remote);
    cleanup(qp);
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
    return new Connection(qp, remote, channel);
  });
}

/** Runs a handshake on a wire within a time limit. */
export async function withDeadline(
  wire: Wire,
  timeoutMs: number | undefined,
  run: (channel: FrameChannel) => Promise<Connection>,
): Promise<Connection> {
  const channel = new FrameChannel(wire);
  const limit = timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const onTimeout = () =>
    channel.abort(new HandshakeError(`the peer did not finish the handshake within ${limit} ms`));
  const timer = setTimeout(onTimeout, limit);
  try {
    return await run(channel);
  } finally {
    clearTimeout(timer);
  }
}

function call(context: Context, options: ConnectOptions, channel: FrameChannel): Promise<Connection> {
  return withCleanup(channel, async (cleanup) => {
    const qp = makeQp(context, options, null);
    cleanup(qp);
    qp.toInit(options);
    const mine = helloOf(qp, qp.endpoint(options), options, null);
    channel.send(mine);
    const hello = expectHello(await channel.receive());
    const remote = remoteOf(hello, channel);
    await options.prepare?.(qp, remote);
    moveToRts(qp, options, remote, mine, hello);
    channel.send({ type: 'ready' });
    return new Connection(qp, remote, channel);
  });
}

/** On failure: notifies the peer, closes the wire and the queue pair, and rethrows the error. */
async function withCleanup(
  channel: FrameChannel,
  run: (cleanup: (qp: QueuePair) => void) => Promise<Connection>,
): Promise<Connection> {
  let made: QueuePair | null = null;
  try {
    return await run((qp) => {
      made = qp;
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    channel.send({ type: 'refuse', message: message.slice(0, 1000) });
    channel.close();
    (made as QueuePair | null)?.close();
    throw error;
  }
}

function makeQp(context: Context, options: ConnectionOptions, remote: Remote | null): QueuePair {
  const { createQp, pd, sendCq, recvCq, cap, sqSigAll, type, srq, extended, labels } = options;
  if (createQp !== undefined)
    return requireOwned(createQp(remote), 'QueuePair', context, "createQp's result");
  if (pd === undefined || sendCq === undefined) {
    throw new InvalidArgumentError('a connection requires pd and sendCq, or createQp');
  }
  requireOwned(pd, 'ProtectionDomain', context, 'pd');
  return pd.createQp({ sendCq, recvCq, cap, sqSigAll, type, srq, extended, labels });
}

function helloOf(
  qp: QueuePair,
  endpoint: Endpoint,
  options: ConnectionOptions,
  remote: Remote | null,
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

function remoteOf(hello: HelloFrame, channel: FrameChannel): Remote {
  const { qpNum, psn, gid, lid, mtu, shim } = hello;
  const privateData = decodePrivateData(hello.privateData);
  const address = channel.remoteAddress;
  return { qpNum, psn, gid, lid, mtu, ...(shim !== undefined && { shim }), privateData, address };
}

/** INIT -> RTS, with the limits of both ends. */
function moveToRts(
  qp: QueuePair,
  options: ConnectionOptions & { port: number },
  remote: Remote,
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
