/**
 * Version of everything that `--json` prints; docs/stability.md says what it promises. It grows when a field is removed
 * or changes its meaning, and not when one is added.
 */
export const JSON_SCHEMA_VERSION = 1;

/** An object as `--json` prints it, with the version first. */
export function jsonText(value: object): string {
  return `${JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, ...value }, null, 2)}\n`;
}
