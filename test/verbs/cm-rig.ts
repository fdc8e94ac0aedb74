/** Shared by the rdma_cm cases: event channels that record events, and the usual steps of both sides. */
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { type Ground, until } from './ground.ts';
import { closeEnd, createQp, type End, openEnd } from './rig.ts';

export const NO_DATA = new Uint8Array(0);
const TIMEOUT_MS = 2000;
const INITIATOR_DEPTH = 3;

/** One event channel and its events. close() destroys everything created here. */
export interface Ears {
  ground: Ground;
  cm: V.ConnectionManager;
  channel: number;
  events: V.CmEvent[];
}

export function ears(ground: Ground): Ears {
  const { cm, cmError } = ground.provider;
  if (cm === null) throw new V.UnsupportedError(`no rdma_cm on ${ground.name}: ${cmError}`);
  const channel = cm.createEventChannel();
  const events: V.CmEvent[] = [];
  cm.watchEventChannel(channel, (event) => events.push(event));
  return { ground, cm, channel, events };
}

/** The next event of an identifier (0: of any), which must be the expected one. */
export async function heard(at: Ears, id: number, event: number): Promise<V.CmEvent> {
  const of = (e: V.CmEvent) => id === 0 || e.id === id || e.listenId === id;
  await until(at.ground, V.cmEventName(event), () => at.events.some(of));
  const [found] = at.events.splice(at.events.findIndex(of), 1);
  expect(V.cmEventName(found.event)).toBe(V.cmEventName(event));
  return found;
}

/** Lets time pass and returns the names of an identifier's events. */
export async function names(at: Ears, id: number, turns = 50): Promise<string[]> {
  for (let i = 0; i < turns; i++) await at.ground.turn();
  return at.events.filter((e) => e.id === id).map((e) => V.cmEventName(e.event));
}

/** IPv4 address of one of the ground's devices. */
export function addressOf(ground: Ground, which: 0 | 1): string {
  const p = ground.provider;
  const context = p.openDevice(ground.devices[which]);
  const { gid } = p.queryGid(context, 1, ground.gidIndex);
  p.closeDevice(context);
  return gid.replace('::ffff:', '');
}

/** A listening identifier on the first device, and its port. */
export function listener(at: Ears, portSpace = V.RDMA_PS_TCP, backlog = 8): { id: number; port: number } {
  const id = at.cm.createId(at.channel, portSpace);
  at.cm.bindAddr(id, { address: addressOf(at.ground, 0), port: 0 });
  at.cm.listen(id, backlog);
  return { id, port: at.cm.queryId(id).local.port };
}

/** An identifier of the second device with its route to `port` of the first resolved. */
export async function routed(at: Ears, port: number, portSpace = V.RDMA_PS_TCP): Promise<number> {
  const { cm } = at;
  const id = cm.createId(at.channel, portSpace);
  const local = { address: addressOf(at.ground, 1), port: 0 };
  cm.resolveAddr(id, local, { address: addressOf(at.ground, 0), port }, TIMEOUT_MS);
  await heard(at, id, V.RDMA_CM_EVENT_ADDR_RESOLVED);
  cm.resolveRoute(id, TIMEOUT_MS);
  await heard(at, id, V.RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

/** The usual parameters, with a queue pair's number. */
export function param(qpNum: number, privateData: Uint8Array = NO_DATA): V.CmConnParam {
  return {
    qpNum,
    privateData,
    responderResources: 4,
    initiatorDepth: INITIATOR_DEPTH,
    retryCount: 7,
    rnrRetryCount: 7,
  };
}

/**
 * Moves a queue pair with the attributes of rdma_init_qp_attr. A server that is not accepted yet keeps to its own depth, too,
 * as rdma_accept(3) does.
 */
export function move(end: End, cm: V.ConnectionManager, id: number, qp: number, states: number[]): void {
  for (const state of states) {
    const { attr, mask } = cm.initQpAttr(id, state);
    const { maxRdAtomic } = attr;
    const own = maxRdAtomic !== undefined && { maxRdAtomic: Math.min(maxRdAtomic, INITIATOR_DEPTH) };
    end.p.modifyQp(qp, { ...attr, ...own }, mask);
  }
}

export const { IBV_QPS_INIT: INIT, IBV_QPS_RTR: RTR, IBV_QPS_RTS: RTS } = V;

/** One side of a connection: the identifier and the queue pair. */
export interface Side {
  at: Ears;
  end: End;
  id: number;
  qp: V.QpInfo;
}

export interface Connected {
  listener: number;
  server: Side;
  client: Side;
  request: V.CmEvent;
  response: V.CmEvent;
}

export interface ConnectedOptions {
  toServer?: Uint8Array;
  toClient?: Uint8Array;
}

/** Connects two queue pairs, step by step. */
export async function connected(ground: Ground, options: ConnectedOptions = {}): Promise<Connected> {
  const at = ears(ground);
  const { cm } = at;
  const listening = listener(at);
  const clientId = await routed(at, listening.port);
  const clientEnd = openEnd(ground, 1);
  const clientQp = createQp(clientEnd);
  cm.connect(clientId, param(clientQp.qpNum, options.toServer));
  const request = await heard(at, listening.id, V.RDMA_CM_EVENT_CONNECT_REQUEST);
  const serverEnd = openEnd(ground, 0);
  const serverQp = createQp(serverEnd);
  move(serverEnd, cm, request.id, serverQp.handle, [INIT, RTR, RTS]);
  cm.accept(request.id, param(serverQp.qpNum, options.toClient));
  const response = await heard(at, clientId, V.RDMA_CM_EVENT_CONNECT_RESPONSE);
  move(clientEnd, cm, clientId, clientQp.handle, [INIT, RTR, RTS]);
  cm.establish(clientId);
  await heard(at, request.id, V.RDMA_CM_EVENT_ESTABLISHED);
  return {
    listener: listening.id,
    server: { at, end: serverEnd, id: request.id, qp: serverQp },
    client: { at, end: clientEnd, id: clientId, qp: clientQp },
    request,
    response,
  };
}

export function closeSide({ at, end, id, qp }: Side): void {
  at.cm.destroyId(id);
  end.p.destroyQp(qp.handle);
  closeEnd(end);
}

export function closeConnected({ listener, server, client }: Connected): void {
  const { cm, channel } = server.at;
  closeSide(server);
  closeSide(client);
  cm.destroyId(listener);
  cm.destroyEventChannel(channel);
}

/** Closes a channel and the identifiers given. */
export function hush(at: Ears, ...ids: number[]): void {
  for (const id of ids) at.cm.destroyId(id);
  at.cm.destroyEventChannel(at.channel);
}
