// Tests on a simulated fabric: no RDMA hardware is required, and a seed makes each run repeatable.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDevice } from 'isoverbs';
import { createFabric } from 'isoverbs/sim';
import { Client, SLOT_BYTES, serve } from './store.js';

/** A store on the host sim1, and a client on sim0. */
async function setUp(options = {}) {
  const fabric = createFabric({ hosts: 2, ...options });
  const [near, far] = ['sim0', 'sim1'].map((name) => openDevice(name, { provider: fabric.provider }));
  const listener = await serve(far, 7471);
  const client = await Client.open(near, { host: 'sim1', port: 7471 });
  const close = () => {
    listener.close();
    near.close();
    far.close();
  };
  return { fabric, client, near, close };
}

test('a text that was put can be read', async () => {
  const { client, close } = await setUp();
  await client.put(7, 'hello');
  assert.equal(await client.get(7), 'hello');
  assert.equal(await client.get(8), '');
  await assert.rejects(client.put(-1, ''), RangeError);
  await assert.rejects(client.put(0, 'x'.repeat(SLOT_BYTES)), RangeError);
  close();
});

test('a put takes less than 5 us of virtual time', async () => {
  const { client, near, close } = await setUp();
  const startNs = near.nowNs();
  await client.put(7, 'hello');
  assert.ok(near.nowNs() - startNs < 5_000);
  close();
});

test('nothing is lost when one packet in ten is', async () => {
  const { client, close } = await setUp({ loss: 0.1, seed: 1 });
  for (let slot = 0; slot < 20; slot++) await client.put(slot, `text ${slot}`);
  for (let slot = 0; slot < 20; slot++) assert.equal(await client.get(slot), `text ${slot}`);
  close();
});

test('the client gets an error when the server dies', async () => {
  const { fabric, client, close } = await setUp();
  fabric.fault({ kill: 'sim1' });
  await assert.rejects(client.get(7), { code: 'ISO_ERR_COMPLETION' });
  close();
});
