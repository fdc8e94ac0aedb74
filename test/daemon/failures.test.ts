// Processes and a daemon that die, stop or spin, in rounds under load. ISOVERBS_DAEMON_ROUNDS=full runs 200 rounds of
// each and checks the time bounds; a number runs that many rounds without the bounds. By default a few rounds show that
// nothing is lost and nothing stalls.
// @module-tag wide
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eachShort, variants } from '../support/variants.ts';
import { reason } from './rig.ts';
import { type Holdings, holdings, nowNs, PROGRAMS, type Tenant, until, World, waitedNs } from './world.ts';

const IS_FULL = process.env.ISOVERBS_DAEMON_ROUNDS === 'full';
const ROUNDS = IS_FULL ? 200 : Number(process.env.ISOVERBS_DAEMON_ROUNDS ?? 3);
/** Processes started before they are needed. */
const SPARES = 4;
const PROGRAM = join(PROGRAMS, 'tenant.mjs');
const THIRD = 100 / 3;
const HALF = 50;
const ROUND_OFF = 1e-6;
/** The upper limit for every delay, however busy the machine is. */
const NEVER_MS = 5000;
const TIMEOUT_MS = 120_000 + ROUNDS * 20_000;
const GROWTH_BYTES = 48 << 20;

const percentile = (sorted: readonly number[], p: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))];

/** A delay, and the part of it not explained by the participants' waiting for a CPU. */
interface Delay {
  readonly ms: number;
  readonly ownMs: number;
}

const spread = (ms: readonly number[]) => {
  const sorted = [...ms].sort((a, b) => a - b);
  return [0.5, 0.99, 1].map((p) => percentile(sorted, p).toFixed(2)).join(' / ');
};

/**
 * Prints the measurements. In a full run, the median of the unexplained part must stay within the bound; larger values
 * are counted, and none may exceed NEVER_MS.
 */
function judge(what: string, delays: readonly Delay[], boundMs: number): void {
  const [ms, own] = [delays.map((one) => one.ms), delays.map(({ ownMs }) => Math.max(0, ownMs))];
  const within = (list: readonly number[]) => list.filter((one) => one <= boundMs).length;
  const line =
    `${what}: p50 / p99 / max ${spread(ms)} ms, ${within(ms)} of ${ms.length} within ${boundMs} ms; ` +
    `without waiting for a CPU ${spread(own)} ms, ${within(own)} within`;
  process.stdout.write(`failures: ${line}\n`);
  expect(Math.max(...ms), line).toBeLessThan(NEVER_MS);
  if (IS_FULL)
    expect(
      percentile(
        [...own].sort((a, b) => a - b),
        0.5,
      ),
      line,
    ).toBeLessThanOrEqual(boundMs);
}

describe.skipIf(reason !== '')('failures', () => {
  const world = new World();
  let observers: Tenant[] = [];
  let before: Holdings[] = [];
  const victimOf = () => world.start('victim', [PROGRAM]);
  const share = (gbps: number) => (tenant: Tenant) =>
    tenant.last.joined && Math.abs(tenant.last.rate - gbps) < ROUND_OFF;
  const all = (gbps: number, tenants: readonly Tenant[]) =>
    until(`all have ${gbps} Gbit/s`, () => tenants.every(share(gbps)));

  beforeAll(async () => {
    await world.startDaemon();
    observers = ['a', 'b'].map((name) => world.run(name, [process.execPath, PROGRAM]));
    await all(HALF, observers);
    const victim = victimOf();
    await all(THIRD, [...observers, victim]);
    victim.say('exit');
    await victim.ended;
    await all(HALF, observers);
    before = observers.map(({ pid }) => holdings(pid));
  }, TIMEOUT_MS);
  afterAll(() => world.close(), TIMEOUT_MS);

  /** Gaps between completions of the observers since the last report. */
  const gapsOf = async (): Promise<Delay[]> => {
    const reports = await Promise.all(observers.map((one) => one.report()));
    return reports.map(({ gapNs, ownGapNs }) => ({ ms: gapNs / 1e6, ownMs: ownGapNs / 1e6 }));
  };
  /** Checks that no data was lost, duplicated, reordered or changed, and that every observer has a rate. */
  const isSound = (...tenants: readonly Tenant[]) => {
    for (const { errors, stderr, changes } of [...observers, ...tenants]) {
      const others = stderr.replaceAll(
        /isoverbs: (?:no connection|connected|reconnected) to the daemon.*\n/g,
        '',
      );
      expect([errors, others]).toEqual([[], '']);
      expect(changes.filter(({ rate }) => !(rate > 0))).toEqual([]);
    }
  };
  const waits = () => [daemonPid(), ...observers.map(({ pid }) => pid)].map(waitedNs);
  /**
   * The time from `fromNs` until the slower observer got its part of the victim's share; `was` is an earlier result of
   * waits().
   */
  const back = async (fromNs: number, was: readonly number[]): Promise<Delay> => {
    const found = await Promise.all(observers.map((one) => one.reaches(HALF - ROUND_OFF, fromNs)));
    const daemonNs = waitedNs(daemonPid()) - was[0];
    const delays = found.map(({ ns, waitedNs }, i) => {
      const ms = (ns - fromNs) / 1e6;
      return { ms, ownMs: ms - (daemonNs + waitedNs - was[1 + i]) / 1e6 };
    });
    return {
      ms: Math.max(...delays.map(({ ms }) => ms)),
      ownMs: Math.max(...delays.map(({ ownMs }) => ownMs)),
    };
  };
  const daemonPid = () => world.daemon!.pid!;

  variants(
    'a tenant that ends by %s returns its share',
    ['kill', 'exit'] as const,
    async (how) => {
      const backs: Delay[] = [];
      const gaps: Delay[] = [];
      const held = holdings(daemonPid());
      const spares: Tenant[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const wanted = spares.length > 0 ? 0 : Math.min(SPARES, ROUNDS - round);
        for (let i = 0; i < wanted; i++) {
          spares.push(world.start('victim', [PROGRAM], { GATE: '1' }));
        }
        await until('they are ready', () => spares.every(({ isReady }) => isReady));
        const victim = spares.shift()!;
        victim.say('go');
        await all(THIRD, [...observers, victim]);
        await gapsOf();
        const was = waits();
        let fromNs = nowNs();
        if (how === 'kill') process.kill(victim.pid, 'SIGKILL');
        else {
          victim.say(round % 2 === 0 ? 'exit' : 'quit');
          await until('it leaves', () => victim.marksNs.length > 0);
          fromNs = victim.marksNs[0];
        }
        backs.push(await back(fromNs, was));
        gaps.push(...(await gapsOf()));
        await victim.ended;
        isSound(victim);
        world.tenants.splice(world.tenants.indexOf(victim), 1);
      }
      judge(`${how} of a tenant, share back`, backs, 10);
      judge(`${how} of a tenant, longest gap between completions of the others`, gaps, 100);
      await until('the daemon lets go', () => holdings(daemonPid()).fds === held.fds);
      expect(holdings(daemonPid()).memories).toBe(held.memories);
      expect(holdings(daemonPid()).rssBytes - held.rssBytes).toBeLessThan(GROWTH_BYTES);
    },
    { timeout: TIMEOUT_MS },
  );

  eachShort(1, ['stop', 'spin'] as const)(
    'a tenant made to %s lends its share until it continues',
    async (how) => {
      const backs: Delay[] = [];
      const gaps: Delay[] = [];
      const victim = victimOf();
      const spinFile = join(world.folder, 'spin');
      await all(THIRD, [...observers, victim]);
      for (let round = 0; round < ROUNDS; round++) {
        await all(THIRD, [...observers, victim]);
        await gapsOf();
        const was = waits();
        let fromNs = nowNs();
        if (how === 'stop') process.kill(victim.pid, 'SIGSTOP');
        else {
          writeFileSync(spinFile, '');
          victim.say(`spin ${spinFile}`);
          await until('it spins', () => victim.marksNs.length > round);
          fromNs = victim.marksNs[round];
        }
        backs.push(await back(fromNs, was));
        gaps.push(...(await gapsOf()));
        if (how === 'stop') process.kill(victim.pid, 'SIGCONT');
        else rmSync(spinFile);
      }
      await all(THIRD, [...observers, victim]);
      isSound(victim);
      judge(`${how} of a tenant, share back`, backs, 100);
      judge(`${how} of a tenant, longest gap between completions of the others`, gaps, 100);
      victim.say('exit');
      await victim.ended;
      await all(HALF, observers);
    },
    TIMEOUT_MS,
  );

  variants(
    'after %s of the daemon, all tenants continue and join the next one',
    ['SIGKILL', 'SIGTERM'] as const,
    async (signal) => {
      const joins: Delay[] = [];
      const gaps: Delay[] = [];
      if (world.daemon === null) await world.startDaemon();
      await all(HALF, observers);
      for (let round = 0; round < ROUNDS; round++) {
        await gapsOf();
        await world.endDaemon(signal);
        const seen = observers.map(({ changes }) => changes.length);
        await until('they know', () => observers.every(({ last }) => !last.joined));
        const sent = await Promise.all(observers.map((one) => one.report()));
        // On a busy machine one observer may have counted as silent at that moment; the other then has the whole link.
        for (const { rate } of sent) expect(rate).toBeGreaterThan(HALF - ROUND_OFF);
        await world.startDaemon();
        const was = waits();
        const fromNs = nowNs();
        await all(HALF, observers);
        const joined = observers.map(({ last }, i) => {
          const ms = Math.max(0, last.ns - fromNs) / 1e6;
          return { ms, ownMs: ms - (waitedNs(daemonPid()) - was[0] + last.waitedNs - was[1 + i]) / 1e6 };
        });
        joins.push(...joined);
        gaps.push(...(await gapsOf()));
        expect(observers.every(({ changes }, i) => changes.length > seen[i])).toBe(true);
        isSound();
      }
      judge(`${signal} of the daemon, until all have joined the next`, joins, 1100);
      judge(`${signal} of the daemon, longest gap between completions`, gaps, 100);
    },
    { timeout: TIMEOUT_MS },
  );

  test('afterwards no process has more descriptors or memory than before', async () => {
    await until('as many descriptors', () =>
      observers.every(({ pid }, i) => holdings(pid).fds === before[i].fds),
    );
    const after = observers.map(({ pid }) => holdings(pid));
    expect(after.map(({ memories }) => memories)).toEqual(before.map(({ memories }) => memories));
    for (const [i, { rssBytes }] of after.entries())
      expect(rssBytes - before[i].rssBytes).toBeLessThan(2 * GROWTH_BYTES);
  });
});
