// Two daemons and a NATS server, with a device each: as on two hosts, because neither daemon knows the other's device.
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { pollUntil } from '../../bench/processes/programs.ts';
import { TestBed } from '../../bench/processes/test-bed.ts';
import { COMMAND } from '../../bench/root.ts';
import { afterTest, FleetMember, started, until } from '../daemon/fleet-rig.ts';
import { natsReason } from '../daemon/nats.ts';
import { defined, gidIndexOf, skipReason } from './rig.ts';

const [NEAR, FAR] = [process.env.RXE_DEV ?? '', process.env.RXE_DEV2 ?? ''];
const reason = skipReason || natsReason || (FAR === '' ? 'there are not two devices' : '');
if (reason !== '') console.warn(`fleet tests are skipped: ${reason}`);

const RECEIVER_SHARES = resolve(import.meta.dirname, '../../examples/policies/receiver-shares.mjs');
const LINK_GBPS = 0.04;
const MESSAGES = 200;
/** The time in which what an agent sends takes effect. */
const EFFECT_MS = 50;
const LONG_MS = 240_000;

function member(url: string, device: string): FleetMember {
  const { provider } = defined();
  const context = provider.openDevice(device);
  const { gid } = provider.queryGid(context, 1, gidIndexOf(provider, context));
  provider.closeDevice(context);
  return new FleetMember(url, device, gid, provider);
}

describe.skipIf(reason !== '')('a fleet', { timeout: 600_000 }, () => {
  // On an emulated machine, most of the time is waiting for a CPU.
  test('a message of an agent arrives within 50 ms, and agents probe each other', { retry: 2 }, async () => {
    const { url } = await started();
    const [a, b] = [member(url, NEAR), member(url, FAR)];
    await a.meet(b);
    const takenMs: number[] = [];
    let sentMs = 0;
    b.agent.heard = () => takenMs.push(performance.now() - sentMs);
    for (let i = 1; i <= MESSAGES; i++) {
      sentMs = performance.now();
      a.agent.out.send(0, [i, i / 7]);
      await until(() => expect(takenMs).toHaveLength(i));
      await delay(5);
    }
    takenMs.sort((x, y) => x - y);
    const [median, p99] = [takenMs[MESSAGES / 2], takenMs[Math.floor(0.99 * MESSAGES)]];
    console.log(`a message takes ${median.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`);
    expect(median).toBeLessThan(EFFECT_MS);
    for (const { agent } of [a, b]) {
      // On an emulated machine, connecting may take longer than a probe may.
      const measured = () => agent.probes.filter((latencyNs) => latencyNs > 1000);
      for (let i = 1; i <= 100 && measured().length < 10; i++) {
        agent.out.probe(0, 10);
        await until(() => expect(agent.probes).toHaveLength(i));
      }
      expect(measured()).toHaveLength(10);
    }
    expect([a.warnings, b.warnings]).toEqual([[], []]);
  });

  test('a receiver whose daemon is another one shares its link among the senders', {
    tags: ['long'],
  }, async () => {
    const nats = await started();
    const ground = new TestBed({ near: NEAR, far: FAR });
    afterTest(() => ground.close());
    const { programs } = ground;
    const config = (device: string) =>
      ground.file(`policy: '${RECEIVER_SHARES}'\ndevices: { ${device}: { linkGbps: ${LINK_GBPS} } }\n`);
    const flags = (device: string) => ['--config', config(device), '--device', device, '--fleet', nats.url];
    const far = programs.start([
      ...[COMMAND, 'daemon', '--socket', `${programs.socket}.far`, '--agent', FAR],
      ...flags(FAR),
    ]);
    const [, near] = await Promise.all([ground.serve(), programs.daemon(...flags(NEAR))]);
    const [a, b] = ['a', 'b'].map((tenant) => ground.transfer({ tenant }, 3600));
    const haveRate = async (tenants: readonly string[], gbps: number) => {
      let last = '';
      await pollUntil(
        async () => {
          const rows = await programs.tenants();
          last = JSON.stringify(rows);
          const rates = tenants.map((tenant) => rows.find((row) => row.tenant === tenant)?.rateGbps ?? 0);
          return rates.every((rate) => Math.abs(rate - gbps) < gbps / 100) || null;
        },
        LONG_MS,
        () => `${last}; ${programs.output}`,
      );
    };
    await haveRate(['a', 'b'], LINK_GBPS / 2);
    process.kill(b.tenantPid, 'SIGKILL');
    await haveRate(['a'], LINK_GBPS);
    a.kill('SIGINT');
    await a.done();
    for (const [daemon, device] of [
      [near, NEAR],
      [far, FAR],
    ] as const) {
      expect(daemon.output).toContain(`opening ${device} for agents`);
      expect(daemon.output).toContain('other daemons in the fleet: 1');
    }
  });
});
