// @ts-nocheck: runs against dist, which a type check must not need.
/** Helpers that the child processes with a connection manager share. */
import { p, V } from './rig.mjs';

export const { cm } = p;

const device = process.env.RXE_DEV ?? p.getDeviceList()[0].name;

function addressOfDevice() {
  const context = p.openDevice(device);
  const gids = Array.from({ length: 8 }, (_, i) => p.queryGid(context, 1, i).gid);
  p.closeDevice(context);
  return gids.find((gid) => gid.startsWith('::ffff:')).slice('::ffff:'.length);
}

export const address = addressOfDevice();

/** A channel whose listener resolves the promise waiting for an event; `unheard` holds the unexpected events. */
export function ears() {
  const channel = cm.createEventChannel();
  const waiting = [];
  const unheard = [];
  cm.watchEventChannel(channel, (event) => {
    const next = waiting.shift();
    if (next === undefined) unheard.push(event);
    else next(event);
  });
  cm.refEventChannel(channel, true);
  const next = () =>
    new Promise((resolve) => (unheard.length > 0 ? resolve(unheard.shift()) : waiting.push(resolve)));
  const heard = async (event) => {
    const got = await next();
    if (got.event !== event)
      throw new Error(`heard ${V.cmEventName(got.event)}, not ${V.cmEventName(event)}`);
    return got;
  };
  return { channel, heard, unheard };
}

export function listener(channel, port = 0) {
  const id = cm.createId(channel, V.RDMA_PS_TCP);
  cm.bindAddr(id, { address, port });
  cm.listen(id, 8);
  return { id, port: cm.queryId(id).local.port };
}

/** The kernel rejects a second connection for the same queue pair number (status 10, stale). */
let qpNum = 0x7000;

/** An identifier connecting to `port` with a queue pair number that is not in use. */
export async function called({ channel, heard }, port) {
  const id = cm.createId(channel, V.RDMA_PS_TCP);
  cm.resolveAddr(id, null, { address, port }, 2000);
  await heard(V.RDMA_CM_EVENT_ADDR_RESOLVED);
  cm.resolveRoute(id, 2000);
  await heard(V.RDMA_CM_EVENT_ROUTE_RESOLVED);
  cm.connect(id, { qpNum: qpNum++ });
  return id;
}
