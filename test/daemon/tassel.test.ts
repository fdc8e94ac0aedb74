// The policy tassel under a daemon: rates of tenants hold over all their processes, which come, go and are killed, and
// rates that exceed the link are reduced alike in all processes.
import { describe, test } from 'vitest';
import { request } from '../../src/daemon/client/tool-request.ts';
import { Sender, send, worldOf } from './rated-senders.ts';
import { reason } from './rig.ts';
import type { World } from './world.ts';

const TIMEOUT_MS = 120_000;

/** About what a program without a rate sends: its messages are whole, so they have fewer headers than are counted. */
const ALL = [97];

const set = (world: World, tenant: string, setting: object) =>
  request(world.socket, { type: 'set', tenant, ...setting });

describe.skipIf(reason !== '')('tassel under a daemon', { concurrent: true, timeout: TIMEOUT_MS }, () => {
  test('a rate bounds all processes of the tenant, whose parts a killed one gives back', {
    tags: ['long'],
  }, async () => {
    await using world = await worldOf();
    using one = new Sender(world, 'a', [{}]);
    await send([one], ALL, 0.05);
    await set(world, 'a', { gbps: 10 });
    await send([one], [10]);
    using two = new Sender(world, 'a', [{}]);
    await send([one, two], [5, 5]);
    two.kill();
    await send([one], [10]);
    await set(world, 'a', { gbps: null });
    await send([one], ALL, 0.05);
  });

  test('rates that exceed the link are reduced alike, until one is killed', { tags: ['long'] }, async () => {
    await using world = await worldOf();
    using one = new Sender(world, 'a', [{ kbps: 90e6 }]);
    using two = new Sender(world, 'b', [{ kbps: 60e6 }]);
    const sum = 150 / 99.5;
    await send([one, two], [90 / sum, 60 / sum], 0.03);
    one.kill();
    await send([two], [60]);
  });

  test('tenants with rates above the link', { tags: ['long'] }, async () => {
    await using world = await worldOf();
    await set(world, 'a', { gbps: 90 });
    await set(world, 'b', { gbps: 60 });
    using one = new Sender(world, 'a', [{}]);
    using two = new Sender(world, 'b', [{}]);
    const sum = 150 / 99.5;
    await send([one, two], [90 / sum, 60 / sum], 0.03);
    await set(world, 'a', { gbps: 20 });
    await send([one, two], [20, 60]);
  });
});
