/** rdma_cm against the C programs of rdmacm-utils, in both roles: datagrams and groups. */
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { heard } from '../verbs/cm-rig.ts';
import { polled } from '../verbs/rig.ts';
import {
  COUNT,
  expectMessages,
  GRH_BYTES,
  MESSAGE_BYTES,
  sendDatagrams,
  senderOf,
  succeeded,
} from './peers/messages.ts';
import { start } from './peers/program.ts';
import {
  call,
  closeAll,
  datagrams,
  here,
  listenOn,
  OURS,
  open,
  pause,
  routedTo,
  THEIRS,
} from './peers/stage.ts';

const { RDMA_PS_UDP: UDP } = V;
/** The port of all udaddy servers: its -p is something else. */
const UDADDY_PORT = 7174;

describe.skipIf(!here)('udaddy', () => {
  test('is the server', async () => {
    const { at } = open();
    const server = start('udaddy', '-b', THEIRS, '-C', `${COUNT}`, '-S', `${MESSAGE_BYTES}`);
    const probe = await routedTo(at, UDP, THEIRS, UDADDY_PORT);
    const side = datagrams(at, probe, expectMessages);
    const { id, answer } = await call(at, UDP, UDADDY_PORT, {});
    expect(answer).toMatchObject({ event: V.RDMA_CM_EVENT_ESTABLISHED, ud: { qkey: V.RDMA_UDP_QKEY } });
    await sendDatagrams(side, answer.ud as NonNullable<V.CmEvent['ud']>);
    expect(await polled(side.end, COUNT)).toEqual(succeeded(COUNT, GRH_BYTES + MESSAGE_BYTES));
    expect(await server.done).toMatchObject({ code: 0, output: expect.stringContaining('return status 0') });
    closeAll(side, id);
  }, 60_000);

  test('is the client', async () => {
    const { at } = open();
    const { id } = listenOn(at, UDP, UDADDY_PORT);
    const args = ['-C', `${COUNT}`, '-S', `${MESSAGE_BYTES}`];
    const client = start('udaddy', '-s', OURS, '-b', THEIRS, ...args);
    const request = await heard(at, id, V.RDMA_CM_EVENT_CONNECT_REQUEST);
    const side = datagrams(at, request.id, expectMessages);
    at.cm.accept(request.id, { qpNum: side.qp.qpNum });
    const came = await polled(side.end, COUNT);
    expect(came).toEqual(succeeded(COUNT, GRH_BYTES + MESSAGE_BYTES));
    await sendDatagrams(side, senderOf(side, came[0]));
    expect(await client.done).toMatchObject({ code: 0, output: expect.stringContaining('return status 0') });
    closeAll(side, id);
  }, 60_000);
});

describe.skipIf(!here)('mckey', () => {
  /** An identifier bound to our device that has joined the group, and a queue pair that is attached to it. */
  async function member(address: string) {
    const { at } = open();
    const id = at.cm.createId(at.channel, UDP);
    at.cm.bindAddr(id, { address: OURS, port: 0 });
    at.cm.joinMulticast(id, { address, port: 0 });
    const { ud } = await heard(at, id, V.RDMA_CM_EVENT_MULTICAST_JOIN);
    if (ud === undefined) throw new Error('the event says nothing of the group');
    const side = datagrams(at, id, expectMessages);
    const gid = ud.ah.dgid ?? '';
    side.end.p.attachMcast(side.qp.handle, gid, 0);
    return { at, side, to: ud, leave: () => side.end.p.detachMcast(side.qp.handle, gid, 0) };
  }

  test('receives what we send to the group', async () => {
    const { side, to, leave } = await member('239.77.0.1');
    const receiver = start(
      'mckey',
      '-m',
      '239.77.0.1',
      '-b',
      THEIRS,
      '-C',
      `${COUNT}`,
      '-S',
      `${MESSAGE_BYTES}`,
    );
    // The moment at which mckey has joined is unknown, and datagrams sent before are lost.
    while (!receiver.ended()) {
      await sendDatagrams(side, to);
      await pause(100);
    }
    expect(await receiver.done).toMatchObject({
      code: 0,
      output: expect.stringContaining('return status 0'),
    });
    leave();
    closeAll(side);
  }, 60_000);

  test('sends to the group that we receive from', async () => {
    const { side, leave } = await member('239.77.0.2');
    const args = ['-s', '-C', `${COUNT}`, '-S', `${MESSAGE_BYTES}`];
    const sender = start('mckey', '-m', '239.77.0.2', '-b', THEIRS, ...args);
    expect(await polled(side.end, COUNT)).toEqual(succeeded(COUNT, GRH_BYTES + MESSAGE_BYTES));
    expect(await sender.done).toMatchObject({ code: 0, output: expect.stringContaining('return status 0') });
    leave();
    closeAll(side);
  }, 60_000);
});
