// @ts-nocheck
import { openDevice } from 'isoverbs';
import { createFabric } from 'isoverbs/sim';
import { afterEach, expect, test } from 'vitest';
import { LogWriter, serveLog } from './remote-log.mjs';

const contexts = [];
afterEach(() => {
  for (const context of contexts.splice(0)) context.close();
});

/** Creates two hosts for a test: sim0 writes a log into the memory of sim1. */
async function setUp(options) {
  const fabric = createFabric({ hosts: 2, ...options });
  const { provider } = fabric;
  const server = openDevice('sim1', { provider });
  const client = openDevice('sim0', { provider });
  contexts.push(server, client);
  const { log } = await serveLog(server, 7471);
  const writer = await LogWriter.open(client, { host: 'sim1', port: 7471 });
  return { fabric, log, writer, client };
}

const record = (i, bytes) => new Uint8Array(bytes).fill(i);

test('records arrive one after another', async () => {
  const { log, writer } = await setUp();
  await writer.append(record(1, 3));
  await writer.append(record(2, 2));
  expect([...log.bytes.subarray(0, 6)]).toEqual([1, 1, 1, 2, 2, 0]);
});

test('an append of 64 bytes takes about a microsecond', async () => {
  const { writer, client } = await setUp();
  const beganNs = client.nowNs();
  await writer.append(record(1, 64));
  expect(client.nowNs() - beganNs).toBeLessThan(1100);
});

test.each([1, 2, 3])('no record is lost when one packet in ten is, seed %i', async (seed) => {
  const { fabric, log, writer } = await setUp({ seed, loss: 0.1 });
  for (let i = 0; i < 10; i++) await writer.append(record(i, 20_000));
  for (let i = 0; i < 10; i++) {
    expect(log.bytes.subarray(i * 20_000, (i + 1) * 20_000).every((byte) => byte === i)).toBe(true);
  }
  expect(fabric.brokenInvariants()).toEqual([]);
});

test('a link that is down for a while causes only a delay', async () => {
  const { fabric, log, writer } = await setUp();
  fabric.fault({ linkDown: 'sim1' });
  const appended = writer.append(record(7, 100));
  await fabric.sleep(100_000_000);
  fabric.fault({ linkUp: 'sim1' });
  await appended;
  expect(log.bytes[99]).toBe(7);
});

test('the writer gets an error when the peer is killed', async () => {
  const { fabric, writer } = await setUp();
  await writer.append(record(1, 10));
  const closed = new Promise((resolve) => writer.connection.on('close', resolve));
  fabric.fault({ kill: 'sim1' });
  await expect(writer.append(record(2, 10))).rejects.toMatchObject({ code: 'ISO_ERR_COMPLETION' });
  expect(await closed).toMatchObject({ code: 'ISO_ERR_CONNECTION' });
});

test('the same seed gives the same run', async () => {
  const run = async (seed) => {
    const { fabric, writer } = await setUp({ seed, loss: 0.1 });
    for (let i = 0; i < 5; i++) await writer.append(record(i, 20_000));
    return fabric.traceHash();
  };
  expect(await run(1)).toBe(await run(1));
  expect(await run(1)).not.toBe(await run(2));
});
