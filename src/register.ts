/**
 * `node --import isoverbs/register app.js`: puts the configured policies around every device that the
 * program opens. See docs/configuration.md.
 */
import { isMainThread, threadId } from 'node:worker_threads';
import { type Config, type DaemonChoice, loadConfig, type PolicyConfig } from './config.ts';
import joinDaemon, { isLogged, type JoinOptions, writeStderr } from './daemon/client/join.ts';
import { policyInterceptors, preloadWorkers, requireCpuOf, workerOptionsOf } from './drivers/index.ts';
import { count, createInterceptor, createReplay, interceptors, type Replay } from './interceptors/index.ts';
import { labelRules } from './label-rules.ts';
import { optionsWithoutEffect } from './policies/daemon-settings.ts';
import { policies } from './policies/index.ts';
import { muteRenamedOptions } from './policies/parse-options.ts';
import { passThrough } from './policies/pass-through.ts';
import { policiesText } from './policies/policy-text.ts';
import { shares } from './policies/token-bucket/shares.ts';
import { countersOfProcess, namedProviders, processInterceptors } from './process-interceptors.ts';
import { factsOfProcess } from './providers/facts.ts';
import { simulatedDevices } from './providers/sim/arguments.ts';
import { inheritByChildren } from './register-children.ts';
import type { Interceptor } from './shim/compose.ts';
import { treatmentText } from './shim/counters.ts';
import { ConfigError, IsoverbsError } from './verbs/errors.ts';

/** Counts requests and completions for the line at exit. */
const counting = count();

function register(config: Config): void {
  requireKinds(config);
  const state = processInterceptors();
  const driver = process.env.ISOVERBS_DRIVER ? 'ISOVERBS_DRIVER' : `${config.file}: driver`;
  if (config.policies.length > 0) requireCpuOf(config.driver, driver);
  const chain = withSource(`${config.source}: policy`, () =>
    policyInterceptors(config.driver, config.policies),
  );
  const make = (list: PolicyConfig[]) =>
    createAll(list, createInterceptor, `${config.interceptorSource}: interceptors`);
  const outside = make(config.interceptors.filter((entry) => !entry.inside));
  const inside = make(config.interceptors.filter((entry) => entry.inside));
  if (state.opened.length > 0) {
    process.emitWarning(
      `isoverbs/register was loaded after ${state.opened.length} context(s) were opened; they have no policy`,
      { code: 'ISO_LATE', detail: 'Load it first: node --import isoverbs/register app.js' },
    );
  }
  const verbose = config.log === 'info' || config.log === 'debug';
  // Without a policy, the daemon still counts requests and enforces limits.
  state.interceptors = chain.length === 0 && config.daemon !== undefined ? [passThrough()] : chain;
  state.policies = config.policies;
  state.driver = config.driver;
  // A recording has the labels of the program that was recorded.
  const labels =
    config.labels === undefined || config.replay !== undefined
      ? []
      : [labelRules(config.labels, process.argv.join(' '))];
  state.outside = [...(verbose ? [counting] : []), ...outside, ...labels];
  state.inside = inside;
  if (config.replay !== undefined) state.replay = replayOf(config.replay);
  if (config.daemon !== undefined) join(config.daemon, config);
  state.device = config.device;
  state.tenant = config.tenant;
  state.facts = config.facts;
  // A file that cannot be used, or a variable with a wrong value, stops the program before it starts.
  const providers = namedProviders();
  if (providers.length === 0 || providers.includes('sim')) simulatedDevices();
  factsOfProcess(config.facts);
  if (verbose) state.report = (line) => writeStderr(`isoverbs: ${line}`);
  if (verbose) process.on('exit', () => reportAtExit(config, [...outside, ...inside]));
}

/** Joins the host's daemon, in this thread and in the worker threads that run policies. */
function join({ socket, weight, traffic, aloneGbps }: DaemonChoice, config: Config): void {
  const { tenant, log } = config;
  const ineffective = isMainThread ? optionsWithoutEffect(config.policies) : null;
  if (ineffective !== null && isLogged('warn', log)) writeStderr(`isoverbs: ${ineffective}`);
  const joining: JoinOptions = {
    socket,
    hello: { tenant, weight, traffic },
    standalone: aloneGbps === undefined ? {} : { [shares.name]: { rateGbps: aloneGbps } },
    log,
  };
  joinDaemon(joining);
  preloadWorkers(new URL('./daemon/client/join.js', import.meta.url), joining);
}

/** Opens a recording. A program that ends before its recording reports that at exit. */
function replayOf(path: string): Replay {
  const replay = createReplay(path);
  process.on('exit', () => {
    if (replay.isDone) return;
    writeStderr(`isoverbs: ${path}: the recorded program ${replay.next}, but this one ended`);
  });
  return replay;
}

/** Rejects policies listed as interceptors, and the reverse. */
function requireKinds({ policies: some, source, interceptors: others, interceptorSource }: Config): void {
  for (const { name } of some) {
    if (!Object.hasOwn(interceptors, name)) continue;
    throw new ConfigError(
      `${source}: policy: '${name}' is an interceptor; list it in ISOVERBS_INTERCEPTORS, or under 'interceptors' in a file`,
    );
  }
  for (const { name } of others) {
    if (!Object.hasOwn(policies, name)) continue;
    throw new ConfigError(
      `${interceptorSource}: interceptors: '${name}' is a policy; list it in ISOVERBS_POLICY, or under 'policy' in a file`,
    );
  }
}

type Make = (name: string, options: Record<string, unknown>) => Interceptor;

function createAll(list: PolicyConfig[], make: Make, where: string): Interceptor[] {
  return list.map(({ name, options }) => withSource(where, () => make(name, options)));
}

/** Prefixes a configuration error with its source. */
function withSource<T>(where: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`${where}: ${error.message}`) : error;
  }
}

/** An interceptor's name, with the files that it writes. */
function described({ name, files }: Interceptor & { files?: readonly string[] }): string {
  return files === undefined || files.length === 0 ? name : `${name} (${files.join(', ')})`;
}

function exitLine(config: Config, others: readonly Interceptor[]): string {
  const { cpu } = workerOptionsOf(config.driver);
  const on = cpu === undefined ? '' : ` on CPU ${cpu}`;
  const where = config.driver === 'inline' ? '' : `, in a worker thread${on}`;
  const policy =
    config.policies.length === 0
      ? 'no policy'
      : `policy ${policiesText(config.policies)} (from ${config.source})${where}`;
  const watched = others.length === 0 ? '' : `; interceptors ${others.map(described).join(', ')}`;
  const who = isMainThread ? 'isoverbs' : `isoverbs in thread ${threadId}`;
  const { opened } = processInterceptors();
  if (opened.length === 0) return `${who}: ${policy}${watched}; attached to nothing: no device was opened`;
  const devices = [...new Set(opened)].join(', ');
  const { sends, receives, completions } = counting.counts;
  return (
    `${who}: ${policy}${watched}; attached to ${opened.length} context(s) of ${devices}; ` +
    `${sends} sends (${treatmentText(countersOfProcess())}) and ${receives} receives posted, ` +
    `${completions} completions`
  );
}

/** A program may have many worker threads that open no device; they print nothing. */
function reportAtExit(config: Config, others: readonly Interceptor[]): void {
  if (isMainThread || processInterceptors().opened.length > 0) writeStderr(exitLine(config, others));
}

/** Every copy of the package in a process calls this; only the first registers. */
function registerOnce(): void {
  const state = processInterceptors();
  if (state.registeredBy !== undefined) return;
  state.registeredBy = import.meta.url;
  // The main thread has already warned about the same configuration.
  if (!isMainThread) muteRenamedOptions();
  const config = loadConfig();
  register(config);
  if (isMainThread) inheritByChildren(import.meta.url, config);
}

/** The exit status of a program whose configuration is wrong, and of one that cannot start for another reason. */
const WRONG_CONFIG = 2;
const FAILED = 1;

/** A program with a wrong configuration ends with one line, because the stack shows only where the line was made. */
function registerOrExit(): void {
  try {
    registerOnce();
  } catch (error) {
    // The parent of a worker thread gets its errors.
    if (!isMainThread || !(error instanceof IsoverbsError)) throw error;
    writeStderr(`isoverbs: ${error.message} (${error.code})`);
    process.exit(error instanceof ConfigError ? WRONG_CONFIG : FAILED);
  }
}

registerOrExit();
