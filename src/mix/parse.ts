/** Parses the command-line forms of a mix: `B:size=1MiB,qps=2`, `linkGbps=40`, `perf:subMsgSizeBytes=8192`. */
import { ConfigError } from '../verbs/errors.ts';
import { type Labels, TRAFFIC_NAMES } from '../verbs/labels.ts';
import { didYouMean, meantBy } from '../verbs/suggestions.ts';
import {
  BYTES,
  GBPS,
  NANOSECONDS,
  parseQuantity,
  parseWhole,
  type Quantity,
  quantityOf,
} from '../verbs/units.ts';
import type { Operation } from './operations.ts';
import { labelsOf, requireWeights } from './resolve.ts';
import { readSizes } from './sizes.ts';
import type { AppSpec, HostPolicies, Kind, OneOrRange, PolicyUse } from './spec.ts';

type MutableAppSpec = { -readonly [K in keyof AppSpec]: AppSpec[K] };
type Reader = (what: string, text: string) => unknown;

export const KINDS: readonly Kind[] = ['B', 'M', 'D'];
const CLASSES: ReadonlyMap<string, number> = new Map([
  ['high', 0],
  ['low', 1],
]);

const word: Reader = (what, text) => {
  if (text !== '') return text;
  throw new ConfigError(`${what}: a name is missing`);
};
const oneOf =
  (...words: string[]): Reader =>
  (what, text) => {
    if (words.includes(text)) return text;
    throw new ConfigError(`${what}: '${text}' is not one of ${words.join(', ')}${meantBy(text, words)}`);
  };
const quantity =
  (of: Quantity): Reader =>
  (what, text) =>
    parseQuantity(what, text, of);
const number: Reader = (what, text) => {
  const value = Number(text);
  if (text !== '' && Number.isFinite(value)) return value;
  throw new ConfigError(`${what}: '${text}' is not a number`);
};

/** Parses `a` or `a-b`. */
function range(what: string, text: string, read: (text: string) => number): OneOrRange {
  const ends = text.split('-');
  if (ends.length > 2 || ends.includes('')) {
    throw new ConfigError(`${what}: '${text}' is neither a value nor a range such as 1-8`);
  }
  return ends.length === 1 ? read(text) : [read(ends[0]), read(ends[1])];
}

/** Parses a size, a range of sizes, or `@` and the path of a file with a distribution. */
function size(what: string, text: string): AppSpec['sizeBytes'] {
  if (text.startsWith('@')) return readSizes(what, text.slice(1));
  return range(what, text, (one) => parseQuantity(what, one, BYTES));
}

const operation = oneOf('write', 'send', 'read', 'atomic', 'cas', 'register');

/** Parses an operation, or several with their shares: `write:0.7/read:0.3`. */
function operations(what: string, text: string): AppSpec['op'] {
  if (!text.includes(':')) return operation(what, text) as Operation;
  const mix: Partial<Record<Operation, number>> = {};
  for (const part of text.split('/')) {
    const [name, share, ...more] = part.split(':');
    const one = operation(what, name) as Operation;
    if (share === undefined || more.length > 0) {
      throw new ConfigError(`${what}: '${part}' is not an operation and its share, such as read:0.3`);
    }
    if (Object.hasOwn(mix, one)) throw new ConfigError(`${what}: '${one}' is given twice`);
    mix[one] = number(what, share) as number;
  }
  return mix;
}

/** Parses the time for which an application posts and the pause after it: `200us/800us`. */
function burst(what: string, text: string): AppSpec['burst'] {
  const times = text.split('/');
  if (times.length !== 2) {
    throw new ConfigError(`${what}: '${text}' is not a burst and the pause after it, such as 200us/800us`);
  }
  const [burstNs, pauseNs] = times.map((time) => parseQuantity(what, time, NANOSECONDS));
  return { burstNs, pauseNs };
}

/** Parses a number of receives, or `none`. */
const receives: Reader = (what, text) => (text === 'none' ? 0 : parseWhole(what, text));

const RNR_TIMERS: ReadonlyMap<string, number> = new Map([
  ['longest', 0],
  ['shortest', 1],
]);

/** The keys of an application: the field each sets, and its parser. */
const KEYS: Readonly<Record<string, readonly [field: keyof AppSpec, read: Reader]>> = {
  name: ['name', word],
  op: ['op', operations],
  size: ['sizeBytes', size],
  reply: ['replyBytes', quantity(BYTES)],
  regions: ['regions', parseWhole],
  regionSize: ['regionBytes', quantity(BYTES)],
  buffers: ['buffers', parseWhole],
  access: ['access', oneOf('turn', 'random')],
  pds: ['pds', oneOf('one', 'each')],
  receives: ['receives', receives],
  rnrTimer: ['rnrTimer', (what, text) => RNR_TIMERS.get(text) ?? parseWhole(what, text)],
  qps: ['qps', parseWhole],
  contexts: ['contexts', parseWhole],
  qpLife: ['qpLifeNs', quantity(NANOSECONDS)],
  contextLife: ['contextLifeNs', quantity(NANOSECONDS)],
  count: ['count', parseWhole],
  depth: ['depth', parseWhole],
  batch: ['batch', parseWhole],
  think: ['thinkNs', quantity(NANOSECONDS)],
  burst: ['burst', burst],
  host: ['host', (what, text) => range(what, text, (one) => parseWhole(what, one))],
  to: ['to', (what, text) => range(what, text, (one) => parseWhole(what, one))],
  tenant: ['tenant', word],
  group: ['group', word],
  groupWeight: ['groupWeight', number],
  weight: ['weight', number],
  qpWeight: ['qpWeight', number],
  kind: ['traffic', oneOf(...TRAFFIC_NAMES)],
  class: ['class', (what, text) => CLASSES.get(text) ?? parseWhole(what, text)],
  rate: ['rateGbps', quantity(GBPS)],
  start: ['startNs', quantity(NANOSECONDS)],
  stop: ['stopNs', quantity(NANOSECONDS)],
  cores: ['cores', parseWhole],
  transport: ['transport', oneOf('rc', 'uc', 'ud')],
  inline: ['inline', oneOf('auto', 'yes', 'no')],
};

/** The keys of labels. */
const LABEL_KEYS = ['weight', 'qpWeight', 'group', 'kind'] as const;

/** Parses one label of an application as `set` of a script takes it. @throws ConfigError */
export function parseLabel(where: string, key: string, text: string): Partial<Labels> {
  if (!LABEL_KEYS.some((known) => known === key)) {
    throw new ConfigError(`${where}: unknown key '${key}'; use rate, groupWeight, ${LABEL_KEYS.join(', ')}`);
  }
  const [field, read] = KEYS[key];
  const value = key === 'group' ? text : read(`${where}: ${key}`, text);
  return labelsOf(where, { [field]: value });
}

/** Parses the weight of an application's group as `set` of a script takes it. @throws ConfigError */
export function parseGroupWeight(where: string, text: string): number {
  const groupWeight = number(`${where}: groupWeight`, text) as number;
  requireWeights(where, { groupWeight });
  return groupWeight;
}

/** All keys of an application. */
export const APP_KEYS: readonly string[] = Object.keys(KEYS);

/** Parses the argument of `--app`: KIND:key=value,key=value. @throws ConfigError */
export function parseApp(text: string): AppSpec {
  const colon = text.indexOf(':');
  const kind = colon < 0 ? text : text.slice(0, colon);
  if (!KINDS.includes(kind as Kind)) {
    throw new ConfigError(`app '${text}': unknown kind '${kind}'; use one of ${KINDS.join(', ')}`);
  }
  const app: Record<string, unknown> = {};
  for (const [key, value] of colon < 0 ? [] : pairs(`app '${text}'`, text.slice(colon + 1))) {
    const entry = Object.hasOwn(KEYS, key) ? KEYS[key] : undefined;
    if (entry === undefined) {
      throw new ConfigError(
        `app '${text}': unknown key '${key}'; ${didYouMean(key, APP_KEYS)}use one of ${APP_KEYS.join(', ')}`,
      );
    }
    const [field, read] = entry;
    app[field] = read(`app '${text}': ${key}`, value);
  }
  return { ...(app as Partial<MutableAppSpec>), kind: kind as Kind };
}

/** Parses the argument of `--set`, a parameter of the profile: NAME=VALUE. @throws ConfigError */
export function parseSet(text: string): [name: string, value: unknown] {
  const [name, value] = pair(`set '${text}'`, text);
  return [name, parameter(name, value)];
}

/**
 * Parses the argument of `--policy`: NAME, or NAME:option=value,option (an option alone is true). Several policies are
 * separated by semicolons, the outermost first. @throws ConfigError
 */
export function parsePolicy(text: string): PolicyUse & { inner?: readonly PolicyUse[] } {
  const [outermost, ...inner] = text.split(';').map((one) => parsePolicyUse(one));
  if (inner.length === 0) return outermost;
  for (const { policy } of [outermost, ...inner]) {
    if (policy !== 'none' && policy !== '') continue;
    throw new ConfigError(`policy '${text}': each part between semicolons must name a policy`);
  }
  return { ...outermost, inner };
}

/** Parses `@HOST=POLICIES` or `@FIRST-LAST=POLICIES`. @throws ConfigError */
export function parseHostPolicies(text: string): HostPolicies {
  const [, where, policies] = /^@([^=]*)=(.*)$/.exec(text) ?? [];
  if (where === undefined) {
    throw new ConfigError(`policy '${text}' is not of the form @HOST=POLICY or @FIRST-LAST=POLICY`);
  }
  const what = `policy '${text}'`;
  const hosts = range(what, where, (one) => parseWhole(what, one));
  const { inner = [], ...outermost } = parsePolicy(policies);
  if (outermost.policy !== 'none') return { hosts, stack: [outermost, ...inner] };
  if (Object.keys(outermost.policyOptions).length === 0) return { hosts, stack: [] };
  throw new ConfigError(`${what}: policy none takes no options`);
}

function parsePolicyUse(text: string): PolicyUse {
  const colon = text.indexOf(':');
  if (colon < 0) return { policy: text, policyOptions: {} };
  const words = text.slice(colon + 1).split(',');
  const options = pairs(
    `policy '${text}'`,
    words.map((word) => (/^\w+$/.test(word) ? `${word}=true` : word)).join(','),
  );
  return { policy: text.slice(0, colon), policyOptions: Object.fromEntries(options) };
}

/** Parses numbers, in the unit of the parameter's name by default, and lists of numbers; leaves words as they are. */
function parameter(name: string, text: string): unknown {
  if (text === 'inf' || text === 'Infinity') return Number.POSITIVE_INFINITY;
  const numbers = text.split(',').map((one) => (one === '' ? Number.NaN : Number(one)));
  if (name === 'etsWeights') return numbers;
  if (Number.isFinite(numbers[0])) return numbers.length === 1 ? numbers[0] : text;
  if (!/^[\d.]/.test(text)) return text;
  const quantity = quantityOf(name);
  return quantity === undefined ? text : parseQuantity(`set ${name}`, text, quantity);
}

/** Parses `a=1,b=2`. */
function pairs(where: string, text: string): [string, string][] {
  const seen = new Set<string>();
  return text.split(',').map((part) => {
    const [key, value] = pair(where, part);
    if (seen.has(key)) throw new ConfigError(`${where}: '${key}' is given twice`);
    seen.add(key);
    return [key, value];
  });
}

function pair(where: string, text: string): [string, string] {
  const equals = text.indexOf('=');
  if (equals > 0) return [text.slice(0, equals), text.slice(equals + 1)];
  throw new ConfigError(`${where}: '${text}' is not of the form key=value`);
}
