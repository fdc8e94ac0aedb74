/** What is wrong in a configuration file, in words instead of those of the schema library. */
import type { z } from 'zod';
import { shown } from '../verbs/errors.ts';

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
 */
export function issueText(issue: z.core.$ZodIssue, file: unknown): string {
  if (!LIBRARYS_OWN.test(issue.message)) return issue.message;
  const got = issue.path.reduce<unknown>((of, key) => (of as Record<PropertyKey, unknown>)?.[key], file);
  if (issue.code === 'unrecognized_keys') return `unknown key '${issue.keys.join("', '")}'`;
  if (got === undefined) return 'is missing';
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.join(', ')}, got ${shown(got)}`;
  if (issue.code !== 'invalid_type') return `has an invalid value: ${shown(got)}`;
  return `must be ${NOUNS[issue.expected] ?? issue.expected}, got ${shown(got)}`;
}

/** The first line of a parser's message, which quotes the file in the following ones. */
export const firstLine = (error: unknown): string =>
  (error as Error).message.split('\n', 1)[0].replace(/:\s*$/, '');
