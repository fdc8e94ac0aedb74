// Policies in worker threads are ordinary clients of the daemon: real processes over simulated devices.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import type { TenantRow } from '../../src/daemon/protocol.ts';
import { MAIN } from '../support/main.ts';
import { reason } from './rig.ts';
import { cleanEnv, PROGRAMS, World } from './world.ts';

const LINK_GBPS = 100;
const TENANT = join(PROGRAMS, 'tenant.mjs');
const run = promisify(execFile);

let world: World;
afterEach(() => world?.close());

async function begin(policy: string, tenants: Record<string, NodeJS.ProcessEnv>): Promise<void> {
  world = new World(`devices: {sim0: {linkGbps: ${LINK_GBPS}}}\npolicy: ${policy}\n`);
  await world.startDaemon();
  for (const [name, env] of Object.entries(tenants)) {
    world.start(name, [TENANT], { ISOVERBS_DRIVER: 'worker', ISOVERBS_POLICY: policy, ...env });
  }
}

const isoverbs = async (...words: string[]) =>
  (await run(process.execPath, [MAIN, ...words, '--socket', world.socket], { env: cleanEnv() })).stdout;

/** The daemon's report of its tenants, once it meets the condition. */
async function rows(
  isSo: (byName: Record<string, TenantRow>) => boolean,
): Promise<Record<string, TenantRow>> {
  const end = performance.now() + 20_000;
  for (;;) {
    const all = await world.tenantRows();
    const byName = Object.fromEntries(all.map((row) => [row.tenant, row]));
    if (isSo(byName)) return byName;
    await delay(20);
    if (performance.now() > end) throw new Error(`never came true: ${isSo} of ${JSON.stringify(all)}`);
  }
}

const share = (row: TenantRow | undefined) => Math.round(row?.rateGbps ?? 0);

test.skipIf(reason !== '')(
  'shares of 1:3, totals, and a limit',
  { tags: ['long'], timeout: 60_000 },
  async () => {
    await begin('token-bucket', { one: { ISOVERBS_WEIGHT: '1' }, three: { ISOVERBS_WEIGHT: '3' } });
    const { one, three } = await rows(
      (now) => share(now.one) === LINK_GBPS / 4 && share(now.three) === (LINK_GBPS * 3) / 4,
    );
    expect([one.processes, three.processes]).toEqual([1, 1]);
    await rows((now) => now.one.sentRequests > one.sentRequests && now.one.latencyNs > 0);
    await isoverbs('set', 'one', 'maxRequestsPerS=100');
    const limited = await rows((now) => now.one.heldRequests > 0 && now.one.maxRequestsPerS === 100);
    expect(await isoverbs('tenants')).toMatch(/^sim0 +one +.* 100\/s( |$)/m);
    // The other tenant may hold some requests for a moment; it has no limit, and continues.
    expect(limited.three.maxRequestsPerS).toBeNull();
    await rows((now) => now.three.sentRequests >= limited.three.sentRequests + 100);
    for (const { errors, stderr } of world.tenants) expect([errors, stderr]).toEqual([[], '']);
    // The other tenant continues alone with the whole link.
    world.tenants[0].child.kill('SIGKILL');
    await rows((now) => now.one === undefined && share(now.three) === LINK_GBPS);
  },
);

test.skipIf(reason !== '')(
  "perf splits a tenant's messages when they delay another tenant",
  { tags: ['long'], timeout: 60_000 },
  async () => {
    await begin('perf', { long: {}, short: { ISOVERBS_TRAFFIC: 'latency' } });
    const { long, short } = await rows((now) => now.long?.split && now.short?.class === 'delay');
    expect([long.class, short.split]).toEqual(['bandwidth', false]);
    await rows((now) => now.long.sentRequests > long.sentRequests);
    for (const { errors, stderr } of world.tenants) expect([errors, stderr]).toEqual([[], '']);
    world.tenants[1].child.kill('SIGKILL');
    await rows((now) => now.short === undefined && !now.long.split);
  },
);
