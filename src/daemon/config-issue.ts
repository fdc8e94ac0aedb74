/** What is wrong in a configuration file, in words instead of those of the schema library. */
import type { z } from 'zod';
import { shown } from '../verbs/errors.ts';
import { isMisspelt, questionFor } from '../verbs/suggestions.ts';

/** The library's own messages; those that a schema brings are sentences already. */
const LIBRARYS_OWN = /^(?:Invalid (?:input|option)|Unrecognized key)/;

const NOUNS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object with keys',
  record: 'an object with keys',
};

/**
 * Describes an issue of a value of a configuration file.
 * @param file the whole value of the file, in which the issue has its path
 * @param schema of the whole value, which knows the keys in place of an unknown one
 */
export function issueText(issue: z.core.$ZodIssue, file: unknown, schema?: z.core.$ZodType): string {
  if (!LIBRARYS_OWN.test(issue.message)) return issue.message;
  const got = issue.path.reduce<unknown>((of, key) => (of as Record<PropertyKey, unknown>)?.[key], file);
  if (issue.code === 'unrecognized_keys') {
    const known = schema === undefined ? [] : keysAt(schema, issue.path);
    const meant = questionFor(known.filter((one) => issue.keys.some((key) => isMisspelt(key, one))));
    const remedy = known.length === 0 ? '' : `; ${meant}use one of ${known.join(', ')}`;
    return `unknown key '${issue.keys.join("', '")}'${remedy}`;
  }
  if (got === undefined) return 'is missing';
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.join(', ')}, got ${shown(got)}`;
  if (issue.code !== 'invalid_type') return `has an invalid value: ${shown(got)}`;
  return `must be ${NOUNS[issue.expected] ?? issue.expected}, got ${shown(got)}`;
}

/** The keys of the object at a path of a schema; none if the schema has no object there. */
function keysAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  const [key, ...rest] = path;
  switch (def.type) {
    case 'object': {
      if (key === undefined) return Object.keys(def.shape);
      const next = def.shape[String(key)];
      return next === undefined ? [] : keysAt(next, rest);
    }
    case 'array':
      return keysAt(def.element, rest);
    case 'record':
      return keysAt(def.valueType, rest);
    case 'optional':
    case 'default':
      return keysAt(def.innerType, path);
    case 'pipe':
      // One of the two is a function, which has no keys.
      return [...keysAt(def.in, path), ...keysAt(def.out, path)];
    default:
      return [];
  }
}

/** The first line of a parser's message, which quotes the file in the following ones. */
export const firstLine = (error: unknown): string =>
  (error as Error).message.split('\n', 1)[0].replace(/:\s*$/, '');
