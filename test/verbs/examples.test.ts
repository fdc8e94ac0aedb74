// The short examples as processes, on simulated devices, on user-space devices and, if there is one, on a real device.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { noSoft, realDevices, realOnly } from './ground.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const rxe = typeof realDevices === 'string' ? undefined : realDevices.join(',');

/** Time limit: a process in a virtual machine on a busy host is slow. */
const PATIENCE_MS = 120_000;

function example(name: string, device: string | undefined, own: Record<string, string> = {}) {
  const args = [`examples/${name}.mjs`, ...(device === undefined ? [] : ['--device', device])];
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const env = { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ...own };
  const options = { cwd: ROOT, env, encoding: 'utf8', timeout: PATIENCE_MS } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
  return { code: status, out: stdout, err: stderr };
}

interface Expected {
  out: string;
  /** Output on user-space devices, if different. */
  soft?: RegExp;
  /** Output on soft-RoCE, if different; null if the example must fail there. */
  rxe?: string | null;
}

const EXAMPLES: Record<string, Expected> = {
  'async-events': {
    out: `at the queue: SRQ_LIMIT_REACHED
at the context: SRQ_LIMIT_REACHED, about that queue: true
`,
  },
  atomics: { out: 'ticket 0\nticket 1\nticket 2\nlock: taken by 17\nlock: held\n' },
  'completion-events': {
    out: `three messages: the server sleeps
an urgent one: the server has 0, 1, 2, 3
the other queue: nothing came
`,
  },
  'cq-timestamps': {
    out: `write 0: 0 ns after the one before
write 1: 334 ns after the one before
write 2: 334 ns after the one before
write 3: 334 ns after the one before
`,
    soft: /^(write \d: \d+ ns after the one before\n){4}$/,
    rxe: 'this device does not stamp completions\n',
  },
  inline: { out: 'up to 64 bytes\nmessage 0: one\nmessage 1: two\nmessage 2: three\n' },
  'memory-window': {
    out: `the window is open
the server finds: through the window
the client gave the key back: true
a write after that: ISO_ERR_COMPLETION
`,
  },
  multicast: { out: 'first: to whom it may concern\nsecond: to whom it may concern\n' },
  'read-write': {
    out: `the server finds: written by the client
the client reads: written
a wrong key: ISO_ERR_COMPLETION, queue pair in ERR
`,
  },
  'sqd-drain': {
    out: `paused: SQD
resumed: 1 SUCCESS, 2 SUCCESS, 3 SUCCESS
drained: 4 WR_FLUSH_ERR, 5 WR_FLUSH_ERR, 6 WR_FLUSH_ERR
then: ERR
`,
  },
  'srq-server': {
    out: `fewer than 6 of 8 receives are left
client 0 says hello
client 1 says hello
client 2 says hello
client 3 says hello
`,
  },
  'ud-hello': { out: "hello, world\nfrom the server's queue pair: true\n" },
  xrc: { out: 'for worker 0\nfor worker 1\n', rxe: null },
};

/** All of them open their devices in the same way, and the rest of this suite tests the features. */
const SOME_SOFT = ['read-write', 'ud-hello'];

describe.skipIf(realOnly)('on simulated devices', () => {
  test.each(Object.entries(EXAMPLES))(
    '%s',
    (name, { out }) => {
      expect(example(name, undefined)).toEqual({ code: 0, out, err: '' });
    },
    PATIENCE_MS,
  );
});

describe.skipIf(realOnly || noSoft !== null)('on the devices of ISOVERBS_PROVIDER=soft', () => {
  for (const [name, { out, soft = out }] of Object.entries(EXAMPLES)) {
    const options = { tags: SOME_SOFT.includes(name) ? [] : ['long'], timeout: PATIENCE_MS };
    test(name, options, () => {
      const result = example(name, undefined, { ISOVERBS_PROVIDER: 'soft' });
      const wanted = typeof soft === 'string' ? soft : expect.stringMatching(soft);
      expect(result).toEqual({ code: 0, out: wanted, err: '' });
    });
  }
});

/** The rest of this suite tests the features themselves; these tests cover starting the examples as processes. */
const SOME = ['completion-events', 'memory-window', 'sqd-drain', 'ud-hello', 'xrc'];

describe.skipIf(rxe === undefined)('on a real device', () => {
  for (const [name, { out, rxe: there = out }] of Object.entries(EXAMPLES)) {
    const options = { tags: SOME.includes(name) ? [] : ['long'], timeout: PATIENCE_MS };
    test(name, options, () => {
      const result = example(name, rxe);
      if (there !== null) expect(result).toEqual({ code: 0, out: there, err: '' });
      else expect([result.code, result.err]).toEqual([1, expect.stringContaining('ISO_ERR_UNSUPPORTED')]);
    });
  }
});

test('every example is short, documented, and tested', () => {
  const shared = ['cli.mjs', 'ends.mjs', 'pingpong-handshake.mjs'];
  const longer = ['file-transfer.mjs', 'kv-store.mjs', 'rc-pingpong.mjs'];
  const readme = readFileSync(join(ROOT, 'examples/README.md'), 'utf8');
  for (const file of readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.mjs'))) {
    if (shared.includes(file)) continue;
    expect(readme).toContain(`\`${file}\``);
    if (longer.includes(file) || file.startsWith('rdma-cm')) continue;
    expect(Object.keys(EXAMPLES)).toContain(file.slice(0, -'.mjs'.length));
    expect(
      readFileSync(join(ROOT, 'examples', file), 'utf8')
        .trim()
        .split('\n').length,
    ).toBeLessThan(60);
  }
});
