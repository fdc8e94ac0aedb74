// Programs that try to escape the limits and the rate of their tenant: they open contexts again and again, many at a time
// or under other names, never run their event loop, or are many processes. On the null device, which completes each
// request at the next poll, under the daemon. Requires a build.
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { frame } from '../../src/daemon/protocol.ts';
import { daemon, folder, type Running, started } from '../daemon/command-rig.ts';
import { reason } from '../daemon/rig.ts';
import { buildNullDevice } from '../fuzz/null-device.mjs';
import { tagsIf } from '../support/variants.ts';

const GREEDY = resolve(import.meta.dirname, 'children/greedy.mjs');
const REGISTER = resolve(import.meta.dirname, '../../dist/register.js');
const MESSAGE_BYTES = 16_384;
const PER_S = 100;
const GBPS = 0.1;
const SECONDS = 2;
/** What a program may get beyond its limit, as docs/daemon.md promises. */
const GAIN = 1.05;
/** What it gets at least, even if it often waits for a CPU and so loses tokens. */
const LEAST = 0.05;
/** What may be spent in advance, once (src/daemon/tenants/accounts.ts). */
const ADVANCE = { requests: 8 + 0.1 * PER_S, bytes: 2 ** 18 + (0.1 * GBPS * 1e9) / 8 + 2 ** 22 };
const TOKEN_BUCKET = { ISOVERBS_POLICY: 'token-bucket:linkGbps=100', BYTES: String(MESSAGE_BYTES) };

const { library, reason: noDevice } = reason === '' ? buildNullDevice() : { library: '', reason };
if (noDevice !== '') console.warn(`skipped: ${noDevice}`);

/** What test/hostile/children/greedy.mjs prints. */
interface Gain {
  readonly completions: number;
  readonly bytes: number;
  readonly qps: number;
  readonly seconds: number;
  readonly waitedMs: number;
}

/** A daemon with one tenant, which has a limit. */
async function limited(limit: object, more: object = {}): Promise<{ socket: string; running: Running }> {
  const path = folder();
  const config = join(path, 'daemon.yaml');
  const rules = [{ match: {}, tenant: 'greedy', ...limit }];
  writeFileSync(config, JSON.stringify({ devices: { null0: { linkGbps: 100 } }, rules, ...more }));
  const socket = join(path, 's');
  return { socket, running: await daemon(socket, ['--config', config], { ISOVERBS_LIBIBVERBS: library }) };
}

function greedy(socket: string, env: Record<string, string>): Running {
  return started(process.execPath, [`--import=${REGISTER}`, GREEDY], {
    ISOVERBS_LIBIBVERBS: library,
    ISOVERBS_DEVICE: 'null0',
    ISOVERBS_DAEMON: socket,
    SECONDS: String(SECONDS),
    ...env,
  });
}

async function gainOf(running: Running): Promise<Gain> {
  const { stdout, stderr, status } = await running.ended;
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout);
}

const TRICKS: [string, Record<string, string>][] = [
  ['posts without pause', { TRICK: 'hold' }],
  ['has 32 contexts', { TRICK: 'hold', CONTEXTS: '32' }],
  ['opens contexts again and again', { TRICK: 'reopen' }],
  ['opens contexts again and again, 8 at a time', { TRICK: 'reopen', CONTEXTS: '8' }],
  ['opens contexts under ever new names', { TRICK: 'names' }],
];
const CASES = TRICKS.flatMap(([what, trick]): [string, Record<string, string>][] => [
  [what, { ...trick, TURNS: '1' }],
  [`${what}, and never runs its event loop`, trick],
]);

/** npm test runs this trick, against the limit. */
const SHORT = /8 at a time/;
const tagsOf = (isRun: boolean) => ({ tags: tagsIf(isRun) });

describe.skipIf(noDevice !== '')('a program that', () => {
  for (const [what, trick] of CASES) {
    const turns = trick.TURNS === '1';
    test(`${what} gets no more than its tenant's requests`, tagsOf(!turns && SHORT.test(what)), async () => {
      const { socket } = await limited({ maxRequestsPerS: PER_S });
      const { completions, seconds } = await gainOf(greedy(socket, trick));
      process.stdout.write(
        `hostile: ${what}: ${(completions / seconds).toFixed(1)} of ${PER_S} requests/s\n`,
      );
      expect(completions).toBeLessThan(GAIN * PER_S * seconds + ADVANCE.requests);
      expect(completions).toBeGreaterThan(LEAST * PER_S * seconds);
    });

    test(`${what} gets no more than its tenant's rate`, tagsOf(false), async () => {
      const { socket } = await limited({ gbps: GBPS });
      const { bytes, seconds } = await gainOf(greedy(socket, { ...TOKEN_BUCKET, ...trick }));
      process.stdout.write(
        `hostile: ${what}: ${((8 * bytes) / seconds / 1e9).toFixed(3)} of ${GBPS} Gbit/s\n`,
      );
      expect(bytes).toBeLessThan((GAIN * GBPS * seconds * 1e9) / 8 + ADVANCE.bytes);
      expect(bytes).toBeGreaterThan((LEAST * GBPS * seconds * 1e9) / 8);
    });
  }
});

/** Runs programs one after the other, several at a time. Returns what they got together, and how long it took. */
async function processes(socket: string, env: Record<string, string>) {
  const beganMs = performance.now();
  const seconds = () => (performance.now() - beganMs) / 1000;
  const gains: Gain[] = [];
  const row = async () => {
    while (seconds() < SECONDS) gains.push(await gainOf(greedy(socket, { SECONDS: '0.2', ...env })));
  };
  await Promise.all([row(), row(), row()]);
  const sum = (key: 'bytes' | 'completions') => gains.reduce((total, one) => total + one[key], 0);
  return { bytes: sum('bytes'), completions: sum('completions'), seconds: seconds(), count: gains.length };
}

describe.skipIf(noDevice !== '')('a tenant with one process after the other', () => {
  test('gets no more than its requests', { tags: ['long'] }, async () => {
    const { socket } = await limited({ maxRequestsPerS: PER_S });
    const { completions, seconds, count } = await processes(socket, { TRICK: 'hold' });
    process.stdout.write(
      `hostile: ${count} processes: ${(completions / seconds).toFixed(1)} of ${PER_S} requests/s\n`,
    );
    expect(completions).toBeLessThan(GAIN * PER_S * seconds + ADVANCE.requests);
  });

  test('gets no more than its rate', { tags: ['long'] }, async () => {
    const { socket } = await limited({ gbps: GBPS });
    const { bytes, seconds, count } = await processes(socket, {
      ...TOKEN_BUCKET,
      TRICK: 'reopen',
      TURNS: '1',
    });
    process.stdout.write(
      `hostile: ${count} processes: ${((8 * bytes) / seconds / 1e9).toFixed(3)} of ${GBPS} Gbit/s\n`,
    );
    expect(bytes).toBeLessThan((GAIN * GBPS * seconds * 1e9) / 8 + ADVANCE.bytes);
  });

  test(
    'gets no more than its queue pairs, in many contexts of several processes at once',
    tagsOf(false),
    async () => {
      const { socket } = await limited({ maxQps: 4 });
      const env = { TRICK: 'qps', CONTEXTS: '4', LINGER_MS: '3000' };
      const gains = await Promise.all([1, 2, 3, 4].map(() => gainOf(greedy(socket, env))));
      expect(gains.reduce((total, { qps }) => total + qps, 0)).toBe(4);
    },
  );
});

describe.skipIf(noDevice !== '')('while the daemon does not answer, a program', () => {
  test('waits at its first queue pair, goes on without the daemon, and says so', {
    tags: ['long'],
  }, async () => {
    const { socket, running } = await limited({ maxRequestsPerS: PER_S });
    running.child.kill('SIGSTOP');
    const program = greedy(socket, { TRICK: 'reopen', SECONDS: '4' });
    const { completions, waitedMs } = await gainOf(program);
    running.child.kill('SIGCONT');
    expect(waitedMs).toBeGreaterThan(1500);
    expect(waitedMs).toBeLessThan(3000);
    expect(completions).toBeGreaterThan(10 * PER_S);
    expect(program.err()).toMatch(/the daemon does not answer\)|has not answered within 2000 ms/);
  });

  test('opens further contexts with what its tenant was granted last', { tags: ['long'] }, async () => {
    const { socket, running } = await limited({ maxRequestsPerS: PER_S });
    const program = greedy(socket, { TRICK: 'later' });
    while (!program.out().includes('stop')) await delay(5);
    running.child.kill('SIGSTOP');
    program.child.stdin?.write('go\n');
    const { stdout, status } = await program.ended;
    running.child.kill('SIGCONT');
    expect(status, program.err()).toBe(0);
    const { completions, seconds, waitedMs } = JSON.parse(stdout.split('\n')[1]);
    expect(waitedMs).toBeLessThan(100);
    expect(completions).toBeLessThan(GAIN * PER_S * seconds + ADVANCE.requests);
    expect(completions).toBeGreaterThan(LEAST * PER_S * seconds);
  });
});

describe.skipIf(noDevice !== '')('after the end of the daemon, a program that opens many contexts', () => {
  async function afterTheEnd(limit: object, env: Record<string, string>): Promise<Gain> {
    const { socket, running } = await limited(limit);
    // After 2 s, the contexts no longer wait for what the daemon grants to each of them.
    const program = greedy(socket, { TRICK: 'later', CONTEXTS: '8', SECONDS: '4', ...env });
    while (!program.out().includes('stop')) await delay(5);
    running.child.kill('SIGKILL');
    await running.ended;
    program.child.stdin?.write('go\n');
    const { stdout, status } = await program.ended;
    expect(status, program.err()).toBe(0);
    return JSON.parse(stdout.split('\n')[1]);
  }

  test(`gets no more than its tenant's requests`, { tags: ['long'] }, async () => {
    const { completions, seconds } = await afterTheEnd({ maxRequestsPerS: PER_S }, {});
    process.stdout.write(
      `hostile: after the end: ${(completions / seconds).toFixed(1)} of ${PER_S} requests/s\n`,
    );
    expect(completions).toBeLessThan(GAIN * PER_S * seconds + ADVANCE.requests);
    expect(completions).toBeGreaterThan(LEAST * PER_S * seconds);
  });

  test(`gets no more than its tenant's rate`, tagsOf(false), async () => {
    const { bytes, seconds } = await afterTheEnd({ gbps: GBPS }, TOKEN_BUCKET);
    process.stdout.write(
      `hostile: after the end: ${((8 * bytes) / seconds / 1e9).toFixed(3)} of ${GBPS} Gbit/s\n`,
    );
    expect(bytes).toBeLessThan((GAIN * GBPS * seconds * 1e9) / 8 + ADVANCE.bytes);
    expect(bytes).toBeGreaterThan((LEAST * GBPS * seconds * 1e9) / 8);
  });
});

describe.skipIf(noDevice !== '')('a program that the daemon refuses', () => {
  test('gets no queue pair while others have all connections, and one afterwards', {
    tags: ['long'],
    timeout: 30_000,
  }, async () => {
    const { socket } = await limited({}, { limits: { clients: 1, clientsOfAUser: 1, reserved: 0 } });
    const idle = greedy(socket, { TRICK: 'later' });
    while (!idle.out().includes('stop')) await delay(5);
    const none = greedy(socket, { TRICK: 'qps' });
    expect((await gainOf(none)).qps).toBe(0);
    expect(none.err()).toMatch(/1 clients are connected.*: contexts without grants get no queue pairs until/);
    const refused = greedy(socket, { TRICK: 'insist' });
    while (!refused.err().includes('createQp')) await delay(5);
    expect(refused.err()).toMatch(/createQp: .*1 clients are connected, which is the limit/);
    idle.child.kill();
    expect((await gainOf(refused)).qps).toBe(1);
  });

  test('continues without the daemon if they speak different versions', async () => {
    const socket = join(folder(), 's');
    const server = createServer((peer) => peer.end(frame({ type: 'refused', reason: 'sent protocol 1' })));
    await new Promise<void>((done) => server.listen(socket, done));
    const program = greedy(socket, { TRICK: 'qps' });
    expect((await gainOf(program)).qps).toBe(16);
    expect(program.err()).toMatch(/sent protocol 1\): continuing without it/);
    server.close();
  });
});
