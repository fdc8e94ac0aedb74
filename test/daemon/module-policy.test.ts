// A policy of a module outside src joins the daemon with a ruler of its own: real processes over simulated devices.
// @module-tag wide
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { TenantRow } from '../../src/daemon/protocol.ts';
import { BUILT } from '../support/main.ts';
import { variants } from '../support/variants.ts';
import { reason } from './rig.ts';
import { cleanEnv, PROGRAMS, World } from './world.ts';

const run = promisify(execFile);
const TENANT = join(PROGRAMS, 'tenant.mjs');
const ROOT = resolve(import.meta.dirname, '../..');
const MODULE = join(ROOT, 'examples/policies/demand-shares.mjs');
const RECEIVERS = join(ROOT, 'examples/policies/receiver-shares.mjs');
const PATIENCE_MS = 30_000;
const TIMEOUT_MS = 120_000;

/** So little that both tenants demand more most of the time. */
const CONFIG = `
devices: { sim0: { linkGbps: 4 } }
policy: ${MODULE}
rules: [{ match: { declared: three }, weight: 3 }]
`;

/** What a tenant that demands all it can get is granted. */
const granted = (rateGbps: number) => ({ rateGbps, demandGbps: 1e5, processes: 1, qps: 4 });

/** Waits until the daemon shows exactly these tenants with these rates. */
async function untilRatesAre(world: World, expected: Readonly<Record<string, number>>) {
  const endMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const rows = await world.tenantRows().catch(() => []);
    const seen = Object.fromEntries(rows.map(({ tenant, rateGbps }) => [tenant, rateGbps]));
    if (isDeepStrictEqual(seen, expected)) return;
    if (performance.now() > endMs) return expect(seen, world.log).toEqual(expected);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * Waits until the daemon shows exactly these tenants at one moment. The columns must match together: an idle tenant's
 * share is the same number, and a busy machine may keep a tenant from demanding more.
 */
async function untilTenantsAre(world: World, expected: Readonly<Record<string, object>>) {
  const endMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const all: TenantRow[] = await world.tenantRows();
    const seen = Object.fromEntries(
      all.map((row) => {
        const { tenant, rateGbps, demandGbps, processes, qps } = row as TenantRow & { demandGbps: number };
        return [tenant, { rateGbps, demandGbps, processes, qps }];
      }),
    );
    if (isDeepStrictEqual(seen, expected)) return;
    if (performance.now() > endMs) return expect(seen, world.log).toEqual(expected);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

variants(
  'processes with the driver %s share by weight; the share of one that is killed goes to the other',
  ['inline', 'worker'],
  async (driver) => {
    await using world = new World(CONFIG);
    await world.startDaemon();
    const env = { ISOVERBS_POLICY: MODULE, ISOVERBS_DRIVER: driver };
    const [one, three] = ['one', 'three'].map((name) => world.start(name, [TENANT], env));
    await untilTenantsAre(world, { one: granted(1), three: granted(3) });
    three.kill();
    await untilTenantsAre(world, { one: granted(4) });
    for (const tenant of [one, three]) expect([tenant.errors, tenant.stderr]).toEqual([[], '']);
  },
  { timeout: TIMEOUT_MS, skip: reason !== '' },
);

variants(
  'processes with the driver %s share their receiver, as agents in the daemon decide',
  ['inline', 'worker'],
  async (driver) => {
    await using world = new World(`devices: { sim0: { linkGbps: 4 } }\npolicy: ${RECEIVERS}`);
    await world.startDaemon();
    const env = { ISOVERBS_POLICY: RECEIVERS, ISOVERBS_DRIVER: driver };
    const [a, b] = ['a', 'b'].map((name) => world.start(name, [TENANT], env));
    await untilRatesAre(world, { a: 2, b: 2 });
    b.kill();
    await untilRatesAre(world, { a: 4 });
    // A new daemon, whose agents know nothing, learns it from the lines.
    await world.endDaemon('SIGTERM');
    await world.startDaemon();
    const c = world.start('c', [TENANT], env);
    await untilRatesAre(world, { a: 2, c: 2 });
    for (const tenant of [a, b, c]) expect(tenant.errors).toEqual([]);
    expect([b.stderr, c.stderr]).toEqual(['', '']);
    expect(world.log).toContain('opening sim0 for agents');
  },
  { timeout: TIMEOUT_MS, skip: reason !== '' },
);

test.skipIf(reason !== '')(
  'isoverbs run takes the module from the daemon, wherever the program runs',
  async () => {
    await using world = new World(CONFIG);
    await world.startDaemon();
    const words = [BUILT, 'run', '--socket', world.socket, '--', process.execPath];
    const program = [join(ROOT, 'examples/file-transfer.mjs'), '--size', '2M'];
    const { stdout, stderr } = await run(process.execPath, [...words, ...program], {
      cwd: world.folder,
      env: { ...cleanEnv(), ISOVERBS_LOG: 'info' },
    });
    expect(stdout).not.toBe('');
    expect(stderr).toMatch(/: connected to the daemon/);
    expect(stderr).toMatch(/policy \S*demand-shares\.mjs .*[1-9]\d* held/);
  },
  TIMEOUT_MS,
);
