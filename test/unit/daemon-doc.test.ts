// docs/daemon.md names every key of the daemon's configuration and no others.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { daemonSchema, parseDaemonConfig } from '../../src/daemon/config.ts';

const TEXT = readFileSync(join(resolve(import.meta.dirname, '../../docs'), 'daemon.md'), 'utf8');

interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | false;
  items?: JsonSchema;
}

/** `limits.clients`, `devices.NAME.linkGbps`, `rules.N.match.uid`. */
function keysOf({ properties = {}, additionalProperties, items }: JsonSchema, path = ''): string[] {
  const below = Object.entries(properties).flatMap(([key, one]) => {
    const own = `${path}${key}`;
    const deeper = keysOf(one, `${own}.`);
    // `rules` and `match` are documented as groups, in addition to their keys.
    return key === 'rules' || key === 'match' || deeper.length === 0 ? [own, ...deeper] : deeper;
  });
  if (additionalProperties) below.push(...keysOf(additionalProperties, `${path}NAME.`));
  if (items) below.push(...keysOf(items, `${path}N.`));
  return below;
}

test('every key is documented, and every documented key exists', () => {
  const keys = keysOf(z.toJSONSchema(daemonSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema);
  expect(keys).toContain('rules.N.match.cgroup');
  const table = TEXT.slice(TEXT.indexOf('| key |'), TEXT.indexOf('## Who is a tenant'));
  const documented = [...table.matchAll(/^\| `([^`]+)` \|/gm)].map((match) => match[1]);
  // The keys of `fleet` have a page of their own.
  const isOfFleet = (key: string) => key.startsWith('fleet.');
  const others = [...keys.filter((key) => !isOfFleet(key)), 'fleet'];
  expect(documented.sort()).toEqual(others.sort());
  const fleet = readFileSync(new URL('../../docs/fleet.md', import.meta.url), 'utf8');
  const from = fleet.indexOf('| key |');
  const to = fleet.indexOf('\n\n', from);
  const rows = [...fleet.slice(from, to).matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(
    ([, names]) => names.match(/[\w.]+/g) ?? [],
  );
  expect(rows.map((name) => `fleet.${name}`).sort()).toEqual(keys.filter(isOfFleet).sort());
});

test('the example is a valid configuration', () => {
  const example = /```yaml\n([\s\S]*?)```/.exec(TEXT)?.[1] ?? '';
  expect(parseDaemonConfig(example, 'docs/daemon.md')).toMatchObject({
    policy: 'token-bucket;perf',
    metrics: ['9464'],
  });
});

test('the page begins with the limits of a cooperative shim', () => {
  expect(TEXT).toMatch(/^# The daemon\n\nThe shim is cooperative: a program that calls libibverbs itself,/);
});
