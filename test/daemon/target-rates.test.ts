// Rates of groups and queue pairs that an operator gives to running programs under tassel.
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, test } from 'vitest';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { command } from '../mix/command.ts';
import { BUILT } from '../support/main.ts';
import { MAIN } from './command-rig.ts';
import { REST, Sender, send, worldOf } from './rated-senders.ts';
import { reason } from './rig.ts';
import { cleanEnv, PROGRAMS, until, type World } from './world.ts';

const TIMEOUT_MS = 120_000;
/** The address of the simulated host `sim` with this number. */
const addressOf = (host: number) => `10.0.0.${host + 1}`;

/** `isoverbs ARGS` as a process, because tests run at the same time. */
const isoverbs = (world: World, name: string, ...args: string[]) =>
  new Promise<{ code: number; out: string; err: string }>((done) => {
    const child = execFile(
      process.execPath,
      [MAIN, name, '--socket', world.socket, ...args],
      { env: cleanEnv() },
      (_, out, err) => done({ code: child.exitCode ?? -1, out, err }),
    );
  });
const set = (world: World, ...words: string[]) => isoverbs(world, 'set', ...words);
const DONE = { code: 0, err: '' };
const NO_QP = /no queue pair of tenant 'a' has this rate now; it will apply to queue pairs that match /;

const LONG = { tags: ['long'] };

const rateOf = async (world: World) =>
  (await world.tenantRows()).map(({ rates, ratedQps }) => ({ rates, ratedQps }));

describe.skipIf(reason !== '')('rates of targets', { concurrent: true, timeout: TIMEOUT_MS }, () => {
  test('the queue pairs of a group share its rate, in all processes', LONG, async () => {
    await using world = await worldOf();
    using one = new Sender(world, 'a', [{ group: 'kv' }, { group: 'kv' }, { kbps: 20e6 }]);
    await send([one], [[REST, REST, 20]]);
    expect(await set(world, 'a/group=kv', 'gbps=10')).toMatchObject(DONE);
    await send([one], [[5, 5, 20]]);
    expect(await rateOf(world)).toEqual([{ rates: { 'group=kv': 10 }, ratedQps: { 'group=kv': 2 } }]);
    using two = new Sender(world, 'a', [{ group: 'kv' }]);
    using three = new Sender(world, 'a', [{ group: 'other' }]);
    await send([one, two, three], [[2.5, 2.5, 20], [5], [REST]]);
    two.kill();
    await send([one], [[5, 5, 20]]);
    expect(await set(world, 'a/group=kv', 'gbps=none')).toMatchObject(DONE);
    await send([one], [[REST, REST, 20]]);
    expect(await rateOf(world)).toEqual([{}]);
  });

  test('each queue pair to a peer has the rate of that peer', { tags: ['long'] }, async () => {
    await using world = await worldOf();
    using one = new Sender(world, 'a', [{ to: 1, kbps: 20e6 }, { to: 2, kbps: 20e6 }, { to: 2 }]);
    await send([one], [[20, 20, REST]]);
    expect(await set(world, `a/qp=${addressOf(2)}`, 'gbps=4')).toMatchObject(DONE);
    await send([one], [[20, 4, 4]]);
    // The lowest rate holds: that of the program, of the address, and of the tenant.
    expect(await set(world, 'a/qp=10.*', 'gbps=12')).toMatchObject(DONE);
    await send([one], [[12, 4, 4]]);
    expect(await set(world, 'a/qp=::ffff:10.0.0.2', 'gbps=30')).toMatchObject(DONE);
    expect(await set(world, 'a', 'gbps=8')).toMatchObject(DONE);
    await send([one], [[2.67, 2.67, 2.67]], 0.03);
    expect(await set(world, 'a', 'gbps=none')).toMatchObject(DONE);
    expect(await set(world, 'a/qp=10.*', 'gbps=none')).toMatchObject(DONE);
    await send([one], [[20, 4, 4]]);
    const table = await isoverbs(world, 'tenants');
    expect(table.out).toContain('qp=10.0.0.2 30 Gbit/s (1 QP), qp=10.0.0.3 4 Gbit/s (2 QPs)');
  });

  test('a configuration gives rates, which an operator may remove', LONG, async () => {
    await using world = await worldOf('rules: [{ rates: { group=kv: 10, qp=10.0.0.3: 1 } }]\n');
    using one = new Sender(world, 'a', [{ group: 'kv' }, { to: 2, group: 'kv' }, { to: 2 }]);
    await send([one], [[9, 1, 1]]);
    expect(await set(world, `a/qp=${addressOf(2)}`, 'gbps=none')).toMatchObject(DONE);
    await send([one], [[5, 5, REST]]);
  });

  test('a rate without a queue pair is kept for those that come, and the command says so', LONG, async () => {
    await using world = await worldOf();
    const absent = await set(world, 'a/group=kv', 'gbps=10', '--future');
    expect(absent.code).toBe(0);
    expect(absent.err).toContain("no tenant 'a' is present now; the setting applies once one connects");
    using one = new Sender(world, 'a', [{ group: 'kv' }, { group: 'late' }]);
    await send([one], [[10, REST]]);
    for (const target of ['group=none', 'qp=10.9.9.9']) {
      const { code, err } = await set(world, `a/${target}`, 'gbps=10');
      expect({ target, code }).toEqual({ target, code: 0 });
      expect(err).toMatch(NO_QP);
    }
    const { code, err } = await set(world, 'a/group=kv', 'gbps=101');
    expect({ code, err }).toMatchObject({
      code: 1,
      err: expect.stringContaining('the rate of group=kv must be at most 100 Gbit/s, the rate of the link'),
    });
    await send([one], [[10, REST]]);
  });
});

describe.skipIf(reason !== '')('isoverbs bench', { timeout: TIMEOUT_MS }, () => {
  test("--run_infinitely has the lower one of its own rate and the operator's", {
    tags: ['long'],
  }, async () => {
    await using world = await worldOf();
    const args = ['write_bw', '--provider', 'sim', '--run_infinitely', '-D', '1', '--report_gbits'];
    const bench = spawn(
      process.execPath,
      [
        MAIN,
        'run',
        '--socket',
        world.socket,
        '--',
        process.execPath,
        BUILT,
        'bench',
        ...args,
        '--rate_limit',
        '2',
      ],
      { env: cleanEnv(), stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const rows: string[][] = [];
    createInterface({ input: bench.stdout }).on('line', (line) => {
      if (/^ *65536 /.test(line)) rows.push(line.trim().split(/\s+/));
    });
    const has = (gbps: number) => Math.abs(Number(rows.at(-1)?.[3]) / gbps - 1) < 0.03;
    try {
      await until('2 Gbit/s', () => has(2));
      expect(await set(world, 'bench/qp=10.0.0.2', 'gbps=0.5')).toMatchObject(DONE);
      await until('.5 Gbit/s', () => has(0.5));
      expect((await world.tenantRows()).map(({ ratedQps }) => ratedQps)).toEqual([
        { 'qp=10.0.0.2': 1 },
        { 'qp=10.0.0.2': 0 },
      ]);
      expect(await set(world, 'bench/qp=10.0.0.2', 'gbps=none')).toMatchObject(DONE);
      await until('2 Gbit/s again', () => has(2));
    } finally {
      bench.kill();
    }
  });
});

describe.skipIf(reason !== '')('an agent in the daemon', { timeout: TIMEOUT_MS }, () => {
  test('sets the rates of queue pairs, next to an operator', { tags: ['long'] }, async () => {
    const module = join(PROGRAMS, 'rate-agent.mjs');
    await using world = await worldOf('', module);
    using one = new Sender(world, 'a', [{}, { to: 2 }, { kbps: 3e6 }], module);
    await send([one], [[10, 5, 3]]);
    expect(await set(world, 'a/qp=10.0.0.2', 'gbps=2')).toMatchObject(DONE);
    await send([one], [[2, 5, 2]]);
    // The next daemon has an agent that knows nothing, and no settings.
    await world.endDaemon('SIGKILL');
    await world.startDaemon();
    await send([one], [[10, 5, 3]]);
  });
});

test('the command refuses wrong rates and targets', async () => {
  for (const word of ['gbps=0', 'gbps=-1', 'gbps=NaN', 'gbps=Infinity', 'gbps=', 'gbps=x', 'gbps=1e9x']) {
    const { code, err } = await command('set', '--socket', '/none', 'a/group=kv', word);
    expect({ word, code }).toEqual({ word, code: 2 });
    expect(err).toContain(`invalid setting '${word}'`);
  }
  for (const words of [['weight=2'], ['gbps=share'], ['gbps=1', 'weight=2']]) {
    const { code, err } = await command('set', '--socket', '/none', 'a/group=kv', ...words);
    expect({ words, code }).toEqual({ words, code: 2 });
    expect(err).toContain(`invalid setting '${words.join(' ')}' of group=kv; use gbps=NUMBER, or gbps=none`);
  }
  for (const target of [
    'group=',
    'qp=',
    'qp=host',
    'qp=300.0.0.1',
    'qp=1::2::3',
    'qb=1',
    'qp=10.0.0.1x',
    '=1',
  ]) {
    const { code, err } = await command('set', '--socket', '/none', `a/${target}`, 'gbps=1');
    expect({ target, code }).toEqual({ target, code: 2 });
    expect(err).toContain(`invalid target '${target}' of tenant 'a'; use group=NAME, or qp=ADDRESS`);
  }
});

test('a configuration is refused for wrong rates and targets', () => {
  const rates = (text: string) => () =>
    parseDaemonConfig(`rules: [{ rates: { ${text} } }]`, 'f').rules[0].rates;
  expect(rates('group=kv: 3, "qp=FE80:0::1": 1, qp=::ffff:10.0.0.1: 2')()).toEqual({
    'group=kv': 3,
    'qp=fe80::1': 1,
    'qp=10.0.0.1': 2,
  });
  for (const wrong of ['kv: 1', 'group=: 1', 'qp=host: 1'])
    expect(rates(wrong)).toThrow('f: rules.0.rates: must have keys that are group=NAME, or qp=ADDRESS');
  for (const wrong of ['0', '-1', '.nan', '.inf', 'x', '1e7'])
    expect(rates(`group=kv: ${wrong}`)).toThrow('f: rules.0.rates.group=kv: ');
  const many = Array.from({ length: 129 }, (_, i) => `group=${i}: 1`).join(', ');
  expect(rates(many)).toThrow('f: rules.0.rates: must have at most 128 rates');
});
