/** Runs a mixture of applications on real devices, each in its own thread. */
import { Worker } from 'node:worker_threads';
import { coordinatorMemory } from '../../policies/index.ts';
import { ConfigError, NoDeviceError } from '../../verbs/errors.ts';
import { mtuBytes } from '../../verbs/index.ts';
import type { Provider } from '../../verbs/provider.ts';
import { durationText } from '../../verbs/units.ts';
import { type App, appsOf, type DeviceLimits } from '../resolve.ts';
import { policyOptionsOf, policyWords } from '../stacks.ts';
import type { LiveOutcome } from './app.ts';
import { GATE_BYTES, type Job, type WorkerMessage } from './protocol.ts';
import { liveDevices, liveProvider } from './provider.ts';
import { type LiveResult, type LiveSpec, messageBuffersOf, requireLiveKeys } from './spec.ts';

/** Inline limit to try, as perftest does: no verb reports it before a queue pair exists. */
const INLINE_BYTES = 220;
/** The time from when all threads are ready until time 0 of the run. */
const START_DELAY_NS = 20_000_000n;

/**
 * Runs a mix on real devices, and returns what each application achieved. The policies of all threads share one
 * coordinator per device.
 * @throws ConfigError for an impossible mix, or one that gives no samples
 * @throws NoDeviceError for a missing device; it names the existing ones
 */
export async function runLive(spec: LiveSpec): Promise<LiveResult> {
  const { full, apps } = resolvedLive(spec);
  return liveResultOf(full, await runThreads(apps, full));
}

/** The specification with its devices, and its applications. @throws ConfigError, NoDeviceError as runLive does */
export function resolvedLive(spec: LiveSpec): { readonly full: LiveSpec; readonly apps: readonly App[] } {
  const full = { ...spec, devices: devicesOf(spec) };
  return { full, apps: checkedApps(full) };
}

/** The result of a run. @throws ConfigError if it gave no samples */
export function liveResultOf(spec: LiveSpec, outcomes: readonly LiveOutcome[]): LiveResult {
  const { devices, policy, seed, durationNs, warmupNs } = spec;
  if (outcomes.every(({ result }) => result.completed === 0 && result.errors === 0)) {
    throw new ConfigError(`a duration of ${durationText(durationNs)} gives no samples: nothing completed`);
  }
  const states = outcomes.flatMap((outcome) => outcome.states);
  return {
    profile: devices.join(', '),
    policy: policyWords(spec),
    seed,
    durationNs,
    warmupNs,
    apps: outcomes.map(({ result }) => result),
    links: [],
    verified: outcomes.reduce((sum, { verified }) => sum + verified, 0),
    invariants: outcomes.flatMap(({ broken }) => broken),
    ...(policy !== 'none' && { policyStates: states }),
  };
}

/** The devices of a specification; default: the first one. @throws NoDeviceError for a missing device */
export function devicesOf(spec: Pick<LiveSpec, 'provider' | 'devices'>): readonly string[] {
  const there = liveDevices(spec);
  const names = spec.devices.length > 0 ? spec.devices : there.slice(0, 1);
  const missing = names.find((name) => !there.includes(name));
  if (names.length > 0 && missing === undefined) return names;
  const which = missing === undefined ? 'no real device' : `no real device '${missing}'`;
  const none = missing === undefined ? '' : '; none is available';
  const known = there.length === 0 ? none : `; available: ${there.join(', ')}`;
  throw new NoDeviceError(`${which}${known}. \`isoverbs devices\` reports what is missing`);
}

function checkedApps(spec: LiveSpec): App[] {
  requireLiveKeys(spec.apps);
  const hosts = Math.max(2, spec.devices.length);
  const limits = commonLimitsOf(liveProvider(spec), spec.devices);
  const apps = appsOf({ ...spec, profile: '', set: {}, hosts }, limits);
  for (const app of apps) {
    if (app.opDraw !== null || app.replyBytes > 0) {
      throw new ConfigError(`app ${app.name}: several operations and reply are for simulated devices`);
    }
    messageBuffersOf(app);
  }
  return apps;
}

/** The capabilities that all of the devices have. */
function commonLimitsOf(provider: Provider, devices: readonly string[]): DeviceLimits {
  const ports = devices.map((name) => {
    const context = provider.openDevice(name);
    try {
      return provider.queryPort(context, 1);
    } finally {
      provider.closeDevice(context);
    }
  });
  return {
    linkGbps: Number.POSITIVE_INFINITY,
    mtuBytes: Math.min(...ports.map(({ activeMtu }) => mtuBytes(activeMtu))),
    inlineMaxBytes: INLINE_BYTES,
    // Setting a rate limit reports whether the device supports it.
    rateLimiters: Number.POSITIVE_INFINITY,
  };
}

async function runThreads(apps: readonly App[], spec: LiveSpec): Promise<LiveOutcome[]> {
  const gate = new SharedArrayBuffer(GATE_BYTES);
  const coordinators = spec.devices.map((device) => [device, coordinatorMemory()] as const);
  const policyOptions = policyOptionsOf(spec, apps);
  const threads = apps.map((app) => new AppThread({ app, spec, policyOptions, coordinators, gate }));
  try {
    await Promise.all(threads.map(({ ready }) => ready));
    new BigInt64Array(gate)[1] = process.hrtime.bigint() + START_DELAY_NS;
    Atomics.store(new Int32Array(gate), 0, 1);
    Atomics.notify(new Int32Array(gate), 0);
    return await Promise.all(threads.map(({ done }) => done));
  } finally {
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }
}

/** One application's thread. If it dies, the whole run fails. */
class AppThread {
  readonly worker: Worker;
  readonly ready: Promise<void>;
  readonly done: Promise<LiveOutcome>;

  constructor(job: Job) {
    // Workers cannot run TypeScript, so this is the name of the compiled file.
    this.worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: job });
    const { worker } = this;
    const ended = new Promise<never>((_, reject) => {
      worker.once('error', reject);
      worker.once('exit', (code) =>
        reject(new Error(`app ${job.app.name}: its thread exited with code ${code}`)),
      );
    });
    const received = (kind: WorkerMessage['kind']) =>
      new Promise<WorkerMessage>((resolve) => {
        worker.on('message', (message: WorkerMessage) => {
          if (message.kind === kind) resolve(message);
        });
      });
    this.ready = Promise.race([received('ready'), ended]).then(() => {});
    this.done = Promise.race([received('done'), ended]).then((message) => {
      if (message.kind !== 'done') throw new Error('unreachable');
      return message.outcome;
    });
    // The first thread that fails rejects the run; the rejections of the others would be unhandled.
    this.ready.catch(() => {});
    this.done.catch(() => {});
  }
}
