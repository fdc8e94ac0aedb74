/** The Provider over a simulation: handles, arguments and ownership; the device itself is src/sim. */
import { postRecv, postSend, validateSend, WrRing } from '../../sim/queues/post.ts';
import type { ConnectionManager } from '../../verbs/connection-manager.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, NoDeviceError, NoResourcesError, shown } from '../../verbs/errors.ts';
import { extBytesFor, ringBytes, within } from '../../verbs/layout.ts';
import { mtuCode } from '../../verbs/names.ts';
import type { Provider } from '../../verbs/provider.ts';
import { ahVerbs } from './ah-verbs.ts';
import { requireInteger } from './arguments.ts';
import { asyncVerbs } from './async-verbs.ts';
import { channelVerbs } from './channel-verbs.ts';
import type { SimRendezvous } from './cm/rendezvous.ts';
import { cqVerbs } from './cq-verbs.ts';
import { deviceQueries } from './device-queries.ts';
import type { Driver } from './driver.ts';
import { deviceAttr, gidOf, guidOf, LIMITS, nicFacts, portAttr } from './limits.ts';
import { mrVerbs, pdVerbs } from './memory-verbs.ts';
import { mrChanges } from './mr-change.ts';
import { mwVerbs } from './mw-verbs.ts';
import { type Context, detach, Objects, requireNoChildren } from './objects.ts';
import { qpVerbs } from './qp-verbs.ts';
import { rateVerbs } from './rate-verbs.ts';
import { inside } from './rings.ts';
import { srqVerbs, xrcdVerbs } from './srq-verbs.ts';

export interface BuiltProvider {
  provider: Provider;
  objects: Objects;
}

/** How programs on the hosts find each other. */
export interface Managers {
  rendezvous: SimRendezvous;
  cm: ConnectionManager;
}

export function buildProvider(driver: Driver, managers: Managers, waits: boolean): BuiltProvider {
  const { rendezvous, cm } = managers;
  const objects = new Objects();
  const { hooks } = driver.sim.world;
  hooks.cqOf = (handle) => objects.cqs.get(handle)?.cq;
  hooks.qpOf = (handle) => objects.qps.get(handle)?.qp;
  hooks.windowOf = (handle) => objects.mws.get(handle)?.window;
  hooks.regionOf = (handle) => objects.mrs.get(handle)?.region;
  const hostOf = (context: number, verb: string) => objects.contexts.require(context, verb).host;
  const provider: Provider = {
    name: 'sim',
    threads: 'one',
    wait: waits ? 'simulated' : 'none',
    describeWait: () =>
      waits
        ? 'WAIT and ENABLE are executed by the simulated device'
        : 'WAIT and ENABLE are emulated under the policies that need them; this fabric was made without them',
    describeNic: (context) => {
      hostOf(context, 'describeNic');
      return nicFacts(driver.sim.world.params, waits);
    },
    interceptors: [],
    cm,
    cmError: null,
    ...deviceVerbs(driver, objects),
    ...asyncVerbs(driver, objects),
    ...deviceQueries(driver, objects),
    ...pdVerbs(objects),
    ...mrVerbs(driver, objects),
    ...mrChanges(driver, objects),
    ...mwVerbs(driver, objects),
    ...channelVerbs(driver, objects),
    ...cqVerbs(driver, objects),
    ...qpVerbs(driver, objects),
    ...rateVerbs(driver, objects),
    ...ahVerbs(driver, objects),
    ...xrcdVerbs(objects),
    ...srqVerbs(driver, objects),
    ...ringVerbs(objects),
    ...dataVerbs(driver, objects, waits),
    nowNs: () => driver.nowNs,
    sleep: (_context, delayNs, keeps) => {
      const delay = Math.max(0, delayNs);
      return keeps === 'nothing' ? driver.doze(delay) : driver.sleep(delay);
    },
    rendezvous: {
      listen: async (context, options, onWire) =>
        rendezvous.listen(hostOf(context, 'listen'), options, onWire),
      connect: async (context, options) => rendezvous.connect(hostOf(context, 'connect'), options),
    },
  };
  return { provider: Object.freeze(provider), objects };
}

type DeviceVerbs = Pick<
  Provider,
  'getDeviceList' | 'openDevice' | 'closeDevice' | 'queryDevice' | 'queryPort' | 'queryGid'
>;

function deviceVerbs(driver: Driver, objects: Objects): DeviceVerbs {
  const { contexts } = objects;
  const { world } = driver.sim;
  const alive = () => world.hosts.filter((host) => !host.dead);
  const onlyPort = (verb: string, portNum: number) => requireInteger(verb, 'portNum', portNum, 1, 1);
  let opened = 0;
  return {
    getDeviceList: () =>
      alive().map(({ index }) => ({
        name: `sim${index}`,
        provider: 'sim',
        guid: guidOf(index),
        transport: 'InfiniBand',
      })),
    openDevice(name, options) {
      const host = alive().find(({ index }) => name === `sim${index}`);
      if (host === undefined) {
        const names = alive().map(({ index }) => `sim${index}`);
        throw new NoDeviceError(
          `openDevice: no device '${name}'; there is ${names.slice(0, 8).join(', ') || 'none'}`,
        );
      }
      opened++;
      const tenant = options?.tenant ?? `context-${opened}`;
      const context: Context = {
        handle: 0,
        host: host.index,
        tenant,
        pds: new Set(),
        cqs: new Set(),
        channels: new Set(),
        xrcds: 0,
        listener: null,
        events: [],
      };
      context.handle = contexts.add(context);
      return context.handle;
    },
    closeDevice(handle) {
      const { pds, cqs, channels, xrcds } = contexts.require(handle, 'closeDevice');
      requireNoChildren('closeDevice', 'context', [
        [pds.size, 'protection domain'],
        [cqs.size, 'completion queue'],
        [channels.size, 'completion channel'],
        [xrcds, 'XRC domain'],
      ]);
      contexts.delete(handle);
    },
    queryDevice: (context) => deviceAttr(contexts.require(context, 'queryDevice').host),
    queryPort(context, portNum) {
      const { host } = contexts.require(context, 'queryPort');
      onlyPort('queryPort', portNum);
      return portAttr(world.hosts[host].linkUp && !world.hosts[host].dead, mtuCode(world.params.mtuBytes));
    },
    queryGid(context, portNum, index) {
      const { host } = contexts.require(context, 'queryGid');
      onlyPort('queryGid', portNum);
      requireInteger('queryGid', 'index', index, 0, LIMITS.gidTableLength - 1);
      // As on mlx5, one address twice: for RoCE v1 and for RoCE v2.
      const type = index === 0 ? 'RoCE v1' : 'RoCE v2';
      return { index, gid: index < 2 ? gidOf(host) : '::', type, ndevIfindex: 0 };
    },
  };
}

function ringVerbs(objects: Objects): Pick<Provider, 'createWrRing' | 'createWcRing' | 'destroyRing'> {
  const { wrRings, wcRings } = objects;
  return {
    createWrRing(capacity, sges, inlineBytes) {
      requireInteger('createWrRing', 'capacity', capacity, 1, LIMITS.ringCapacity);
      requireInteger('createWrRing', 'sges', sges, 0, LIMITS.maxSge);
      requireInteger('createWrRing', 'inlineBytes', inlineBytes, 0, 65536);
      const extBytes = extBytesFor(sges, inlineBytes);
      const memory = allocate('createWrRing', ringBytes(capacity, extBytes));
      return { handle: wrRings.add(new WrRing(memory, capacity, extBytes)), memory, capacity, extBytes };
    },
    createWcRing(capacity) {
      requireInteger('createWcRing', 'capacity', capacity, 1, LIMITS.ringCapacity);
      const memory = allocate('createWcRing', ringBytes(capacity, 0));
      const handle = wcRings.add({ capacity, words: new Uint32Array(memory) });
      return { handle, memory, capacity, extBytes: 0 };
    },
    destroyRing(handle) {
      const table = wcRings.get(handle) === undefined ? wrRings : wcRings;
      const ring = table.require(handle, 'destroyRing');
      table.delete(handle);
      detach(ring.words.buffer as ArrayBuffer);
    },
  };
}

function allocate(verb: string, bytes: number): ArrayBuffer {
  try {
    return new ArrayBuffer(bytes);
  } catch (cause) {
    throw new NoResourcesError(`${verb}: no memory for ${bytes} bytes`, { verb, errno: C.ENOMEM, cause });
  }
}

type DataVerbs = Pick<Provider, 'postSend' | 'postRecv' | 'validateSend' | 'pollCq'>;

function dataVerbs(driver: Driver, objects: Objects, waits: boolean): DataVerbs {
  const { qps, cqs, wrRings, wcRings } = objects;
  const { world } = driver.sim;
  return {
    postSend(qp, ring, start, count) {
      const to = qps.get(qp) ?? qps.require(qp, 'postSend');
      const from = wrRings.get(ring) ?? wrRings.require(ring, 'postSend');
      if (!inside(from, start, count)) return 0;
      const posted = postSend(world, to.qp, from, start, count, waits);
      driver.wake();
      return posted;
    },
    postRecv(qp, ring, start, count) {
      const to = qps.get(qp) ?? qps.require(qp, 'postRecv');
      const from = wrRings.get(ring) ?? wrRings.require(ring, 'postRecv');
      if (!inside(from, start, count)) return 0;
      const posted = postRecv(world, to.qp, from, start, count);
      driver.wake();
      return posted;
    },
    validateSend(qp, ring, index) {
      const to = qps.require(qp, 'validateSend');
      return validateSend(world, to.qp, wrRings.require(ring, 'validateSend'), index, waits);
    },
    pollCq(cq, ring, start, max) {
      const from = cqs.get(cq) ?? cqs.require(cq, 'pollCq');
      const to = wcRings.get(ring) ?? wcRings.require(ring, 'pollCq');
      if (!within(to.capacity, start, max)) {
        throw new InvalidArgumentError(
          `pollCq: start ${shown(start)} and max ${shown(max)} do not lie inside a ring of ${to.capacity} completions`,
          { verb: 'pollCq' },
        );
      }
      const n = from.cq.poll(to.words, start, max, world.qps);
      if (n > 0 || max === 0) return n;
      driver.miss(from.cq);
      return from.cq.poll(to.words, start, max, world.qps);
    },
  };
}
