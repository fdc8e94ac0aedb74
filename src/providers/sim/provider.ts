/** The Provider on a simulation: handles, argument checks and ownership. The device itself is src/sim. */

import { postRecv, postSend, validateSend, WrRing } from '../../sim/queues/post.ts';
import type { ConnectionManager } from '../../verbs/connection-manager.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, NoResourcesError, shown } from '../../verbs/errors.ts';
import { extBytesFor, ringBytes, within } from '../../verbs/layout.ts';
import type { Provider, Rendezvous } from '../../verbs/provider.ts';
import { type LabelHooks, labelVerbs } from '../labels.ts';
import { type HostNames, simNames } from './addresses.ts';
import { ahVerbs } from './ah-verbs.ts';
import { inside, requireInteger } from './arguments.ts';
import type { SimRendezvous } from './cm/rendezvous.ts';
import { cqVerbs } from './cq-verbs.ts';
import { deviceQueries, deviceVerbs } from './device-verbs.ts';
import { asyncVerbs, channelVerbs } from './event-verbs.ts';
import { LIMITS, nicFacts } from './limits.ts';
import { mrChanges, mrVerbs, mwVerbs, pdVerbs } from './memory-verbs.ts';
import { detach, Objects } from './objects.ts';
import { qpVerbs } from './qp-verbs.ts';
import { rateVerbs } from './rate-verbs.ts';
import { srqVerbs, xrcdVerbs } from './srq-verbs.ts';
import type { TimePump } from './time-pump.ts';

export interface BuiltProvider {
  provider: Provider;
  objects: Objects;
}

/** How programs on different hosts find each other. */
export interface Managers {
  /** Contexts are given as numbers of their hosts. */
  rendezvous: Pick<SimRendezvous, 'listen' | 'connect'> | Rendezvous;
  cm: ConnectionManager | null;
  /** Why there is no connection manager. */
  cmError?: string;
}

export function buildProvider(
  pump: TimePump,
  managers: Managers,
  waits: boolean,
  names: HostNames = simNames(pump.sim.world.hosts.length),
): BuiltProvider {
  const { rendezvous, cm, cmError = null } = managers;
  const objects = new Objects();
  hookObjects(pump, objects);
  const hostOf = (context: number, verb: string) => objects.contexts.require(context, verb).host;
  const devices = deviceVerbs(pump, objects, names);
  const domains = pdVerbs(objects);
  const xrcDomains = xrcdVerbs(objects);
  const queuePairs = qpVerbs(pump, objects, names);
  const provider: Provider = {
    name: names.provider,
    threads: 'one',
    wait: waits ? 'simulated' : 'none',
    describeWait: () =>
      waits
        ? 'WAIT and ENABLE are executed by the simulated device'
        : 'WAIT and ENABLE are emulated under the policies that need them; this fabric was created without them',
    describeNic: (context) => {
      hostOf(context, 'describeNic');
      return nicFacts(pump.sim.world.params, waits);
    },
    interceptors: [],
    cm,
    cmError,
    ...devices,
    ...asyncVerbs(pump, objects),
    ...deviceQueries(pump, objects),
    ...domains,
    ...mrVerbs(pump, objects),
    ...mrChanges(pump, objects),
    ...mwVerbs(pump, objects),
    ...channelVerbs(pump, objects),
    ...cqVerbs(pump, objects),
    ...rateVerbs(pump, objects),
    ...ahVerbs(pump, objects, names),
    ...xrcDomains,
    ...srqVerbs(pump, objects),
    ...ringVerbs(objects),
    ...dataVerbs(pump, objects, waits),
    ...queuePairs,
    ...labelVerbs({
      ...devices,
      allocPd: domains.allocPd,
      openXrcd: xrcDomains.openXrcd,
      ...queuePairs,
      requireContext: hostOf,
      requireQp: (qp) => objects.qps.require(qp, 'modifyQp'),
      ...weightHooks(pump, objects),
    }),
    nowNs: () => pump.nowNs,
    sleep: (_context, delayNs, keeps) => {
      const delay = Math.max(0, delayNs);
      return keeps === 'nothing' ? pump.sleepInBackground(delay) : pump.sleep(delay);
    },
    createAlarm: (_context, keeps, listener) => pump.createAlarm(keeps, listener),
    completionsKept: (cq) => letPoll(pump, objects, cq),
    rendezvous: {
      listen: async (context, options, onWire) =>
        rendezvous.listen(hostOf(context, 'listen'), options, onWire),
      connect: async (context, options) => rendezvous.connect(hostOf(context, 'connect'), options),
    },
  };
  return { provider: Object.freeze(provider), objects };
}

/** Lets the simulation find objects by the handles in work requests. */
function hookObjects({ sim }: TimePump, objects: Objects): void {
  const { hooks } = sim.world;
  hooks.cqOf = (handle) => objects.cqs.get(handle)?.cq;
  hooks.qpOf = (handle) => objects.qps.get(handle)?.qp;
  hooks.windowOf = (handle) => objects.mws.get(handle)?.window;
  hooks.regionOf = (handle) => objects.mrs.get(handle)?.region;
}

/** Lets the simulated program that polls a CQ do so. */
function letPoll({ sim }: TimePump, { cqs }: Objects, handle: number): void {
  const actor = cqs.get(handle)?.cq.actor ?? -1;
  if (actor >= 0) sim.world.hooks.actor(actor, 0);
}

/** Takes labels to the tables of NICs that schedule by weight. */
function weightHooks(pump: TimePump, { contexts, qps }: Objects): LabelHooks {
  const { hosts } = pump.sim.world;
  // A context without a tenant's name is a tenant of its own. It may have been closed already.
  const tenantOf = (context: number) => contexts.get(context)?.tenant || `#${context}`;
  const weightsAt = (context: number) => {
    const host = contexts.get(context)?.host;
    return host === undefined ? null : hosts[host].weights;
  };
  return {
    onLabels: (handle, context, labels) => {
      const qp = qps.get(handle)?.qp;
      if (qp !== undefined) hosts[qp.host].weights?.setLabels(qp, tenantOf(context), labels);
    },
    onWeight: (context, weight) => weightsAt(context)?.setTenantWeight(tenantOf(context), weight),
    onGroup: (context, name, weight) => weightsAt(context)?.setGroupWeight(tenantOf(context), name, weight),
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
    throw new NoResourcesError(`${verb}: cannot allocate ${bytes} bytes`, { verb, errno: C.ENOMEM, cause });
  }
}

type DataVerbs = Pick<Provider, 'postSend' | 'postRecv' | 'validateSend' | 'pollCq'>;

function dataVerbs(pump: TimePump, objects: Objects, waits: boolean): DataVerbs {
  const { qps, cqs, wrRings, wcRings } = objects;
  const { world } = pump.sim;
  return {
    postSend(qp, ring, start, count) {
      const to = qps.get(qp) ?? qps.require(qp, 'postSend');
      const from = wrRings.get(ring) ?? wrRings.require(ring, 'postSend');
      if (!inside(from, start, count)) return 0;
      const posted = postSend(world, to.qp, from, start, count, waits);
      pump.start();
      return posted;
    },
    postRecv(qp, ring, start, count) {
      const to = qps.get(qp) ?? qps.require(qp, 'postRecv');
      const from = wrRings.get(ring) ?? wrRings.require(ring, 'postRecv');
      if (!inside(from, start, count)) return 0;
      const posted = postRecv(world, to.qp, from, start, count);
      pump.start();
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
      pump.pollMissed(from.cq);
      return from.cq.poll(to.words, start, max, world.qps);
    },
  };
}
