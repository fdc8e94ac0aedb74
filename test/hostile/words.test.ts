// Words of clients that would control the terminal on which they appear.
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { escaped, escapedLines } from '../../src/cli/escape.ts';
import { topTable } from '../../src/cli/top/table.ts';
import { connectUnix } from '../../src/daemon/ipc/index.ts';
import { frame, VERSION } from '../../src/daemon/protocol.ts';
import { daemon, folder, isoverbs, tenant } from '../daemon/command-rig.ts';
import { reason, until } from '../daemon/rig.ts';

const TIMEOUT = { timeout: 60_000 };
/** CSI as one character, DEL, a right-to-left override, an isolate, a line separator, and a tag. */
const WORDS = 'a\u009b2Jb\u007fc\u202ed\u2066e\u2028f\u{e0041}g';
const SHOWN = 'a\\u009b2Jb\\u007fc\\u202ed\\u2066e\\u2028f\\udb40\\udc41g';
/** Every character that must not reach a terminal, besides the ends of lines. */
const CONTROLS = /(?!\n)[\p{C}\u2028\u2029]/u;

test('escapes show each character, and JSON keeps its meaning', () => {
  expect(escaped(WORDS)).toBe(SHOWN);
  expect(escaped('\x1b]0;x\x07\n')).toBe('\\u001b]0;x\\u0007\\u000a');
  for (const plain of ['schön', '日本語', '\u{1f600}', '%#{}"\'']) expect(escaped(plain)).toBe(plain);
  const value = { [WORDS]: [WORDS, '\ud800'] };
  const json = escapedLines(JSON.stringify(value, null, 2));
  expect(json).not.toMatch(CONTROLS);
  expect(JSON.parse(json)).toEqual(value);
});

describe.skipIf(reason !== '')('words of clients', TIMEOUT, () => {
  test('log lines escape them', async () => {
    const socket = join(folder(), 's');
    const running = await daemon(socket);
    const one = connectUnix(socket)!;
    const hello = { type: 'hello', version: VERSION, role: 'tool' } as const;
    one.send(frame({ ...hello, [WORDS]: 1 } as never));
    await until(() => running.err().includes('invalid message'));
    const set = isoverbs(['set', WORDS, 'weight=2', '--future', '--socket', socket]);
    expect(await set.ended).toMatchObject({
      status: 0,
      stderr: `isoverbs: no tenant '${SHOWN}' is present now; the setting applies once one connects\n`,
    });
    await until(() => /"msg":"process \d+ of user \d+ set /.test(running.err()));
    expect(running.err()).not.toMatch(CONTROLS);
    const lines = running
      .err()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.at(-1).tenant).toBe(WORDS);
    one.close();
  });

  test('tables and JSON escape them', { tags: ['long'] }, async () => {
    const socket = join(folder(), 's');
    await daemon(socket, ['--policy', 'token-bucket']);
    await tenant(socket, WORDS);
    for (const args of [['tenants'], ['top', '--once'], ['tenants', '--json'], ['top', '--once', '--json']]) {
      const { stdout, status } = await isoverbs([...args, '--socket', socket]).ended;
      expect({ args, status }).toEqual({ args, status: 0 });
      expect(stdout).not.toMatch(CONTROLS);
      expect(stdout).toContain(SHOWN);
    }
  });

  test('what rulers and devices say is escaped, too', () => {
    const row = { device: WORDS, tenant: 't', class: WORDS, why: WORDS, weight: 1, gbps: null, qps: 0 };
    const numbers = { processes: 1, rateGbps: 0, heldRequests: 0, latencyNs: 0 };
    const more = { sentGbps: null, requestsPerS: null, maxQps: null, maxRequestsPerS: null, split: true };
    expect(topTable([{ ...row, ...numbers, ...more } as never], 400)).not.toMatch(CONTROLS);
  });
});
