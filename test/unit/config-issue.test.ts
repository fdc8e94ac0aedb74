// Wrong configuration files are reported in one line of plain words.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { parseDaemonConfig } from '../../src/daemon/config.ts';

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-config-'));
afterAll(() => rmSync(folder, { recursive: true }));
const PATH = join(folder, 'isoverbs.config.yaml');

const messageOf = (run: () => unknown) => {
  try {
    run();
    return 'accepted';
  } catch (error) {
    return (error as Error).message;
  }
};

test.each([
  ['policy: [', /^cannot be read: Flow sequence .* at line \d+, column \d+$/],
  ['device: 7', /^device: must be a text, got 7$/],
  ['log: loud', /^log: must be one of silent, error, warn, info, debug, got 'loud'$/],
  ['polcy: perf', /^polcy: unknown key; did you mean 'policy'\? the keys are policy, /],
])('of a program: %s', (text, message) => {
  writeFileSync(PATH, text);
  const said = messageOf(() => loadConfig({ env: { ISOVERBS_CONFIG: PATH }, cwd: folder }));
  expect(said.replace(`${PATH}: `, '')).toMatch(message);
});

test.each([
  ['policy: [', /^Flow sequence .* at line \d+, column \d+$/],
  [
    'pollicy: perf',
    /^unknown key 'pollicy'; did you mean 'policy'\? use one of socket, mode, group, policy, /,
  ],
  ['colour: red', /^unknown key 'colour'; use one of socket, /],
  [
    'limits: { clinets: 7, client: 7 }',
    /^limits: unknown key 'clinets', 'client'; did you mean 'clients'\? use one of /,
  ],
  ['rules: [{ wieght: 3 }]', /^rules\.0: unknown key 'wieght'; did you mean 'weight'\? use one of match, /],
  [
    'rules: [{ match: { user: root } }]',
    /^rules\.0\.match: unknown key 'user'; use one of uid, gid, cgroup, command, declared$/,
  ],
  [
    'devices: { sim0: { linkGbp: 9 } }',
    /; devices\.sim0: unknown key 'linkGbp'; did you mean 'linkGbps'\? use one of linkGbps$/,
  ],
  ['fleet: { server: a }', /; fleet: unknown key 'server'; did you mean 'servers'\? use one of /],
  ['policy: 7', /^policy: must be a text, got 7$/],
  [`rules: [{ tenant: ${'t'.repeat(129)} }]`, /^rules\.0\.tenant: must have 1 to 128 characters$/],
  ['rules: 7', /^rules: must be a list, got 7$/],
])('of the daemon: %s', (text, message) => {
  expect(messageOf(() => parseDaemonConfig(text, 'f')).replace('f: ', '')).toMatch(message);
});
