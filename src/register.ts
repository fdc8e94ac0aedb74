/**
 * `node --import isoverbs/register app.js`: puts the configured policies around every device that the
 * program opens. See docs/configuration.md.
 */
import { isMainThread, threadId } from 'node:worker_threads';
import { type Config, type DaemonChoice, loadConfig, type PolicyConfig } from './config.ts';
import joinDaemon, { type JoinOptions, writeStderr } from './daemon/client/join.ts';
import { cpuOf, policyInterceptors, preloadWorkers } from './drivers/index.ts';
import { count, createInterceptor, createReplay, interceptors, type Replay } from './interceptors/index.ts';
import { policies } from './policies/index.ts';
import { muteRenamedOptions } from './policies/parse-options.ts';
import { passThrough } from './policies/pass-through.ts';
import { countersOfProcess, processInterceptors } from './process-interceptors.ts';
import { inheritByChildren } from './register-children.ts';
import type { Interceptor } from './shim/compose.ts';
import { ConfigError } from './verbs/errors.ts';

const UNLIMITED_GBPS = 1e5;

/** Counts what passes, for the line at exit. */
const counting = count();

function register(config: Config): void {
  requireKinds(config);
  const slot = processInterceptors();
  const driven = withSource(`${config.source}: policy`, () =>
    policyInterceptors(config.driver, config.policies),
  );
  const make = (list: PolicyConfig[]) =>
    createAll(list, createInterceptor, `${config.interceptorSource}: interceptors`);
  const outside = make(config.interceptors.filter((entry) => !entry.inside));
  const inside = make(config.interceptors.filter((entry) => entry.inside));
  if (slot.opened.length > 0) {
    process.emitWarning(
      `isoverbs/register was loaded after ${slot.opened.length} context(s) had been opened; those stay without policy`,
      { code: 'ISO_LATE', detail: 'Load it first: node --import isoverbs/register app.js' },
    );
  }
  const verbose = config.log === 'info' || config.log === 'debug';
  // Without a policy the daemon still counts, and limits.
  slot.interceptors = driven.length === 0 && config.daemon !== undefined ? [passThrough()] : driven;
  slot.policies = config.policies;
  slot.driver = config.driver;
  slot.outside = verbose ? [counting, ...outside] : outside;
  slot.inside = inside;
  if (config.replay !== undefined) slot.replay = replayOf(config.replay);
  if (config.daemon !== undefined) join(config.daemon, config);
  slot.device = config.device;
  slot.tenant = config.tenant;
  if (verbose) slot.report = (line) => writeStderr(`isoverbs: ${line}`);
  if (verbose) process.on('exit', () => reportAtExit(config, [...outside, ...inside]));
}

/** Policies meet all others of the host, as long as there is a daemon: in this thread, and in those that run some. */
function join(
  { socket, weight, class: declared, aloneGbps = UNLIMITED_GBPS }: DaemonChoice,
  { tenant, log }: Config,
): void {
  const joining: JoinOptions = {
    socket,
    hello: { tenant, weight, class: declared },
    standaloneGbps: aloneGbps,
    log,
  };
  joinDaemon(joining);
  preloadWorkers(new URL('./daemon/client/join.js', import.meta.url), joining);
}

/** A program that ends before its recording does has not done the same: it says so. */
function replayOf(path: string): Replay {
  const replay = createReplay(path);
  process.on('exit', () => {
    if (replay.isDone) return;
    writeStderr(`isoverbs: ${path}: the recorded program ${replay.next}, this one has ended`);
  });
  return replay;
}

/** One taken for the other is a mistake that is easily made. */
function requireKinds({ policies: some, source, interceptors: others, interceptorSource }: Config): void {
  for (const { name } of some) {
    if (!Object.hasOwn(interceptors, name)) continue;
    throw new ConfigError(
      `${source}: policy: '${name}' is an interceptor; give it in ISOVERBS_INTERCEPTORS, or under 'interceptors' of a file`,
    );
  }
  for (const { name } of others) {
    if (!Object.hasOwn(policies, name)) continue;
    throw new ConfigError(
      `${interceptorSource}: interceptors: '${name}' is a policy; give it in ISOVERBS_POLICY, or under 'policy' of a file`,
    );
  }
}

type Make = (name: string, options: Record<string, unknown>) => Interceptor;

function createAll(list: PolicyConfig[], make: Make, where: string): Interceptor[] {
  return list.map(({ name, options }) => withSource(where, () => make(name, options)));
}

/** Says of a configuration error where it is. */
function withSource<T>(where: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`${where}: ${error.message}`) : error;
  }
}

/** Names, with the files of those that write some. */
function described({ name, files }: Interceptor & { files?: readonly string[] }): string {
  return files === undefined || files.length === 0 ? name : `${name} (${files.join(', ')})`;
}

function exitLine(config: Config, others: readonly Interceptor[]): string {
  const names = (list: PolicyConfig[]) => list.map((entry) => entry.name).join(', ');
  const cpu = cpuOf(config.driver);
  const on = cpu === undefined ? '' : ` on CPU ${cpu}`;
  const where = config.driver === 'inline' ? '' : `, in a worker thread${on}`;
  const policy =
    config.policies.length === 0
      ? 'no policy'
      : `policy ${names(config.policies)} (from ${config.source})${where}`;
  const watched = others.length === 0 ? '' : `; interceptors ${others.map(described).join(', ')}`;
  const who = isMainThread ? 'isoverbs' : `isoverbs in thread ${threadId}`;
  const { opened } = processInterceptors();
  if (opened.length === 0) return `${who}: ${policy}${watched}; attached to nothing: no device was opened`;
  const devices = [...new Set(opened)].join(', ');
  const { sends, receives, completions } = counting.counts;
  const { split, held, emulated } = countersOfProcess();
  return (
    `${who}: ${policy}${watched}; attached to ${opened.length} context(s) of ${devices}; ` +
    `${sends} sends (${split} split, ${held} held, ${emulated} emulated) and ${receives} receives posted, ` +
    `${completions} completions`
  );
}

/** Threads that open nothing, of which a program may have many, have nothing to say. */
function reportAtExit(config: Config, others: readonly Interceptor[]): void {
  if (isMainThread || processInterceptors().opened.length > 0) writeStderr(exitLine(config, others));
}

/** Several copies of the package may be loaded in one process, and each is told to register: the first does. */
function registerOnce(): void {
  const slot = processInterceptors();
  if (slot.registeredBy !== undefined) return;
  slot.registeredBy = import.meta.url;
  // The main thread has registered the same configuration, and has warned.
  if (!isMainThread) muteRenamedOptions();
  const config = loadConfig();
  register(config);
  if (isMainThread) inheritByChildren(import.meta.url, config);
}

registerOnce();
