/** Runs a mixture of applications in virtual time. */
import { z } from 'zod';
import { policyInterceptors } from '../drivers/index.ts';
import { policies } from '../policies/index.ts';
import { createFabric, type Fabric } from '../providers/sim/index.ts';
import { compose, type Interceptor } from '../shim/compose.ts';
import { NOTICE_BYTES } from '../shim/peer/entries.ts';
import { Core } from '../sim/host/core.ts';
import { RandomStream } from '../sim/kernel/random.ts';
import { SHIM_COSTS } from '../sim/profile/params.ts';
import { ConfigError } from '../verbs/errors.ts';
import { type Connection, Connector } from './connector.ts';
import { Dispatcher } from './dispatcher.ts';
import { brokenInvariants } from './invariants.ts';
import { LinkRecorder } from './link-recorder.ts';
import { Meter } from './meter.ts';
import { Receiver } from './receiver.ts';
import { type App, appsOf, paramsOf } from './resolve.ts';
import type { AppResult, MixResult } from './result.ts';
import { Sender } from './sender.ts';
import { ShimCpu } from './shim-cpu.ts';
import type { MixSpec } from './spec.ts';
import { TimelineRecorder } from './timeline.ts';

/** Each application starts at a random time within this interval, so that they do not run in lockstep. */
const PHASE_NS = 1000;

/**
 * Runs a mix in virtual time, and returns what each application achieved. The same mix always gives the same result.
 * @throws ConfigError for an impossible mix, or one that gives no samples
 */
export async function runMix(spec: MixSpec): Promise<MixResult> {
  const params = paramsOf(spec);
  const apps = appsOf(spec, params);
  const { seed, hosts, payload, durationNs, warmupNs, timelinePoints = 0 } = spec;
  const interceptors = interceptorsOf(spec, apps);
  const topology = spec.topology ?? (hosts === 2 ? 'cable' : 'star');
  // For SENDs, the shims of both ends read each other's memory, so its contents must be real.
  const moves = payload || (interceptors.length > 0 && apps.some(({ op }) => op === 'send'));
  const fabric = createFabric({ hosts, topology, profile: params, seed, payload: moves, inside: true });
  // A shim announces a SEND that it delivers in pieces.
  const addedBytes = interceptors.length > 0 ? NOTICE_BYTES : 0;
  const cpu = new ShimCpu(fabric.simulation.world, spec.driver ?? 'inline', { ...SHIM_COSTS, ...spec.shim });
  const provider = compose(
    fabric.provider,
    interceptors.length === 0 ? [] : [...interceptors, cpu.interceptor()],
  );
  const dispatcher = new Dispatcher(fabric, provider, { interceptors: interceptors.length, cpu });
  const connector = new Connector(dispatcher.provider, params.mtuBytes, apps);
  const meters = apps.map((app) => addApp(app, dispatcher, connector, spec));
  const links = new LinkRecorder(dispatcher.world);
  const recorder =
    timelinePoints === 0 ? null : new TimelineRecorder(dispatcher, meters, durationNs, timelinePoints);
  await runUntil(fabric, warmupNs);
  links.open();
  await runUntil(fabric, durationNs);
  requireSamples(apps, meters, params.mtuBytes, spec);
  return {
    profile: spec.profile,
    policy: spec.policy,
    seed,
    durationNs,
    warmupNs,
    events: dispatcher.world.eventCount[0],
    packets: dispatcher.world.packetCount[0],
    traceHash: fabric.traceHash(),
    apps: apps.map((app, i) => resultOf(app, meters[i])),
    links: links.results(),
    invariants: [
      ...fabric.brokenInvariants(),
      ...apps.flatMap((app, i) => brokenInvariants(app, meters[i], addedBytes)),
    ],
    ...(provider.policyStates !== undefined && { policyStates: provider.policyStates() }),
    ...(recorder !== null && { timeline: recorder.result(apps.map(({ name }) => name)) }),
  };
}

/**
 * The interceptors of the mix's policy. They always run inline: shim-cpu.ts models the CPU and delay of a worker.
 * @throws ConfigError for an unknown option
 */
export function interceptorsOf(spec: MixSpec, apps: readonly App[]): Interceptor[] {
  if (spec.policy === 'none') return [];
  return policyInterceptors('inline', [{ name: spec.policy, options: policyOptionsOf(spec, apps) }]);
}

/** The options of the mix's policy. A policy with `weights` gets those of the applications' tenants by default. */
export function policyOptionsOf(
  { policy, policyOptions = {} }: Pick<MixSpec, 'policy' | 'policyOptions'>,
  apps: readonly App[],
): Record<string, unknown> {
  const schema = policies[policy]?.options;
  const knows = schema instanceof z.ZodObject && 'weights' in schema.shape;
  if (!knows || 'weights' in policyOptions || apps.every(({ weight }) => weight === 1)) {
    return { ...policyOptions };
  }
  const weights: Record<string, number> = {};
  for (const { tenant, weight } of apps) weights[tenant] = Math.max(weight, weights[tenant] ?? 0);
  return { ...policyOptions, weights };
}

/** Adds an application: its cores, its queue pairs, and its meter. */
function addApp(app: App, dispatcher: Dispatcher, connector: Connector, spec: MixSpec): Meter {
  const openNs = Math.max(spec.warmupNs, app.startNs);
  const closeNs = Math.min(spec.durationNs, app.stopNs);
  const meter = new Meter(openNs, closeNs);
  const senders = addCores(app.cores, dispatcher, spec);
  const receivers = app.op === 'send' ? addCores(app.cores, dispatcher, spec) : [];
  connector.connect(app).forEach((connection, i) => {
    const at = i % app.cores;
    addSender(app, dispatcher, connection, senders[at], meter, spec.seed);
    dispatcher.cpu.assignCore(connection.qp, connection.sender.ring, dispatcher.cores[senders[at]]);
    if (connection.receiver !== null) {
      const receiver = new Receiver(
        dispatcher.provider,
        connection.receiver,
        dispatcher.cores[receivers[at]],
      );
      dispatcher.addPoller(receiver, receivers[at], connection.receiver.cq);
    }
    // The payload of a READ or atomic arrives at the requester.
    const counted = app.op === 'read' || app.op === 'atomic' ? connection.qp : connection.peer;
    const qp = dispatcher.world.hooks.qpOf(counted);
    if (qp !== undefined) meter.receivingQps.push(qp);
  });
  dispatcher.measure(meter, openNs, closeNs);
  return meter;
}

/** Adds cores, and returns their numbers. */
function addCores(count: number, dispatcher: Dispatcher, spec: MixSpec): number[] {
  const { world, interceptors, cores } = dispatcher;
  return Array.from({ length: count }, () => {
    const id = cores.length;
    dispatcher.addCore(new Core(world, id, spec.seed, interceptors));
    return id;
  });
}

function addSender(
  app: App,
  dispatcher: Dispatcher,
  { sender: device }: Connection,
  core: number,
  meter: Meter,
  seed: number,
): void {
  const id = dispatcher.pollers.length;
  const random = {
    thinkTimes: new RandomStream(seed, 'think', id),
    // Sizes do not depend on the seed.
    sizes: new RandomStream(0, 'size', id),
  };
  dispatcher.addPoller(
    new Sender(dispatcher, id, app, device, dispatcher.cores[core], meter, random),
    core,
    device.cq,
  );
  dispatcher.startAt(app.startNs + new RandomStream(seed, 'phase', id).next() * PHASE_NS, id);
}

/** Runs up to a time. Whenever a policy awaits the simulated clock, its continuation runs before time goes on. */
async function runUntil(fabric: Fabric, timeNs: number): Promise<void> {
  while (!fabric.runInside(timeNs)) await new Promise<void>((resolve) => setImmediate(resolve));
}

function requireSamples(
  apps: readonly App[],
  meters: readonly Meter[],
  mtuBytes: number,
  spec: MixSpec,
): void {
  if (meters.some((meter) => meter.windowCompleted > 0 || meter.windowBytes >= mtuBytes)) return;
  const names = apps.length === 1 ? `app ${apps[0].name}` : 'no app';
  const did = apps.length === 1 ? 'completed nothing' : 'completed anything';
  throw new ConfigError(
    `a duration of ${spec.durationNs} ns gives no samples: ${names} ${did} after the warm-up of ${spec.warmupNs} ns`,
  );
}

export function resultOf(app: App, meter: Meter): AppResult {
  const { windowNs } = meter;
  return {
    name: app.name,
    kind: app.kind,
    tenant: app.tenant,
    qps: app.qps,
    messageBytes: (app.minBytes + app.maxBytes) / 2,
    throughputGbps: (meter.windowBytes * 8) / windowNs,
    messageRateMmps: (meter.windowCompleted * 1000) / windowNs,
    latencyUs: meter.latencyUs(),
    completed: meter.windowCompleted,
    errors: meter.errors,
  };
}
