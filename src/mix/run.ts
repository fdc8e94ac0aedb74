/** Runs a mixture of applications in virtual time. */
import { createFabric, type Fabric } from '../providers/sim/index.ts';
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
import type { AppResult, MixResult, QueuePairResult } from './result.ts';
import { Sender } from './sender.ts';
import { ShimCpu } from './shim-cpu.ts';
import { meanBytes } from './sizes.ts';
import type { MixSpec } from './spec.ts';
import { policyNames, Stacks } from './stacks.ts';
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
  const stacks = new Stacks(spec, apps);
  const topology = spec.topology ?? (hosts === 2 ? 'cable' : 'star');
  // For SENDs, the shims of both ends read each other's memory, so its contents must be real.
  const moves = payload || (stacks.isShaped && apps.some(({ op }) => op === 'send'));
  const fabric = createFabric({ hosts, topology, profile: params, seed, payload: moves, inside: true });
  // A shim announces a SEND that it delivers in pieces.
  const addedBytes = stacks.isShaped ? NOTICE_BYTES : 0;
  const cpu = new ShimCpu(fabric.simulation.world, spec.driver ?? 'inline', { ...SHIM_COSTS, ...spec.shim });
  stacks.compose(fabric.provider, hosts, cpu);
  const dispatcher = new Dispatcher(fabric, stacks, cpu);
  const connector = new Connector(stacks, params.mtuBytes, apps);
  const meters = apps.map((app) => addApp(app, dispatcher, connector, spec));
  const links = new LinkRecorder(dispatcher.world);
  const recorder =
    timelinePoints === 0 ? null : new TimelineRecorder(dispatcher, meters, durationNs, timelinePoints);
  await runUntil(fabric, warmupNs);
  links.open();
  await runUntil(fabric, durationNs);
  requireSamples(apps, meters, params.mtuBytes, spec);
  const states = stacks.policyStates();
  return {
    profile: spec.profile,
    policy: policyNames(spec),
    seed,
    durationNs,
    warmupNs,
    events: dispatcher.world.eventCount[0],
    packets: dispatcher.world.packetCount[0],
    traceHash: fabric.traceHash(),
    apps: apps.map((app, i) => resultOf(app, meters[i], spec.details)),
    links: links.results(),
    invariants: [
      ...fabric.brokenInvariants(),
      ...apps.flatMap((app, i) => brokenInvariants(app, meters[i], addedBytes)),
    ],
    ...(states !== undefined && { policyStates: states }),
    ...(recorder !== null && { timeline: recorder.result(apps.map(({ name }) => name)) }),
  };
}

/** Adds an application: its cores, its queue pairs, and its meter. */
function addApp(app: App, dispatcher: Dispatcher, connector: Connector, spec: MixSpec): Meter {
  const openNs = Math.max(spec.warmupNs, app.startNs);
  const closeNs = Math.min(spec.durationNs, app.stopNs);
  const meter = new Meter(openNs, closeNs);
  const senders = addCores(app.cores, app.host, dispatcher, spec);
  const receivers = app.op === 'send' ? addCores(app.cores, app.to, dispatcher, spec) : [];
  connector.connect(app).forEach((connection, i) => {
    const at = i % app.cores;
    const own = spec.details ? new Meter(openNs, closeNs) : null;
    if (own !== null) meter.parts.push(own);
    addSender(app, dispatcher, connection, senders[at], { all: meter, own }, spec.seed);
    dispatcher.cpu.assignCore(connection.qp, connection.sender.ring, dispatcher.cores[senders[at]]);
    if (connection.receiver !== null) {
      const receiver = new Receiver(
        dispatcher.stacks.of(app.to).provider,
        connection.receiver,
        dispatcher.cores[receivers[at]],
      );
      dispatcher.addPoller(receiver, receivers[at], connection.receiver.cq);
    }
    // The payload of a READ or atomic arrives at the requester.
    const counted = app.op === 'read' || app.op === 'atomic' ? connection.qp : connection.peer;
    const qp = dispatcher.world.hooks.qpOf(counted);
    if (qp === undefined) return;
    meter.receivingQps.push(qp);
    own?.receivingQps.push(qp);
  });
  dispatcher.measure(meter, openNs, closeNs);
  return meter;
}

/** Adds cores, and returns their numbers. */
function addCores(count: number, host: number, dispatcher: Dispatcher, spec: MixSpec): number[] {
  const { world, stacks, cores } = dispatcher;
  const { interceptors } = stacks.of(host);
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
  meters: { all: Meter; own: Meter | null },
  seed: number,
): void {
  const id = dispatcher.pollers.length;
  const random = {
    thinkTimes: new RandomStream(seed, 'think', id),
    // Sizes do not depend on the seed.
    sizes: new RandomStream(0, 'size', id),
  };
  dispatcher.addPoller(
    new Sender(dispatcher, id, app, device, dispatcher.cores[core], meters, random),
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

/** @param hasDetails whether it has percentile 80 and each queue pair */
export function resultOf(app: App, meter: Meter, hasDetails = false): AppResult {
  return {
    name: app.name,
    kind: app.kind,
    tenant: app.tenant,
    qps: app.qps,
    messageBytes: meanBytes(app),
    ...measured(meter, hasDetails),
    ...(hasDetails && { queuePairs: meter.parts.map((part) => measured(part, true)) }),
  };
}

function measured(meter: Meter, hasP80: boolean): QueuePairResult {
  const { windowNs } = meter;
  return {
    throughputGbps: (meter.windowBytes * 8) / windowNs,
    messageRateMmps: (meter.windowCompleted * 1000) / windowNs,
    latencyUs: meter.latencyUs(hasP80),
    completed: meter.windowCompleted,
    errors: meter.errors,
  };
}
