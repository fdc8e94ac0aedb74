/** rdma_cm against the C programs of rdmacm-utils, in both roles. */
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { heard } from '../verbs/cm-rig.ts';
import { polled } from '../verbs/rig.ts';
import { COUNT, expectMessages, MESSAGE_BYTES, sendMessages, succeeded } from './peers/messages.ts';
import { start } from './peers/program.ts';
import { expectInfo, ping, pong } from './peers/rping.ts';
import { answerClient, callServer, closeAll, here, listenOn, OURS, open, THEIRS } from './peers/stage.ts';

const { RDMA_CM_EVENT_DISCONNECTED: DISCONNECTED } = V;

describe.skipIf(!here)('rping', () => {
  const PINGS = 5;
  const BYTES = 200;

  test.each([[[]], [['-q']]])(
    'is the server %j',
    async (more) => {
      const { at } = open();
      const server = start('rping', '-s', '-a', THEIRS, '-p', '7301', '-v', '-S', `${BYTES}`, ...more);
      const side = await callServer(at, 7301, expectInfo);
      for (let i = 0; i < PINGS; i++)
        expect(await ping(side, `ping ${i} of ours`, BYTES)).toBe(`ping ${i} of ours`);
      at.cm.disconnect(side.id);
      expect(await server.done).toMatchObject({ code: 0, output: expect.stringContaining('ping 4 of ours') });
      closeAll(side);
    },
    60_000,
  );

  test.each([[[]], [['-q']]])(
    'is the client %j',
    async (more) => {
      const { at } = open();
      const { id, port } = listenOn(at, V.RDMA_PS_TCP);
      const args = ['-a', OURS, '-I', THEIRS, '-p', `${port}`, '-C', `${PINGS}`, '-S', `${BYTES}`];
      const client = start('rping', '-c', '-V', '-v', ...args, ...more);
      const side = await answerClient(at, id, expectInfo);
      for (let i = 0; i < PINGS; i++) expect(await pong(side)).toContain(`rdma-ping-${i}: `);
      await heard(at, side.id, DISCONNECTED);
      at.cm.disconnect(side.id);
      expect(await client.done).toMatchObject({ code: 0, output: expect.stringContaining('rdma-ping-4: ') });
      closeAll(side, id);
    },
    60_000,
  );
});

describe.skipIf(!here)('ucmatose', () => {
  test('is the server', async () => {
    const { at } = open();
    const server = start('ucmatose', '-b', THEIRS, '-p', '7302', '-C', `${COUNT}`, '-S', `${MESSAGE_BYTES}`);
    const side = await callServer(at, 7302, expectMessages);
    expect(await polled(side.end, COUNT)).toEqual(succeeded(COUNT, MESSAGE_BYTES));
    await sendMessages(side);
    await heard(at, side.id, DISCONNECTED);
    at.cm.disconnect(side.id);
    expect(await server.done).toMatchObject({ code: 0, output: expect.stringContaining('return status 0') });
    closeAll(side);
  }, 60_000);

  test('is the client', async () => {
    const { at } = open();
    const { id, port } = listenOn(at, V.RDMA_PS_TCP);
    const args = ['-p', `${port}`, '-C', `${COUNT}`, '-S', `${MESSAGE_BYTES}`];
    const client = start('ucmatose', '-s', OURS, '-b', THEIRS, ...args);
    const side = await answerClient(at, id, expectMessages);
    await sendMessages(side);
    expect(await polled(side.end, COUNT)).toEqual(succeeded(COUNT, MESSAGE_BYTES));
    at.cm.disconnect(side.id);
    expect(await client.done).toMatchObject({ code: 0, output: expect.stringContaining('return status 0') });
    closeAll(side, id);
  }, 60_000);
});
