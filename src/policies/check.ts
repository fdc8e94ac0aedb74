/** Options of policies against what they may be, in words for whoever wrote them. */
import { type ZodType, z } from 'zod';
import { ConfigError } from '../verbs/errors.ts';

/**
 * The options as `schema` has them.
 * @throws ConfigError naming each option that is wrong, and what it takes
 */
export function checkedOptions<T>(name: string, schema: ZodType<T>, options: unknown): T {
  const checked = schema.safeParse(options);
  if (checked.success) return checked.data;
  throw new ConfigError(checked.error.issues.map((issue) => problem(name, schema, issue)).join('; '));
}

/**
 * The options that a policy that runs has from now on: all changes, or an error and none.
 * @param fixed options that cannot change while it runs
 * @throws ConfigError
 */
export function changedOptions<T extends object>(
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
  return checkedOptions(name, schema, { ...options, ...changes });
}

function problem(name: string, options: ZodType, issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys' && options instanceof z.ZodObject) {
    const there = Object.keys(options.shape).join(', ') || 'none';
    return `${name}: there is no option '${issue.keys.join("', '")}'; there are: ${there}`;
  }
  return `${[name, ...issue.path].join('.')}: ${issue.message}`;
}
