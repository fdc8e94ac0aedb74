/** Runs a mixture of applications in virtual time. */
import { createFabric, type Fabric } from '../providers/sim/index.ts';
import { compose } from '../shim/compose.ts';
import { NOTICE_BYTES } from '../shim/peer/entries.ts';
import { Core } from '../sim/host/core.ts';
import { RandomStream } from '../sim/kernel/random.ts';
import { SHIM_COSTS } from '../sim/profile/params.ts';
import { ConfigError } from '../verbs/errors.ts';
import { durationText } from '../verbs/units.ts';
import { Coordinators } from './coordinators.ts';
import { DepartureRecorder } from './departure-recorder.ts';
import { Dispatcher } from './dispatcher.ts';
import { Answerer } from './endpoints/answerer.ts';
import { countArrivals } from './endpoints/arrivals.ts';
import { Caller } from './endpoints/caller.ts';
import { type Connection, Connector } from './endpoints/connector.ts';
import { Receiver } from './endpoints/receiver.ts';
import { startRegistrars } from './endpoints/registrar.ts';
import { Renewer } from './endpoints/renewer.ts';
import { Sender, type SenderMeters } from './endpoints/sender.ts';
import { brokenInvariants } from './invariants.ts';
import { LinkRecorder } from './link-recorder.ts';
import { Meter } from './meter.ts';
import { AppCosts } from './nics/costs.ts';
import { NicRecorder } from './nics/nic-recorder.ts';
import { posts } from './operations.ts';
import type { RunObserver } from './record/run-observer.ts';
import { type App, appsOf, coordinatorCostsOf, paramsOf } from './resolve.ts';
import type { AppResult, MixResult, QueuePairResult } from './result.ts';
import { Outages } from './script/outages.ts';
import { type RunningApp, ScriptRunner } from './script/runner.ts';
import { scriptOf } from './script/script.ts';
import { ShimCpu } from './shim-cpu.ts';
import { meanBytes } from './sizes.ts';
import type { MixSpec } from './spec.ts';
import { policyWords, Stacks } from './stacks.ts';
import { TimelineRecorder } from './timeline.ts';
import { WireCounter } from './wire-counter.ts';

/** Each application starts at a random time within this interval, so that they do not run in lockstep. */
const PHASE_NS = 1000;

/**
 * Runs a mix in virtual time, and returns what each application achieved. The same mix always gives the same result.
 * @param observers which see the run without changing it
 * @throws ConfigError for an impossible mix, or one that gives no samples
 */
export async function runMix(spec: MixSpec, observers: readonly RunObserver[] = []): Promise<MixResult> {
  try {
    return await run(spec, observers);
  } finally {
    for (const observer of observers) observer.end();
  }
}

async function run(spec: MixSpec, observers: readonly RunObserver[]): Promise<MixResult> {
  const params = paramsOf(spec);
  const costs = coordinatorCostsOf(spec);
  const script = scriptOf(spec, appsOf(spec, params), params);
  const { apps } = script;
  const { seed, hosts, payload, durationNs, warmupNs, timelinePoints = 0 } = spec;
  const stacks = new Stacks(spec, apps);
  const topology = spec.topology ?? (hosts === 2 ? 'cable' : 'star');
  // For SENDs, the shims of both ends read each other's memory, so its contents must be real.
  const moves = payload || (stacks.isShaped && apps.some((app) => posts(app, 'send')));
  const fabric = createFabric({ hosts, topology, profile: params, seed, payload: moves, inside: true });
  for (const observer of observers) observer.begin(fabric.simulation.world);
  // A shim announces a SEND that it delivers in pieces.
  const addedBytes = stacks.isShaped ? NOTICE_BYTES : 0;
  const cpu = new ShimCpu(fabric.simulation.world, spec.driver ?? 'inline', { ...SHIM_COSTS, ...spec.shim });
  const outages = new Outages(fabric.simulation.world);
  const devices =
    script.steps.length === 0 ? fabric.provider : compose(fabric.provider, [outages.interceptor()]);
  const dispatcher = new Dispatcher(fabric, stacks, cpu);
  const coordinators = new Coordinators(dispatcher, costs, hosts);
  stacks.compose(devices, cpu, coordinators, observers);
  const connector = new Connector(stacks, { mtuBytes: params.mtuBytes, seed }, apps);
  const departures = new DepartureRecorder(spec.departures ?? [], apps);
  const running = apps.map((app) => addApp(app, dispatcher, connector, { departures, observers }, spec));
  const meters = running.map(({ meter }) => meter);
  const { livenessNs } = costs;
  new ScriptRunner({ dispatcher, connector, outages, coordinators, apps: running, livenessNs }, script);
  const links = new LinkRecorder(dispatcher.world);
  const appCosts = new AppCosts(params, apps);
  const nics = spec.details ? new NicRecorder(dispatcher.world) : null;
  const recorder =
    timelinePoints === 0
      ? null
      : new TimelineRecorder(dispatcher, meters, { durationNs, points: timelinePoints, gauges: spec.gauges });
  await runUntil(fabric, warmupNs);
  links.open();
  nics?.open();
  await runUntil(fabric, durationNs);
  requireSamples(apps, meters, params.mtuBytes, spec);
  const states = stacks.policyStates();
  const coordinator = coordinators.result();
  return {
    profile: spec.profile,
    policy: policyWords(spec),
    seed,
    durationNs,
    warmupNs,
    events: dispatcher.world.eventCount[0],
    packets: dispatcher.world.packetCount[0],
    traceHash: fabric.traceHash(),
    apps: running.map(({ app, meter, wire }) => {
      const result = resultOf(app, meter, spec.details, wire);
      return { ...result, dominant: appCosts.dominantOf(app, result.throughputGbps) };
    }),
    links: links.results(),
    ...(nics !== null && { nics: nics.results() }),
    invariants: [
      ...fabric.brokenInvariants(),
      ...apps.flatMap((app, i) =>
        brokenInvariants(app, meters[i], addedBytes, stacks.hasLocks && sharesTenant(app, apps)),
      ),
    ],
    ...(coordinator !== undefined && { coordinator }),
    ...(states !== undefined && { policyStates: states }),
    ...(recorder !== null && { timeline: recorder.result(apps.map(({ name }) => name)) }),
    ...(spec.details && stacks.isShaped && { counters: stacks.counters() }),
    ...(spec.departures !== undefined && { departures: departures.results() }),
  };
}

/** Whether another application has the same tenant, and thus the same protection domain. */
const sharesTenant = (app: App, apps: readonly App[]) =>
  apps.some((other) => other !== app && other.tenant === app.tenant);

/** What records the packets of single queue pairs, and what sees everything. */
interface Recorders {
  readonly departures: DepartureRecorder;
  readonly observers: readonly RunObserver[];
}

/** Adds an application: its cores, its queue pairs, and its meter. */
function addApp(
  app: App,
  dispatcher: Dispatcher,
  connector: Connector,
  { departures, observers }: Recorders,
  spec: MixSpec,
): RunningApp & { readonly wire: WireCounter | null } {
  const openNs = Math.max(spec.warmupNs, app.startNs);
  const closeNs = Math.min(spec.durationNs, app.stopNs);
  const meter = new Meter(openNs, closeNs);
  const sendingCores = addCores(app, app.host, dispatcher, observers, spec);
  if (app.isRegistering)
    return addRegistrars(app, { dispatcher, connector, meter, sendingCores, openNs, closeNs }, spec);
  const receivingCores =
    posts(app, 'send') && app.receives > 0 ? addCores(app, app.to, dispatcher, observers, spec) : [];
  const wire = spec.details && WireCounter.counts(app) ? new WireCounter(openNs, closeNs) : null;
  const senders: Sender[] = [];
  const receivers: (Receiver | Answerer)[] = [];
  connector.connect(app).forEach((connection, i) => {
    const at = i % app.cores;
    const own = spec.details ? new Meter(openNs, closeNs) : null;
    if (own !== null) meter.parts.push(own);
    senders.push(addSender(app, dispatcher, connection, sendingCores[at], { all: meter, own }, spec.seed));
    for (const qp of [connection.qp, ...connection.pieceQps.atQp])
      dispatcher.cpu.assignCore(qp, connection.sender.ring, dispatcher.cores[sendingCores[at]]);
    if (connection.receiver !== null) {
      const receiver = receiverOf(app, dispatcher, connection, receivingCores[at]);
      receivers.push(receiver);
      dispatcher.addPoller(receiver, receivingCores[at], connection.receiver.cq);
    }
    for (const observer of observers) observer.connected?.(app.name, i, connection);
    departures.watch(app, i, connection, dispatcher.world);
    wire?.watch(app, connection, dispatcher.world);
    countArrivals(app, dispatcher, connection, { all: meter, own });
  });
  dispatcher.measure(meter, openNs, closeNs);
  if (app.renewal !== null) new Renewer(app, app.renewal, { dispatcher, connector, senders, meter }).start();
  return { app, meter, wire, senders, receivers };
}

/** Adds what replaces regions on the cores of an application that registers. */
function addRegistrars(
  app: App,
  parts: {
    readonly dispatcher: Dispatcher;
    readonly connector: Connector;
    readonly meter: Meter;
    readonly sendingCores: readonly number[];
    readonly openNs: number;
    readonly closeNs: number;
  },
  { seed }: MixSpec,
): RunningApp & { readonly wire: null } {
  const { dispatcher, connector, meter, sendingCores, openNs, closeNs } = parts;
  const cores = sendingCores.map((core) => dispatcher.cores[core]);
  const startNs = (thread: number) =>
    app.startNs + new RandomStream(seed, 'register', sendingCores[thread]).next() * PHASE_NS;
  dispatcher.measure(meter, openNs, closeNs);
  const receivers = startRegistrars(app, { dispatcher, connector, meter, cores }, startNs);
  return { app, meter, wire: null, senders: [], receivers };
}

/** What polls for the peer of an application with SENDs. */
function receiverOf(
  app: App,
  dispatcher: Dispatcher,
  { receiver, reply, peer }: Connection,
  core: number,
): Receiver | Answerer {
  if (receiver === null) throw new Error(`${app.name}: its peer does not receive`);
  const { provider } = dispatcher.stacks.of(app.to);
  if (reply === null) return new Receiver(provider, receiver, dispatcher.cores[core]);
  dispatcher.cpu.assignCore(peer, reply.responses.ring, dispatcher.cores[core]);
  return new Answerer(dispatcher, provider, receiver, reply.responses, dispatcher.cores[core]);
}

/** Adds cores, and returns their numbers. */
function addCores(
  app: App,
  host: number,
  dispatcher: Dispatcher,
  observers: readonly RunObserver[],
  spec: MixSpec,
): number[] {
  const { world, stacks, cores } = dispatcher;
  const { interceptors } = stacks.of(host);
  return Array.from({ length: app.cores }, () => {
    const id = cores.length;
    const core = new Core(world, id, spec.seed, interceptors);
    dispatcher.addCore(core, host);
    for (const observer of observers) observer.coreAdded?.(core, host, app.name);
    return id;
  });
}

function addSender(
  app: App,
  dispatcher: Dispatcher,
  { sender: device, reply }: Connection,
  core: number,
  meters: SenderMeters,
  seed: number,
): Sender {
  const id = dispatcher.pollers.length;
  const random = {
    thinkTimes: new RandomStream(seed, 'think', id),
    // Sizes and operations do not depend on the seed.
    sizes: new RandomStream(0, 'size', id),
    operations: new RandomStream(0, 'op', id),
  };
  const parts = [dispatcher, id, app, device, dispatcher.cores[core], meters, random] as const;
  const sender = reply === null ? new Sender(...parts) : new Caller(reply.receives, ...parts);
  dispatcher.addPoller(sender, core, device.cq);
  dispatcher.startAt(app.startNs + new RandomStream(seed, 'phase', id).next() * PHASE_NS, id);
  return sender;
}

/**
 * Runs up to a time. Whenever a policy awaits the simulated clock, its continuation runs before time advances further.
 */
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
  // SENDs without receives never complete, which is a result.
  if (apps.every((app) => app.receives === 0)) return;
  const names = apps.length === 1 ? `app ${apps[0].name}` : 'no app';
  const did = apps.length === 1 ? 'completed nothing' : 'completed anything';
  throw new ConfigError(
    `a duration of ${durationText(spec.durationNs)} gives no samples: ${names} ${did} after the warm-up of ${durationText(spec.warmupNs)}`,
  );
}

/**
 * @param hasDetails whether the result has percentile 80 and each queue pair
 * @param wire what the application put on the wire, if that was counted
 */
export function resultOf(
  app: App,
  meter: Meter,
  hasDetails = false,
  wire: WireCounter | null = null,
): AppResult {
  return {
    name: app.name,
    kind: app.kind,
    tenant: app.tenant,
    qps: app.qps,
    messageBytes: meanBytes(app),
    ...measured(meter, hasDetails),
    ...(wire !== null && { wireGbps: wire.gbps }),
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
