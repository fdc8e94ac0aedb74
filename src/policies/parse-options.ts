/** Options of policies against what they may be, in words for whoever wrote them. */
import { type ZodType, z } from 'zod';
import { ConfigError, shown } from '../verbs/errors.ts';
import { parseQuantity, quantityOf } from '../verbs/units.ts';

/**
 * The options as `schema` has them.
 * @throws ConfigError naming each option that is wrong, and what it takes
 */
export function parseOptions<T>(name: string, schema: ZodType<T>, options: unknown): T {
  const given = typeof options === 'object' && options !== null ? convertQuantities(name, options) : options;
  const checked = schema.safeParse(given);
  if (checked.success) return checked.data;
  throw new ConfigError(
    checked.error.issues.map((issue) => describeIssue(name, schema, issue, given)).join('; '),
  );
}

/**
 * Options with numbers where there were quantities with a unit, in the unit that the option's name ends with.
 * @throws ConfigError for an option without a value, and for a unit that there is not
 */
export function convertQuantities(name: string, options: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([key, value]) => [key, convertQuantity(`${name}.${key}`, key, value)]),
  );
}

function convertQuantity(where: string, key: string, value: unknown): unknown {
  // Number() would take them for 0, and true for 1.
  if (value === null || (typeof value === 'string' && value.trim() === '')) {
    throw new ConfigError(`${where}: a value is missing`);
  }
  const quantity = quantityOf(key);
  if (quantity === undefined) return value;
  if (typeof value === 'boolean') throw new ConfigError(`${where}: must be a number, got ${value}`);
  if (typeof value !== 'string' || !/^[\d.]+[a-zA-Z]+$/.test(value)) return value;
  return parseQuantity(where, value, quantity);
}

/**
 * The options that a policy that runs has from now on: all changes, or an error and none.
 * @param fixed options that cannot change while it runs
 * @throws ConfigError
 */
export function mergeOptions<T extends object>(
  name: string,
  schema: ZodType<T>,
  options: T,
  changes: Readonly<Record<string, unknown>>,
  fixed: readonly string[],
): T {
  const stuck = Object.keys(changes).filter((key) => fixed.includes(key));
  if (stuck.length > 0) {
    throw new ConfigError(
      stuck.map((key) => `${name}.${key}: cannot change while the policy runs`).join('; '),
    );
  }
  return parseOptions(name, schema, { ...options, ...changes });
}

function describeIssue(name: string, options: ZodType, issue: z.core.$ZodIssue, given: unknown): string {
  if (issue.code === 'unrecognized_keys' && options instanceof z.ZodObject) {
    const there = Object.keys(options.shape).join(', ') || 'none';
    return `${name}: there is no option '${issue.keys.join("', '")}'; there are: ${there}`;
  }
  const where = [name, ...issue.path].join('.');
  if (issue.code === 'invalid_type' && issue.message.endsWith('NaN')) {
    return `${where}: must be a number, got ${shown(valueAt(given, issue.path))}`;
  }
  return `${where}: ${issue.message}`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((of, key) => (of as Record<PropertyKey, unknown> | undefined)?.[key], value);
}
