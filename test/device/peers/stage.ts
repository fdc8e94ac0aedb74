/**
 * Where the tests meet C programs: ours use the first device's address, theirs the second's. soft-cm-peers.test.ts lets them
 * meet a user-space device (ISOVERBS_PEERS=soft).
 */
import * as V from '../../../src/verbs/index.ts';
import { type Ears, ears, heard, INIT, move, RTR, RTS, type Side } from '../../verbs/cm-rig.ts';
import { type Ground, realGroundIfAny, softGroundAt } from '../../verbs/ground.ts';
import { closeEnd, createQp, openEnd } from '../../verbs/rig.ts';
import { isInstalled } from './program.ts';

export const OURS = process.env.RXE_IP ?? '';
export const THEIRS = process.env.RXE_IP2 ?? '';

export const ground = process.env.ISOVERBS_PEERS === 'soft' ? softGroundAt([OURS]) : realGroundIfAny();

/** Whether the tests can run: they need two devices with addresses, and the programs. */
export const here = ground !== null && OURS !== '' && THEIRS !== '' && isInstalled('rping');

/** The reasons in a REJECTED, and in a datagram's UNREACHABLE, which mean that no program listens yet. */
const INVALID_SERVICE_ID = 8;
const SIDR_UNSUPPORTED = 1;
const RESOLVE_MS = 2000;
const PATIENCE_MS = 20_000;

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export function open(): { ground: Ground; at: Ears } {
  if (ground === null) throw new Error('there is no device');
  return { ground, at: ears(ground) };
}

/** An identifier with its route to their `port` resolved. */
export async function routedTo(at: Ears, portSpace: number, address: string, port: number): Promise<number> {
  const id = at.cm.createId(at.channel, portSpace);
  at.cm.resolveAddr(id, { address: OURS, port: 0 }, { address, port }, RESOLVE_MS);
  await heard(at, id, V.RDMA_CM_EVENT_ADDR_RESOLVED);
  at.cm.resolveRoute(id, RESOLVE_MS);
  await heard(at, id, V.RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

/** Connects to their `port`, retrying until the program listens; returns the identifier and the answer. */
export async function call(at: Ears, portSpace: number, port: number, param: V.CmConnParam) {
  const giveUp = Date.now() + PATIENCE_MS;
  for (;;) {
    const id = await routedTo(at, portSpace, THEIRS, port);
    at.cm.connect(id, param);
    while (!at.events.some((event) => event.id === id)) await at.ground.turn();
    const at0 = at.events.findIndex((event) => event.id === id);
    const [answer] = at.events.splice(at0, 1);
    const absent =
      (answer.event === V.RDMA_CM_EVENT_REJECTED && answer.status === INVALID_SERVICE_ID) ||
      (answer.event === V.RDMA_CM_EVENT_UNREACHABLE && answer.status === SIDR_UNSUPPORTED);
    if (!absent || Date.now() > giveUp) return { id, answer };
    at.cm.destroyId(id);
    await pause(100);
  }
}

/** One READ at a time each way, as in the examples of librdmacm. */
const PARAM = { responderResources: 1, initiatorDepth: 1, retryCount: 7, rnrRetryCount: 7 };

/** An open device with a queue pair in INIT, to which `prepare` has posted receives. */
function ready(at: Ears, id: number, qpType: number, prepare: (side: Side) => void): Side {
  const end = openEnd(at.ground, 0);
  const side = { at, end, id, qp: createQp(end, { qpType }) };
  move(end, at.cm, id, side.qp.handle, [INIT]);
  prepare(side);
  return side;
}

/** A stream connection to a C server. */
export async function callServer(at: Ears, port: number, prepare: (side: Side) => void): Promise<Side> {
  const probe = await routedTo(at, V.RDMA_PS_TCP, THEIRS, port);
  const side = ready(at, probe, V.IBV_QPT_RC, prepare);
  at.cm.destroyId(probe);
  const { id, answer } = await call(at, V.RDMA_PS_TCP, port, { ...PARAM, qpNum: side.qp.qpNum });
  if (answer.event !== V.RDMA_CM_EVENT_CONNECT_RESPONSE) {
    throw new Error(`answered with ${V.cmEventName(answer.event)}, status ${answer.status}`);
  }
  move(side.end, at.cm, id, side.qp.handle, [INIT, RTR, RTS]);
  at.cm.establish(id);
  return { ...side, id };
}

/** Our listening identifier. */
export function listenOn(at: Ears, portSpace: number, wanted = 0): { id: number; port: number } {
  const id = at.cm.createId(at.channel, portSpace);
  at.cm.bindAddr(id, { address: OURS, port: wanted });
  at.cm.listen(id, 4);
  return { id, port: at.cm.queryId(id).local.port };
}

/** A stream connection from a C client. */
export async function answerClient(
  at: Ears,
  listening: number,
  prepare: (side: Side) => void,
): Promise<Side> {
  const request = await heard(at, listening, V.RDMA_CM_EVENT_CONNECT_REQUEST);
  const side = ready(at, request.id, V.IBV_QPT_RC, prepare);
  move(side.end, at.cm, request.id, side.qp.handle, [INIT, RTR, RTS]);
  at.cm.accept(request.id, { ...PARAM, qpNum: side.qp.qpNum });
  await heard(at, request.id, V.RDMA_CM_EVENT_ESTABLISHED);
  return side;
}

/** A datagram queue pair in RTS for an identifier. */
export function datagrams(at: Ears, id: number, prepare: (side: Side) => void): Side {
  const side = ready(at, id, V.IBV_QPT_UD, prepare);
  move(side.end, at.cm, id, side.qp.handle, [RTR, RTS]);
  return side;
}

export function closeAll(side: Side, ...ids: number[]): void {
  const { at, end, id, qp } = side;
  end.p.destroyQp(qp.handle);
  closeEnd(end);
  for (const one of [id, ...ids]) at.cm.destroyId(one);
  at.cm.destroyEventChannel(at.channel);
}
