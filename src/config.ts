/** Reads the configuration from a file and from environment variables. */
import { existsSync, lstatSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { z } from 'zod';
import { firstLine, issueText } from './daemon/config-issue.ts';
import { NO_DAEMON } from './daemon/ipc/socket-path.ts';
import { type Driver, driverOf } from './drivers/index.ts';
import { type LabelRule, labelRulesSchema } from './label-rules.ts';
import { scalarOf } from './policies/policy-text.ts';
import { parseYaml } from './providers/yaml.ts';
import { ConfigError, shown } from './verbs/errors.ts';
import { isTenant, isWeight, TENANT_ACCEPTED, TRAFFIC_NAMES, type TrafficName } from './verbs/labels.ts';
import { didYouMean } from './verbs/suggestions.ts';

/** A policy by name, with its options. */
export interface PolicyConfig {
  name: string;
  options: Record<string, unknown>;
}

/** An interceptor by name, with its options. */
export interface InterceptorConfig extends PolicyConfig {
  /** True: between policies and device. False: around the policies. */
  inside: boolean;
}

export interface Config {
  /** Outermost first. */
  policies: PolicyConfig[];
  /** Outermost first. */
  interceptors: InterceptorConfig[];
  /** A recording that answers in place of all devices. */
  replay?: string;
  device?: string;
  tenant?: string;
  /** Path of a facts file about the device (`isoverbs calibrate`). */
  facts?: string;
  /** Labels for contexts and connections. */
  labels?: readonly LabelRule[];
  /** Where the policies run. */
  driver: Driver;
  log: LogLevel;
  /** The host's daemon. If absent, policies see only this process. */
  daemon?: DaemonChoice;
  /** The source of the policies: 'ISOVERBS_POLICY', a file, or 'nothing'. */
  source: string;
  /** The source of the interceptors. */
  interceptorSource: string;
  /** The file that was read, if any. */
  file?: string;
}

/** The daemon that a process joins, and the process's declarations to it. */
export interface DaemonChoice {
  socket: string;
  weight?: number;
  traffic?: TrafficName;
  /** Rate limit of a context until a daemon first answers. Default: unlimited. */
  aloneGbps?: number;
}

const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const FILE_NAMES = [
  'isoverbs.config.json',
  'isoverbs.config.yaml',
  'isoverbs.config.yml',
  'isoverbs.config.js',
  'isoverbs.config.mjs',
];

const ARTICLED = { policy: 'a policy', interceptor: 'an interceptor' };
type Kind = keyof typeof ARTICLED;

const entryOf = (kind: Kind) =>
  z.union([z.string().min(1), z.looseObject({ name: z.string().min(1) })], {
    error: `must be the name of ${ARTICLED[kind]}, or an object with 'name' and its options`,
  });
const daemonShape = {
  socket: z.string().min(1),
  weight: z.coerce.number().refine(isWeight, { error: 'must be a number from 1e-6 to 1e6' }).optional(),
  traffic: z.enum(TRAFFIC_NAMES).optional(),
  aloneGbps: z.coerce.number().positive().max(1e5).optional(),
};
const fileSchema = z.strictObject({
  policy: z
    .union([z.string(), z.looseObject({}), z.array(z.unknown())], {
      error: 'must be a policy or a list of policies, outermost first',
    })
    .optional(),
  interceptors: z
    .union([z.string(), z.looseObject({}), z.array(z.unknown())], {
      error: 'must be an interceptor or a list of interceptors, outermost first',
    })
    .optional(),
  replay: z.string().min(1).optional(),
  device: z.string().min(1).optional(),
  tenant: z.string().refine(isTenant, { error: TENANT_ACCEPTED }).optional(),
  facts: z.string().min(1).optional(),
  driver: z.unknown().optional(),
  labels: labelRulesSchema.optional(),
  daemon: z
    .union(
      [
        z
          .string()
          .min(1)
          .transform((socket) => ({ socket })),
        z.strictObject(daemonShape),
      ],
      {
        error:
          "must be the path of the daemon's socket, or an object with 'socket', 'weight', 'traffic', 'aloneGbps'",
      },
    )
    .optional(),
  log: z.enum(LOG_LEVELS).optional(),
});

const DEFAULTS: Config = {
  policies: [],
  interceptors: [],
  driver: 'inline',
  log: 'warn',
  source: 'nothing',
  interceptorSource: 'nothing',
};

export interface ConfigSources {
  cwd?: string;
  env?: Record<string, string | undefined>;
}

/**
 * Reads the file that ISOVERBS_CONFIG names, otherwise the nearest isoverbs.config.* or "isoverbs" key of a
 * package.json from `cwd` upwards. The variables ISOVERBS_POLICY, _INTERCEPTORS, _REPLAY, _DEVICE, _TENANT, _FACTS,
 * _DRIVER, _DAEMON (with _WEIGHT and _TRAFFIC) and _LOG override the file.
 * @throws ConfigError that names the file and the key
 */
export function loadConfig(sources: ConfigSources = {}): Config {
  const { cwd = process.cwd(), env = process.env } = sources;
  const file = findFile(cwd, env.ISOVERBS_CONFIG);
  const config: Config = file === null ? { ...DEFAULTS } : fromFile(file);
  if (env.ISOVERBS_POLICY !== undefined && env.ISOVERBS_POLICY !== '') {
    config.policies = parsePolicies(env.ISOVERBS_POLICY, 'ISOVERBS_POLICY');
    config.source = 'ISOVERBS_POLICY';
  }
  if (env.ISOVERBS_INTERCEPTORS !== undefined && env.ISOVERBS_INTERCEPTORS !== '') {
    config.interceptors = parseInterceptors(env.ISOVERBS_INTERCEPTORS, 'ISOVERBS_INTERCEPTORS');
    config.interceptorSource = 'ISOVERBS_INTERCEPTORS';
  }
  if (env.ISOVERBS_REPLAY) config.replay = env.ISOVERBS_REPLAY;
  if (env.ISOVERBS_DEVICE) config.device = env.ISOVERBS_DEVICE;
  if (env.ISOVERBS_TENANT) config.tenant = tenantOf(env.ISOVERBS_TENANT);
  if (env.ISOVERBS_FACTS) config.facts = resolve(cwd, env.ISOVERBS_FACTS);
  if (env.ISOVERBS_DRIVER) config.driver = driverOf(env.ISOVERBS_DRIVER, 'ISOVERBS_DRIVER');
  const daemon = daemonOf(env);
  if (daemon === null) delete config.daemon;
  else if (daemon !== undefined) config.daemon = daemon;
  if (env.ISOVERBS_LOG) config.log = logLevel(env.ISOVERBS_LOG);
  return config;
}

/**
 * The daemon named by the variables. Null for 'none', which overrides a file; undefined if they are not set. @throws
 * ConfigError
 */
function daemonOf(env: Record<string, string | undefined>): DaemonChoice | null | undefined {
  const { ISOVERBS_DAEMON: socket, ISOVERBS_WEIGHT: weight, ISOVERBS_TRAFFIC: traffic } = env;
  if (!socket) return undefined;
  if (socket === NO_DAEMON) return null;
  const given = { socket, weight: weight || undefined, traffic: traffic || undefined };
  const checked = z.strictObject(daemonShape).safeParse(given);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  throw new ConfigError(`ISOVERBS_${String(issue.path[0]).toUpperCase()}: ${issueText(issue, given)}`);
}

/**
 * Parses policies from one line of text: `perf` or `perf:subMsgSizeBytes=16384,emulation=false`. Several policies are
 * joined by `;`, outermost first. `none` means no policy.
 * @throws ConfigError
 */
export function parsePolicies(text: string, source: string): PolicyConfig[] {
  return parseLine(text, source, 'policy');
}

/**
 * Parses interceptors from one line of text, in the form of policies. `inside=true` puts an interceptor between the
 * policies and the device.
 * @throws ConfigError
 */
export function parseInterceptors(text: string, source: string): InterceptorConfig[] {
  return parseLine(text, source, 'interceptor').map((entry) => withPlacement(entry, source));
}

function withPlacement({ name, options }: PolicyConfig, source: string): InterceptorConfig {
  const { inside = false, ...rest } = options;
  if (typeof inside !== 'boolean')
    throw new ConfigError(`${source}: ${name}.inside: must be true or false, got ${shown(inside)}`);
  return { name, options: rest, inside };
}

function parseLine(text: string, source: string, kind: Kind): PolicyConfig[] {
  if (text.trim() === 'none') return [];
  return text.split(';').map((part) => {
    const [, name, rest] = /^\s*([^:\s]+)\s*(?::(.*))?$/s.exec(part) ?? [];
    if (name === undefined)
      throw new ConfigError(`${source}: invalid ${kind} '${part.trim()}'; write NAME or NAME:KEY=VALUE,...`);
    const options: Record<string, unknown> = {};
    for (const pair of rest?.split(',') ?? []) {
      const at = pair.indexOf('=');
      if (/^\s*\w+\s*$/.test(pair)) {
        options[pair.trim()] = true;
        continue;
      }
      if (at < 1) throw new ConfigError(`${source}: ${name}: '${pair.trim()}' should be KEY=VALUE`);
      options[pair.slice(0, at).trim()] = scalarOf(pair.slice(at + 1).trim());
    }
    return { name, options };
  });
}

/** @throws ConfigError for a name that the daemon would refuse, after which the program would run without limits */
function tenantOf(name: string): string {
  if (isTenant(name)) return name;
  throw new ConfigError(`ISOVERBS_TENANT: ${TENANT_ACCEPTED}, but has ${name.length}`);
}

function logLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === text);
  if (level === undefined)
    throw new ConfigError(`ISOVERBS_LOG: unknown level '${text}'; use one of ${LOG_LEVELS.join(', ')}`);
  return level;
}

function findFile(cwd: string, named: string | undefined): string | null {
  if (named) {
    const path = resolve(cwd, named);
    if (!existsSync(path)) throw new ConfigError(`ISOVERBS_CONFIG: ${path} does not exist`);
    return path;
  }
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    const name = FILE_NAMES.find((candidate) => existsSync(join(folder, candidate)));
    if (name !== undefined && isTrusted(join(folder, name), cwd)) return join(folder, name);
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest)) return hasOurKey(manifest) && isTrusted(manifest, cwd) ? manifest : null;
    if (folder === dirname(folder)) return null;
  }
}

/**
 * Whether a file that was found, not named, may decide what this process runs. In a folder that all users share, such as
 * /tmp, another user could have put it there, or a link to it.
 */
function isTrusted(path: string, cwd: string): boolean {
  const own = process.getuid?.();
  if (own === undefined) return true;
  const users = [0, own, statSync(cwd, { throwIfNoEntry: false })?.uid];
  const stranger = [lstatSync(path), statSync(path)].find(({ uid }) => !users.includes(uid));
  if (stranger === undefined) return true;
  if (isMainThread) {
    process.emitWarning(
      `${path} is ignored, because it belongs to user ${stranger.uid}, and not to root, user ${own} or the owner of the working directory; to use it, set ISOVERBS_CONFIG to its path`,
      { code: 'ISO_CONFIG' },
    );
  }
  return false;
}

function hasOurKey(manifest: string): boolean {
  try {
    return JSON.parse(readFileSync(manifest, 'utf8')).isoverbs !== undefined;
  } catch {
    return false;
  }
}

function fromFile(path: string): Config {
  const value = readValue(path);
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) throw problem(path, parsed.error.issues[0], [], value);
  const { policy, interceptors, driver = 'inline', log = 'warn', facts, daemon, ...rest } = parsed.data;
  return {
    ...rest,
    ...(daemon !== undefined && daemon.socket !== NO_DAEMON && { daemon }),
    ...(facts !== undefined && { facts: resolve(dirname(path), facts) }),
    policies: fileEntries(policy, path, 'policy', 'policy').map(({ entry }) => entry),
    interceptors: fileEntries(interceptors, path, 'interceptors', 'interceptor').map(({ entry, where }) =>
      withPlacement(entry, `${path}: ${where}`),
    ),
    driver: driverOf(driver, `${path}: driver`),
    log,
    source: path,
    interceptorSource: path,
    file: path,
  };
}

function readValue(path: string): unknown {
  try {
    if (/\.m?js$/.test(path)) {
      const module = createRequire(path)(path);
      return module?.default ?? module;
    }
    const text = readFileSync(path, 'utf8');
    const value = /\.ya?ml$/.test(path) ? parseYaml(text) : JSON.parse(text);
    return path.endsWith('package.json') ? value.isoverbs : (value ?? {});
  } catch (cause) {
    throw new ConfigError(`${path}: cannot be read: ${firstLine(cause)}`, { cause });
  }
}

function fileEntries(value: unknown, path: string, key: string, kind: Kind) {
  if (value === undefined) return [];
  const list = Array.isArray(value) ? value : [value];
  return list.flatMap((item, index) => {
    const keys = Array.isArray(value) ? [key, index] : [key];
    const where = keys.join('.');
    const parsed = entryOf(kind).safeParse(item);
    if (!parsed.success) throw problem(path, parsed.error.issues[0], keys, item);
    if (typeof parsed.data === 'string')
      return parseLine(parsed.data, `${path}: ${where}`, kind).map((entry) => ({ entry, where }));
    const { name, ...options } = parsed.data;
    return [{ entry: { name, options }, where }];
  });
}

/** @param value what was checked, at the keys `prefix` of the file */
function problem(path: string, issue: z.core.$ZodIssue, prefix: PropertyKey[], value: unknown): ConfigError {
  const keys = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  const known = Object.keys(fileSchema.shape);
  const where = [...prefix, ...issue.path, ...keys].join('.');
  const what =
    keys.length > 0 && issue.path.length === 0
      ? `unknown key; ${didYouMean(keys[0], known)}the keys are ${known.join(', ')}`
      : issueText(issue, value, prefix.length === 0 ? fileSchema : undefined);
  return new ConfigError(`${path}: ${where === '' ? '' : `${where}: `}${what}`);
}
