/** Runs a mixture of applications in virtual time. */
import { z } from 'zod';
import { drivenBy } from '../drivers/index.ts';
import { policies } from '../policies/index.ts';
import { createFabric, type Fabric } from '../providers/sim/index.ts';
import { compose, type Interceptor } from '../shim/compose.ts';
import { Core } from '../sim/host/core.ts';
import { RandomStream } from '../sim/kernel/random.ts';
import { SHIM_COSTS } from '../sim/profile/params.ts';
import { ConfigError } from '../verbs/errors.ts';
import { brokenPromises } from './checks.ts';
import { type Connection, Connector } from './connect.ts';
import { Links } from './links.ts';
import { Meter } from './meter.ts';
import { Receiver } from './receiver.ts';
import { type App, appsOf, paramsOf } from './resolve.ts';
import type { AppResult, MixResult } from './result.ts';
import { Sender } from './sender.ts';
import { ShimCpu } from './shim-cpu.ts';
import type { MixSpec } from './spec.ts';
import { Stage } from './stage.ts';
import { TimelineRecorder } from './timeline.ts';

/** Applications begin at random within this time of their start, so that they do not march in step. */
const PHASE_NS = 1000;

/**
 * Runs a mix and tells what its applications got. The same mix gives the same result, always.
 * @throws ConfigError for a mix that cannot be, or that gives no samples
 */
export async function runMix(spec: MixSpec): Promise<MixResult> {
  const params = paramsOf(spec);
  const apps = appsOf(spec, params);
  const { seed, hosts, payload, durationNs, warmupNs, timelinePoints = 0 } = spec;
  const interceptors = interceptorsOf(spec, apps);
  const topology = spec.topology ?? (hosts === 2 ? 'cable' : 'star');
  // Two shims read in each other's memory where SENDs may go: that must be there.
  const moves = payload || (interceptors.length > 0 && apps.some(({ op }) => op === 'send'));
  const fabric = createFabric({ hosts, topology, profile: params, seed, payload: moves, inside: true });
  const cpu = new ShimCpu(fabric.simulation.world, spec.driver ?? 'inline', { ...SHIM_COSTS, ...spec.shim });
  const provider = compose(
    fabric.provider,
    interceptors.length === 0 ? [] : [...interceptors, cpu.interceptor()],
  );
  const stage = new Stage(fabric, provider, { interceptors: interceptors.length, cpu });
  const connector = new Connector(stage.provider, params.mtuBytes, apps);
  const meters = apps.map((app) => engage(app, stage, connector, spec));
  const links = new Links(stage.world);
  const recorder =
    timelinePoints === 0 ? null : new TimelineRecorder(stage, meters, durationNs, timelinePoints);
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
    events: stage.world.eventCount[0],
    packets: stage.world.packetCount[0],
    traceHash: fabric.traceHash(),
    apps: apps.map((app, i) => resultOf(app, meters[i])),
    links: links.results(),
    invariants: [...fabric.brokenInvariants(), ...apps.flatMap((app, i) => brokenPromises(app, meters[i]))],
    ...(provider.policyStates !== undefined && { policyStates: provider.policyStates() }),
    ...(recorder !== null && { timeline: recorder.result(apps.map(({ name }) => name)) }),
  };
}

/**
 * The policy of a mix. Time and CPU of a worker are modelled (shim-cpu.ts): the policy itself runs here in any case.
 * @throws ConfigError for an option that it has not
 */
export function interceptorsOf(spec: MixSpec, apps: readonly App[]): Interceptor[] {
  if (spec.policy === 'none') return [];
  return drivenBy('inline', [{ name: spec.policy, options: optionsOf(spec, apps) }]);
}

/** Policies that know of weights get those of the applications' tenants, unless the mix says others. */
export function optionsOf(
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

/** Puts an application on the stage: its cores, its queue pairs, and the meter of what it gets. */
function engage(app: App, stage: Stage, connector: Connector, spec: MixSpec): Meter {
  const openNs = Math.max(spec.warmupNs, app.startNs);
  const closeNs = Math.min(spec.durationNs, app.stopNs);
  const meter = new Meter(openNs, closeNs);
  const senders = addCores(app.cores, stage, spec);
  const receivers = app.op === 'send' ? addCores(app.cores, stage, spec) : [];
  connector.connect(app).forEach((connection, i) => {
    const at = i % app.cores;
    addSender(app, stage, connection, senders[at], meter, spec.seed);
    stage.cpu.own(connection.qp, connection.sender.ring, stage.cores[senders[at]]);
    if (connection.receiver !== null) {
      const receiver = new Receiver(stage.provider, connection.receiver, stage.cores[receivers[at]]);
      stage.addPoller(receiver, receivers[at], connection.receiver.cq);
    }
    // A READ's or atomic's payload comes back.
    const counted = app.op === 'read' || app.op === 'atomic' ? connection.qp : connection.peer;
    const qp = stage.world.hooks.qpOf(counted);
    if (qp !== undefined) meter.counted.push(qp);
  });
  stage.measure(meter, openNs, closeNs);
  return meter;
}

/** New cores; returns their numbers. */
function addCores(count: number, stage: Stage, spec: MixSpec): number[] {
  const { world, interceptors, cores } = stage;
  return Array.from({ length: count }, () => {
    const id = cores.length;
    stage.addCore(new Core(world, id, spec.seed, interceptors));
    return id;
  });
}

function addSender(
  app: App,
  stage: Stage,
  { sender: device }: Connection,
  core: number,
  meter: Meter,
  seed: number,
): void {
  const id = stage.pollers.length;
  const random = {
    thinking: new RandomStream(seed, 'think', id),
    // The seed drives no sizes.
    sizing: new RandomStream(0, 'size', id),
  };
  stage.addPoller(new Sender(stage, id, app, device, stage.cores[core], meter, random), core, device.cq);
  stage.beginAt(app.startNs + new RandomStream(seed, 'phase', id).next() * PHASE_NS, id);
}

/** Policies may await the simulated clock; what they do then is done before time goes on. */
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
