/** Checks the options of policies and interceptors against their schemas, and describes errors in words. */
import { type ZodType, z } from 'zod';
import { ConfigError, requireOptions, shown } from '../verbs/errors.ts';
import { didYouMean, isMisspelt, questionFor } from '../verbs/suggestions.ts';
import { parseQuantity, quantityOf } from '../verbs/units.ts';

/** Former names of options, by schema: old name to new name. An old name keeps working for one release. */
export const renamedOptions = z.registry<Readonly<Record<string, string>>>();

/** Code of the process warning about a renamed option. */
const RENAMED_OPTION = 'ISO_RENAMED_OPTION';
/** Options that this thread has warned about, as `policy.oldName`. */
const warned = new Set<string>();
let isMuted = false;

/** Turns off warnings about renamed options in a thread whose options the main thread has already checked. */
export function muteRenamedOptions(): void {
  isMuted = true;
}

/**
 * The options under their current names. Emits a process warning, once per option, for each former name.
 * @param name the policy, for messages
 * @throws ConfigError when the options are no object, or an option is given under both names
 */
export function currentOptions(
  name: string,
  schema: ZodType,
  options: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  requireOptions(name, options);
  const renamed = renamedOptions.get(schema) ?? {};
  return Object.fromEntries(
    Object.entries(options).map(([key, value]) => {
      const current = Object.hasOwn(renamed, key) ? renamed[key] : key;
      if (current === key) return [key, value];
      if (Object.hasOwn(options, current)) {
        throw new ConfigError(
          `${name}.${key}: this is the former name of ${name}.${current}, which is given too; leave out ${key}`,
        );
      }
      warnRenamed(name, key, current);
      return [current, value];
    }),
  );
}

function warnRenamed(name: string, key: string, current: string): void {
  const option = `${name}.${key}`;
  if (isMuted || warned.has(option)) return;
  warned.add(option);
  process.emitWarning(`${option} is now called ${current}; the next release will not accept the old name`, {
    code: RENAMED_OPTION,
  });
}

/**
 * The options as `schema` outputs them: former names replaced, quantities converted, defaults filled in.
 * @param name the policy, for messages
 * @throws ConfigError naming each wrong option and what it accepts
 */
export function parseOptions<T>(name: string, schema: ZodType<T>, options: unknown): T {
  const isObject = typeof options === 'object' && options !== null;
  const given = isObject
    ? convertQuantities(name, currentOptions(name, schema, options as Record<string, unknown>))
    : options;
  if (isObject) requireNumbers(name, schema, given as Record<string, unknown>);
  const checked = schema.safeParse(given);
  if (checked.success) return checked.data;
  throw new ConfigError(
    checked.error.issues.map((issue) => describeIssue(name, schema, issue, given)).join('; '),
  );
}

/**
 * The options of a policy of your own, by the schemas of its options: quantities such as '8KiB' converted, defaults filled
 * in, and a misspelt option refused. Call it in the constructor of the policy.
 * @param name the policy, for messages
 * @throws ConfigError naming each wrong or unknown option and what it accepts
 */
export function policyOptions<S extends z.core.$ZodLooseShape>(
  name: string,
  shape: S,
  options: unknown = {},
): z.output<z.ZodObject<S, z.core.$strict>> {
  return parseOptions<z.output<z.ZodObject<S, z.core.$strict>>>(name, z.strictObject(shape), options);
}

/**
 * The options with quantities such as '8KiB' as numbers, in the unit that the option's name ends with.
 * @param name the policy, for messages
 * @throws ConfigError for an option without a value, and for an unknown unit
 */
export function convertQuantities(name: string, options: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([key, value]) => [key, convertQuantity(`${name}.${key}`, key, value)]),
  );
}

function convertQuantity(where: string, key: string, value: unknown): unknown {
  // Number() would turn null and blank text into 0, and true into 1.
  if (value === null || (typeof value === 'string' && value.trim() === '')) {
    throw new ConfigError(`${where}: a value is missing`);
  }
  const quantity = quantityOf(key);
  if (quantity === undefined) return value;
  if (typeof value === 'boolean') throw new ConfigError(`${where}: must be a number, got ${value}`);
  if (typeof value !== 'string' || !/^[\d.]+[a-zA-Z]+$/.test(value)) return value;
  return parseQuantity(where, value, quantity);
}

/** @throws ConfigError for a value that Number() would turn into a number, although it is neither a number nor a text */
function requireNumbers(name: string, schema: ZodType, given: Readonly<Record<string, unknown>>): void {
  const shape = schema instanceof z.ZodObject ? schema.shape : {};
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || typeof value === 'number' || typeof value === 'string') continue;
    if (!Object.hasOwn(shape, key) || !isCoerced(shape[key])) continue;
    throw new ConfigError(`${name}.${key}: must be a number, got ${shown(value)}`);
  }
}

/** Whether a schema is one of z.coerce.number(), perhaps with a default. */
function isCoerced(schema: z.core.$ZodType): boolean {
  const isWrapped = schema instanceof z.ZodDefault || schema instanceof z.ZodOptional;
  if (isWrapped) return isCoerced(schema.def.innerType);
  return schema instanceof z.ZodNumber && schema.def.coerce === true;
}

/**
 * The options of a running policy with `changes` applied: all of them, or none if it throws.
 * @param fixed options that cannot change while the policy runs
 * @throws ConfigError naming each wrong or fixed option
 */
export function mergeOptions<T extends object>(
  name: string,
  schema: ZodType<T>,
  options: T,
  changes: Readonly<Record<string, unknown>>,
  fixed: readonly string[],
): T {
  const current = currentOptions(name, schema, changes);
  const stuck = Object.keys(current).filter((key) => fixed.includes(key));
  if (stuck.length > 0) {
    throw new ConfigError(
      stuck.map((key) => `${name}.${key}: cannot change while the policy runs`).join('; '),
    );
  }
  return parseOptions(name, schema, { ...options, ...current });
}

/**
 * For z.preprocess around a record: rejects the name `__proto__`, with which zod would drop the value without an error.
 */
export function refuseProto(value: unknown, context: z.RefinementCtx): unknown {
  if (typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__')) {
    context.addIssue("contains the name '__proto__', which is not accepted; choose another name");
  }
  return value;
}

function describeIssue(name: string, options: ZodType, issue: z.core.$ZodIssue, given: unknown): string {
  if (issue.code === 'unrecognized_keys' && options instanceof z.ZodObject) {
    const known = Object.keys(options.shape);
    const meant = known.filter((option) => issue.keys.some((key) => isMeant(key, option)));
    const hint = `${questionFor(meant)}there are: ${known.join(', ') || 'none'}`;
    return `${name}: there is no option '${issue.keys.join("', '")}'; ${hint}`;
  }
  const where = [name, ...issue.path].join('.');
  const wrong = wrongValue(issue, valueAt(given, issue.path));
  if (wrong !== null) return `${where}: ${wrong}`;
  const expected = expectedNumber(issue);
  if (expected !== null) return `${where}: must be ${expected}, got ${shown(valueAt(given, issue.path))}`;
  return `${where}: ${issue.message}`;
}

/** A value that is none of those that an option takes, and what was probably meant; null for an issue of another kind. */
function wrongValue(issue: z.core.$ZodIssue, got: unknown): string | null {
  const words = wordsOf(issue);
  if (words === null) return null;
  const list = words === BOOLEANS ? words.join(' or ') : `one of ${words.join(', ')}`;
  const question = typeof got === 'string' ? didYouMean(got, words).trim() : '';
  return `must be ${list}, got ${shown(got)}${question === '' ? '' : `; ${question}`}`;
}

const BOOLEANS = ['true', 'false'];

/** The words that an issue asks for. */
function wordsOf(issue: z.core.$ZodIssue): readonly string[] | null {
  if (issue.code === 'invalid_value' && issue.values.length > 1) return issue.values.map(String);
  if (issue.code !== 'invalid_union') return null;
  const isBoolean = issue.errors
    .flat()
    .some((one) => one.code === 'invalid_type' && one.expected === 'boolean');
  return isBoolean ? BOOLEANS : null;
}

/** The unit at the end of an option's name. */
const UNIT = /(?:Bytes|Ns|Us|Ms|PerS|Gbps)$/;

/**
 * Whether an option was probably meant by a wrong name, which may lack the unit. A time in another unit is no typing
 * error.
 */
function isMeant(name: string, option: string): boolean {
  const withoutUnit = option.replace(UNIT, '');
  if (!UNIT.test(name) && withoutUnit !== '' && isMisspelt(name, withoutUnit)) return true;
  const [own, other] = [name, option].map((one) => /[NUM]s$/.exec(one)?.[0]);
  const isOtherUnit = own !== undefined && other !== undefined && own !== other;
  return !isOtherUnit && isMisspelt(name, option);
}

/** What number an issue asks for, in words; null if it is about something else. */
function expectedNumber(issue: z.core.$ZodIssue): string | null {
  if (issue.code === 'invalid_type') {
    if (issue.message.endsWith('NaN')) return 'a number';
    return issue.expected === 'int' ? 'a whole number' : null;
  }
  if (issue.code === 'too_small' && issue.origin === 'number')
    return `${issue.inclusive ? 'at least' : 'above'} ${issue.minimum}`;
  if (issue.code === 'too_big' && issue.origin === 'number')
    return `${issue.inclusive ? 'at most' : 'below'} ${issue.maximum}`;
  return null;
}

/** The value at a path. A text such as `a:3/b:1`, which stands for an object, is returned as a whole. */
function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(
    (of, key) => (typeof of === 'string' ? of : (of as Record<PropertyKey, unknown> | undefined)?.[key]),
    value,
  );
}
