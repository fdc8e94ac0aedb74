/** Checks a mix, and fills in its defaults. */
import { driverName, isModuleName } from '../drivers/index.ts';
import { policies } from '../policies/index.ts';
import { optionsHint } from '../policies/policy-text.ts';
import { override, overrideCoordinator } from '../sim/profile/overrides.ts';
import { COORDINATOR_COSTS, type CoordinatorCosts, type NicParams } from '../sim/profile/params.ts';
import { PROFILES } from '../sim/profile/profiles.ts';
import { ConfigError } from '../verbs/errors.ts';
import { isGroup, isWeight, type Labels, type QpLabels, TRAFFIC_NAMES } from '../verbs/labels.ts';
import { didYouMean } from '../verbs/suggestions.ts';
import { durationText, requireWhole } from '../verbs/units.ts';
import { type AppMemory, memoryOf, receivesOf, requireRegistering } from './endpoints/memory-layout.ts';
import { type OpDraw, type Operation, opDrawOf, posts } from './operations.ts';
import type { SizeDistribution } from './sizes.ts';
import type { AppSpec, Burst, Inline, Kind, MixSpec, OneOrRange, PolicyUse, Transport } from './spec.ts';

/** One application with all defaults filled in. */
export interface App {
  readonly name: string;
  readonly kind: Kind;
  /** With several operations, the one as which its requests are written first. */
  readonly op: Operation;
  /** Whether its atomics compare and swap; otherwise they fetch and add. */
  readonly isCompareSwap: boolean;
  /** Whether it replaces regions of its `memory` on each core, and has neither queue pairs nor a peer. */
  readonly isRegistering: boolean;
  /** Of these regions, whether each has a protection domain of its own. */
  readonly hasOwnPds: boolean;
  /** Null: only `op`. */
  readonly opDraw: OpDraw | null;
  /** Bytes of the peer's answer to each message; 0: none. */
  readonly replyBytes: number;
  readonly isReplyInline: boolean;
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Null: all sizes from minBytes to maxBytes are equally likely. */
  readonly sizes: SizeDistribution | null;
  /** The regions whose buffers its requests use; null: each queue pair has one buffer. */
  readonly memory: AppMemory | null;
  /** Receives that the peer keeps posted; 0: none. */
  readonly receives: number;
  /** Code of the peer's min_rnr_timer. */
  readonly rnrTimer: number;
  readonly qps: number;
  /** Queue pair `i` belongs to context `i % contexts`. */
  readonly contexts: number;
  /** What is created anew, and after which time; null: nothing. */
  readonly renewal: Renewal | null;
  /** Null: it posts all the time. */
  readonly burst: Burst | null;
  readonly depth: number;
  readonly batch: number;
  readonly thinkNs: number;
  readonly host: number;
  readonly to: number;
  readonly tenant: string;
  readonly weight: number;
  /** Labels of each queue pair; {}: those of its context. */
  readonly qpLabels: QpLabels;
  /** Weight of its group among those of the tenant; null: it sets none. */
  readonly groupWeight: number | null;
  readonly class: number;
  readonly rateGbps: number;
  readonly startNs: number;
  readonly stopNs: number;
  readonly cores: number;
  readonly transport: Transport;
  /** Whether its requests carry their message inline. */
  readonly inline: boolean;
}

/** A queue pair or a context is destroyed and created anew after this time. */
export interface Renewal {
  readonly of: 'qp' | 'context';
  readonly lifeNs: number;
}

/** Whether an application has this name, or is one of the copies that do. */
export function isNamed({ name: own }: Pick<App, 'name'>, name: string): boolean {
  return own === name || own.startsWith(`${name}.`);
}

/** The properties of a device that the checks use. */
export type DeviceLimits = Pick<NicParams, 'linkGbps' | 'mtuBytes' | 'inlineMaxBytes' | 'rateLimiters'>;

const MAX_MESSAGE_BYTES = 2 ** 30;
const ATOMIC_BYTES = 8;
const MAX_HOSTS = 4096;
const MAX_COUNT = 100_000;
/** Each queue pair needs a peer, so a device must have room for twice as many. */
const MAX_QPS = 65_535;
const MAX_DEPTH = 32_768;
const SHORTEST_LIFE_NS = 1000;
const MAX_TIMELINE_POINTS = 10_000;
/** Highest service level. */
const LAST_CLASS = 7;

/** Defaults of applications by kind: messages in flight on a queue pair, messages per post, and bytes per message. */
export const DEPTHS: Readonly<Record<Kind, number>> = { B: 4, M: 128, D: 1 };
const BATCHES: Readonly<Record<Kind, number>> = { B: 1, M: 32, D: 1 };
export const SIZES: Readonly<Record<Kind, number>> = { B: 1 << 20, M: 16, D: 16 };
/** Operations of which an application may post several. */
const MIXED: readonly string[] = ['write', 'send', 'read'];
const OPERATIONS: Readonly<Record<Transport, readonly Operation[]>> = {
  rc: ['write', 'send', 'read', 'atomic'],
  uc: ['write', 'send'],
  ud: ['send'],
};

/** The NIC parameters of a mix. @throws ConfigError for an unknown profile or parameter, or an invalid value */
export function paramsOf(spec: Pick<MixSpec, 'profile' | 'set'>): NicParams {
  if (!Object.hasOwn(PROFILES, spec.profile)) {
    throw new ConfigError(
      `unknown profile '${spec.profile}'; ${didYouMean(spec.profile, Object.keys(PROFILES))}use one of ${Object.keys(PROFILES).join(', ')}`,
    );
  }
  const isNic = ([name]: [string, unknown]) => !Object.hasOwn(COORDINATOR_COSTS, name);
  return override(PROFILES[spec.profile], Object.fromEntries(Object.entries(spec.set).filter(isNic)));
}

/** The costs of coordinators, which `set` may name next to parameters of the profile. @throws ConfigError */
export function coordinatorCostsOf({ set }: Pick<MixSpec, 'set'>): CoordinatorCosts {
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(COORDINATOR_COSTS, name);
  return overrideCoordinator(Object.fromEntries(Object.entries(set).filter(isOwn)));
}

/** The applications of a mix, one entry per copy. @throws ConfigError */
export function appsOf(spec: MixSpec, params: Readonly<DeviceLimits>): App[] {
  requireValidRun(spec);
  if (spec.apps.length === 0)
    throw new ConfigError('a mix needs at least one app; name its kind with --app, such as --app M');
  const names = new Set<string>();
  const apps = spec.apps.flatMap((app) => copies(app, nameOf(app, spec.apps, names), spec, params));
  const seen = new Set<string>();
  for (const { name } of apps) {
    if (seen.has(name)) throw new ConfigError(`two apps are named '${name}'`);
    seen.add(name);
  }
  const qps = apps.reduce((sum, app) => sum + app.qps, 0);
  if (qps > MAX_QPS) throw new ConfigError(`the mix has ${qps} queue pairs; at most ${MAX_QPS} are possible`);
  return apps;
}

function requireValidRun(spec: MixSpec): void {
  const { durationNs, warmupNs, seed, hosts, driver, timelinePoints = 0 } = spec;
  requireWhole('hosts', hosts, 2, MAX_HOSTS);
  requireWhole('timelinePoints', timelinePoints, 0, MAX_TIMELINE_POINTS);
  if (driver !== undefined) driverName(driver, 'driver');
  if (!Number.isSafeInteger(seed)) throw new ConfigError(`the seed must be a whole number, got ${seed}`);
  if (!(durationNs > 0 && Number.isFinite(durationNs))) {
    throw new ConfigError(`the duration must be above 0, got ${durationText(durationNs)}`);
  }
  if (!(warmupNs >= 0))
    throw new ConfigError(`the warm-up must be at least 0, got ${durationText(warmupNs)}`);
  if (warmupNs >= durationNs) {
    throw new ConfigError(
      `a duration of ${durationText(durationNs)} gives no samples: the first ${durationText(warmupNs)} are the warm-up; set a longer duration or a shorter warm-up`,
    );
  }
  requirePolicies(spec);
}

function requirePolicies({ policy, policyOptions = {}, inner = [], onHosts = [], hosts }: MixSpec): void {
  if (policy === 'none' && Object.keys(policyOptions).length > 0) {
    throw new ConfigError('policy none takes no options');
  }
  if (policy !== 'none') requirePolicy(policy);
  const seen = new Set<number>();
  for (const use of [...inner, ...onHosts.flatMap(({ stack }) => stack)]) requirePolicy(use.policy);
  for (const one of onHosts) {
    for (const host of hostsOf('policy', one.hosts, hosts)) {
      if (seen.has(host)) throw new ConfigError(`policy: host ${host} is given two policies`);
      seen.add(host);
    }
  }
}

function requirePolicy(policy: PolicyUse['policy']): void {
  if (isModuleName(policy) || Object.hasOwn(policies, policy)) return;
  const names = ['none', ...Object.keys(policies)];
  throw new ConfigError(
    `unknown policy '${policy}'; ${didYouMean(policy, names)}use one of ${names.join(', ')}, or the path of a module${optionsHint(policy)}`,
  );
}

/** The given name, or else the kind, with a number if that name is taken. */
function nameOf(app: AppSpec, all: readonly AppSpec[], taken: Set<string>): string {
  if (app.name !== undefined) return app.name;
  const isTaken = (name: string) => taken.has(name) || all.some((other) => other.name === name);
  let name: string = app.kind;
  for (let n = 2; isTaken(name); n++) name = `${app.kind}-${n}`;
  taken.add(name);
  return name;
}

function copies(app: AppSpec, name: string, spec: MixSpec, params: Readonly<DeviceLimits>): App[] {
  const where = `app ${name}`;
  const count = requireWhole(`${where}: count`, app.count ?? 1, 1, MAX_COUNT);
  const host = hostsOf(`${where}: host`, app.host ?? 0, spec.hosts);
  const to = app.to === undefined ? [] : hostsOf(`${where}: to`, app.to, spec.hosts);
  return Array.from({ length: count }, (_, i) =>
    resolveApp(app, {
      name: app.count === undefined ? name : `${name}.${i}`,
      where,
      host: host[i % host.length],
      to: to.length > 0 ? to[i % to.length] : firstOtherHost(host[i % host.length]),
      spec,
      params,
    }),
  );
}

function firstOtherHost(host: number): number {
  return host === 0 ? 1 : 0;
}

interface CopyContext {
  name: string;
  where: string;
  host: number;
  to: number;
  spec: MixSpec;
  params: Readonly<DeviceLimits>;
}

function resolveApp(app: AppSpec, copy: CopyContext): App {
  const { kind, transport = 'rc', thinkNs = 0, rateGbps = 0, replyBytes = 0, rnrTimer = 1 } = app;
  const { name, where, host, to, spec, params } = copy;
  const { op, opDraw } = operationsOf(app.op ?? 'write', where);
  const isRegistering = requireRegistering(where, app);
  const [minBytes, maxBytes] = sizesOf(app, op, where, params);
  const qps = requireWhole(`${where}: qps`, app.qps ?? (isRegistering ? app.cores : null) ?? 1, 1, MAX_QPS);
  const { depth, batch } = queueOf(where, app);
  const contexts = requireWhole(`${where}: contexts`, app.contexts ?? 1, 1, qps);
  const cores = requireWhole(`${where}: cores`, app.cores ?? qps, 1, qps);
  const { weight = 1, ...qpLabels } = labelsOf(where, app);
  const { groupWeight = null } = app;
  requireGroupWeight(where, qpLabels.group, groupWeight);
  const level = requireWhole(`${where}: class`, app.class ?? 0, 0, LAST_CLASS);
  if (!(thinkNs >= 0)) throw new ConfigError(`${where}: think must be at least 0`);
  requireRate(where, rateGbps, params);
  const { startNs = 0, stopNs = spec.durationNs } = app;
  requireTimes(where, startNs, stopNs, spec);
  for (const one of opDraw?.operations ?? [op]) requireTransport(where, one, transport);
  const inlined = { where, inline: app.inline ?? 'auto', kind, params };
  const inline = isInline({ ...inlined, operations: opDraw?.operations ?? [op], maxBytes });
  const isReplyInline = isInline({ ...inlined, inline: 'auto', operations: ['send'], maxBytes: replyBytes });
  requireReply(where, app.replyBytes, { op, opDraw, transport });
  const isSending = posts({ op, opDraw }, 'send');
  const receives = receivesOf(where, app, { isSending, transport, depth });
  const memory = memoryOf(where, app, { maxBytes, transport });
  const { burst = null } = app;
  requireBurst(where, burst);
  const renewal = renewalOf(where, app, opDraw?.operations ?? [op]);
  const tenant = app.tenant ?? name;
  const { sizeBytes } = app;
  const sizes = typeof sizeBytes === 'object' && 'points' in sizeBytes ? sizeBytes : null;
  const owner = { name, kind, host, to, tenant, weight, qpLabels, groupWeight, class: level };
  return {
    ...owner,
    minBytes,
    maxBytes,
    sizes,
    memory,
    isRegistering,
    hasOwnPds: app.pds === 'each',
    receives,
    rnrTimer,
    qps: isRegistering ? 0 : qps,
    contexts,
    renewal,
    burst,
    depth,
    batch,
    cores,
    op,
    opDraw,
    isCompareSwap: app.op === 'cas',
    replyBytes,
    isReplyInline,
    transport,
    thinkNs,
    rateGbps,
    startNs,
    stopNs,
    inline,
  };
}

/** Requests outstanding on a queue pair, and posted at once. @throws ConfigError */
function queueOf(where: string, { kind, depth: most, batch: atOnce }: AppSpec): Pick<App, 'depth' | 'batch'> {
  const depth = requireWhole(`${where}: depth`, most ?? Math.max(DEPTHS[kind], atOnce ?? 1), 1, MAX_DEPTH);
  const batch = requireWhole(`${where}: batch`, atOnce ?? Math.min(BATCHES[kind], depth), 1, MAX_DEPTH);
  if (batch <= depth) return { depth, batch };
  throw new ConfigError(`${where}: a batch of ${batch} does not fit into a depth of ${depth}`);
}

/** @throws ConfigError for times that are too short */
function requireBurst(where: string, burst: Burst | null): void {
  if (burst === null) return;
  positive(`${where}: burst: the burst`, burst.burstNs);
  positive(`${where}: burst: the pause`, burst.pauseNs);
}

/** @throws ConfigError for two lives, for one that is too short, and for SENDs */
function renewalOf(where: string, app: AppSpec, operations: readonly Operation[]): Renewal | null {
  const { qpLifeNs, contextLifeNs } = app;
  if (qpLifeNs === undefined && contextLifeNs === undefined) return null;
  if (qpLifeNs !== undefined && contextLifeNs !== undefined) {
    throw new ConfigError(`${where}: qpLife and contextLife exclude each other: leave out one of them`);
  }
  const of = qpLifeNs === undefined ? 'context' : 'qp';
  const lifeNs = qpLifeNs ?? contextLifeNs ?? 0;
  const key = `${of}Life`;
  if (!(lifeNs >= SHORTEST_LIFE_NS)) {
    throw new ConfigError(
      `${where}: ${key} must be at least ${durationText(SHORTEST_LIFE_NS)}, got ${durationText(lifeNs)}`,
    );
  }
  // The receives of the peer would have to be moved to its new queue pair.
  if (!operations.includes('send')) return { of, lifeNs };
  throw new ConfigError(`${where}: ${key} is for WRITEs, READs and atomics, not for op=send`);
}

/** @throws ConfigError naming the first that is no weight; those that are absent are fine */
export function requireWeights(where: string, weights: Readonly<Record<string, number | undefined>>): void {
  for (const [name, value] of Object.entries(weights)) {
    if (value === undefined || isWeight(value)) continue;
    throw new ConfigError(`${where}: ${name} must be a number from 1e-6 to 1e6, got ${value}`);
  }
}

/** @throws ConfigError for the weight of a group that the application does not name */
export function requireGroupWeight(where: string, group = '', groupWeight: number | null): void {
  if (groupWeight === null) return;
  requireWeights(where, { groupWeight });
  if (group === '') throw new ConfigError(`${where}: groupWeight needs a group: add group=NAME`);
}

/** The labels that an application sets. @throws ConfigError */
export function labelsOf(
  where: string,
  { weight, qpWeight, group, traffic }: Pick<AppSpec, 'weight' | 'qpWeight' | 'group' | 'traffic'>,
): Partial<Labels> {
  requireWeights(where, { weight, qpWeight });
  if (group !== undefined && !isGroup(group)) {
    throw new ConfigError(`${where}: group must be a name of at most 64 printable characters`);
  }
  return {
    ...(weight !== undefined && { weight }),
    ...(qpWeight !== undefined && { qpWeight }),
    ...(group !== undefined && { group }),
    ...(traffic !== undefined && { traffic: TRAFFIC_NAMES.indexOf(traffic) }),
  };
}

/** @throws ConfigError for a rate limit that the device cannot enforce */
export function requireRate(where: string, rateGbps: number, params: Readonly<DeviceLimits>): void {
  if (!(rateGbps >= 0 && rateGbps <= params.linkGbps)) {
    throw new ConfigError(
      `${where}: a rate of ${rateGbps} Gbps is not between 0 and the link's ${params.linkGbps} Gbps`,
    );
  }
  if (rateGbps > 0 && params.rateLimiters === 0) {
    throw new ConfigError(`${where}: rate: the device has no rate limiters (rateLimiters)`);
  }
}

/** @throws ConfigError for an application that posts nothing in the part of the run that is measured */
export function requireTimes(where: string, startNs: number, stopNs: number, spec: MixSpec): void {
  const { warmupNs, durationNs } = spec;
  if (!(startNs >= 0 && stopNs > startNs) && startNs < durationNs) {
    throw new ConfigError(
      `${where}: it stops at ${durationText(stopNs)}, not after its start at ${durationText(startNs)}`,
    );
  }
  if (startNs >= durationNs || stopNs <= warmupNs) {
    const end = Number.isFinite(stopNs) ? durationText(stopNs) : 'the end';
    throw new ConfigError(
      `${where}: it runs from ${durationText(startNs)} to ${end} and gives no samples between the end of the warm-up at ${durationText(warmupNs)} and ${durationText(durationNs)}`,
    );
  }
}

function sizesOf(
  app: AppSpec,
  op: Operation,
  where: string,
  params: Readonly<DeviceLimits>,
): readonly [number, number] {
  const { kind, transport } = app;
  const given = app.sizeBytes ?? (op === 'atomic' ? ATOMIC_BYTES : SIZES[kind]);
  const [min, max] = endsOf(given);
  const what = `${where}: size`;
  requireWhole(what, min, 1, MAX_MESSAGE_BYTES);
  requireWhole(what, max, 1, MAX_MESSAGE_BYTES);
  if (min > max)
    throw new ConfigError(`${what}: range ${min} to ${max} is reversed; write the smaller value first`);
  if (op === 'atomic' && (min !== ATOMIC_BYTES || max !== ATOMIC_BYTES)) {
    throw new ConfigError(`${what}: an atomic operates on 8 bytes, not ${max}`);
  }
  if (transport === 'ud' && max > params.mtuBytes) {
    throw new ConfigError(
      `${what}: a datagram holds at most ${params.mtuBytes} bytes (mtuBytes), not ${max}`,
    );
  }
  return [min, max];
}

function endsOf(given: OneOrRange | SizeDistribution): readonly [number, number] {
  if (typeof given === 'number') return [given, given];
  return 'points' in given ? [given.points[0][0], given.points[given.points.length - 1][0]] : given;
}

function requireTransport(where: string, op: Operation, transport: Transport): void {
  const operations = OPERATIONS[transport];
  if (operations.includes(op)) return;
  throw new ConfigError(
    `${where}: transport ${transport} does not support ${op}, only ${operations.join(' and ')}`,
  );
}

/** The operations of an application, and the one as which its requests are written first: it has a remote address. */
function operationsOf(given: NonNullable<AppSpec['op']>, where: string): Pick<App, 'op' | 'opDraw'> {
  // What registers posts nothing.
  if (given === 'register') return { op: 'write', opDraw: null };
  if (typeof given === 'string') return { op: given === 'cas' ? 'atomic' : given, opDraw: null };
  const shares = Object.entries(given);
  if (shares.length === 0) throw new ConfigError(`${where}: op: at least one operation is needed`);
  for (const [op, share] of shares) {
    if (!MIXED.includes(op)) {
      throw new ConfigError(
        `${where}: op: only write, send and read can be mixed, because an atomic has 8 bytes`,
      );
    }
    positive(`${where}: op: the share of ${op}`, share);
  }
  const opDraw = opDrawOf(given);
  return { op: opDraw.operations.find((op) => op !== 'send') ?? 'send', opDraw };
}

function requireReply(
  where: string,
  replyBytes: number | undefined,
  { op, opDraw, transport }: Pick<App, 'op' | 'opDraw' | 'transport'>,
): void {
  if (replyBytes === undefined) return;
  requireWhole(`${where}: reply`, replyBytes, 1, MAX_MESSAGE_BYTES);
  if (op === 'send' && opDraw === null && transport === 'rc') return;
  throw new ConfigError(
    `${where}: reply requires op=send and transport=rc: the peer answers messages that it receives`,
  );
}

interface InlineQuestion {
  where: string;
  inline: Inline;
  kind: Kind;
  operations: readonly Operation[];
  maxBytes: number;
  params: Readonly<DeviceLimits>;
}

function isInline({ where, inline, kind, operations, maxBytes, params }: InlineQuestion): boolean {
  const isPushed = operations.every((op) => op === 'write' || op === 'send');
  const possible = isPushed && maxBytes <= params.inlineMaxBytes;
  if (inline === 'yes' && !possible) {
    throw new ConfigError(
      `${where}: only writes and sends of at most ${params.inlineMaxBytes} bytes (inlineMaxBytes) can be inline`,
    );
  }
  return inline === 'yes' || (inline === 'auto' && kind === 'D' && possible);
}

/** @throws ConfigError for a host that does not exist, or a reversed range */
export function hostsOf(what: string, given: OneOrRange, hosts: number): number[] {
  const [first, last] = typeof given === 'number' ? [given, given] : given;
  for (const host of [first, last]) {
    if (Number.isInteger(host) && host >= 0 && host < hosts) continue;
    throw new ConfigError(`${what}: unknown host ${host}; hosts are 0 to ${hosts - 1}`);
  }
  if (first > last)
    throw new ConfigError(`${what}: range ${first} to ${last} is reversed; write the smaller value first`);
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function positive(what: string, value: number): number {
  if (value > 0 && Number.isFinite(value)) return value;
  throw new ConfigError(`${what} must be above 0, got ${value}`);
}
