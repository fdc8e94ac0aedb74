/** PeRF's MQSE in the simulated device: the order of turns, and that no queue pair waits forever. */
import { expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { Turns, type TurnsOptions } from '../conformance/policies/turns.ts';
import { connect, type End, makeEnd, post } from './helpers.ts';

const KB = 1024;
const MESSAGE = 16 * KB;
const LONG = 60 * KB;
/** Options for tests in which the watchdog must not help. */
const NO_WATCHDOG = 1e12;

interface Rig {
  fabric: Fabric;
  ends: End[];
  peers: End[];
}

/** Creates this many queue pairs of one context, with one completion queue, under MQSE. */
function rig(count: number, options: TurnsOptions): Rig {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  const policy = createShim(() => new Turns({ aheadBytes: 0, aheadRequests: 0, ...options }));
  const v = compose(fabric.provider, [policy]);
  const ends = ownOf(makeEnd({ ...fabric, provider: v } as Fabric, 0, { cqe: 1024 }), count);
  const peers = ownOf(makeEnd(fabric, 1), count);
  for (let i = 0; i < count; i++) connect(ends[i], peers[i]);
  return { fabric, ends, peers };
}

/** The end and additional queue pairs in its context, `count` in all. */
function ownOf(first: End, count: number): End[] {
  const { v, pd, sendCq, recvCq } = first;
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 };
  const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false };
  const others = Array.from({ length: count - 1 }, () => v.createQp(pd, attr));
  return [first, ...others.map(({ handle, qpNum }) => ({ ...first, qp: handle, qpNum }))];
}

function write({ ends, peers }: Rig, qp: number, messages: number, bytes = MESSAGE): void {
  const [end, peer] = [ends[qp], peers[qp]];
  for (let i = 0; i < messages; i++) {
    end.send.write(i, V.IBV_SEND_SIGNALED, end.mr.addr, bytes, end.mr.lkey, peer.mr.addr, peer.mr.rkey);
  }
  expect(post(end)).toBe(messages);
}

/** A long message without a receive: its queue pair sends it repeatedly, and later ones wait. */
function sendInVain({ ends }: Rig, qp: number): void {
  const end = ends[qp];
  end.send.send(99, V.IBV_SEND_SIGNALED, end.mr.addr, LONG, end.mr.lkey);
  expect(post(end)).toBe(1);
}

/** The queue pairs whose requests completed, in order; a failure is a letter. */
async function completions({ fabric, ends }: Rig, ns: number): Promise<string> {
  const { v, sendCq, wc } = ends[0];
  const order: string[] = [];
  for (let i = 0; i < 20; i++) {
    await fabric.advance(ns / 20);
    const n = v.pollCq(sendCq, wc.ring, 0, 256);
    for (let k = 0; k < n; k++) {
      const qp = ends.findIndex((end) => end.qp === wc.qp(k));
      order.push(wc.status(k) === V.IBV_WC_SUCCESS ? `${qp}` : 'abcdef'[qp]);
    }
  }
  return order.join('');
}

function of(qp: number, order: string): number {
  return [...order].filter((one) => one === String(qp)).length;
}

test('one queue pair at a time sends for a turn, in order of arrival', async () => {
  const r = rig(3, { allow: 1 });
  for (const qp of [0, 1, 2]) write(r, qp, 12);
  expect(await completions(r, 1e6)).toBe('000011112222'.repeat(3));
});

test('turns of requests', async () => {
  const r = rig(2, { allow: 1, turnRequests: 8 });
  for (const qp of [0, 1]) write(r, qp, 32, 16);
  expect(await completions(r, 1e6)).toBe('0000000011111111'.repeat(4));
});

test('a queue pair with nothing to send takes no turn', async () => {
  const r = rig(3, { allow: 1, watchdogNs: NO_WATCHDOG });
  write(r, 0, 4);
  expect(await completions(r, 1e6)).toBe('0000');
  for (const qp of [2, 1]) write(r, qp, 8);
  expect(await completions(r, 1e6)).toBe('2222111122221111');
});

test('two at a time', async () => {
  const r = rig(4, { allow: 2, watchdogNs: NO_WATCHDOG });
  for (const qp of [0, 1, 2, 3]) write(r, qp, 8);
  const order = await completions(r, 1e6);
  expect(order).toHaveLength(32);
  // The first two share the wire without the others.
  expect([...order.slice(0, 8)].sort().join('')).toBe('00001111');
});

test('the engine does not wait for a stuck turn, and others proceed', async () => {
  const r = rig(3, { allow: 1, watchdogNs: 50_000 });
  sendInVain(r, 0);
  for (const qp of [1, 2]) write(r, qp, 12);
  const order = await completions(r, 2e6);
  expect([of(0, order), of(1, order), of(2, order)]).toEqual([0, 12, 12]);
  const peer = r.peers[0];
  peer.recv.recv(1, peer.mr.addr, LONG, peer.mr.lkey);
  expect(peer.v.postRecv(peer.qp, peer.recv.ring, 0, 1)).toBe(1);
  for (const qp of [2, 1]) write(r, qp, 8);
  expect([...(await completions(r, 2e6))].sort().join('')).toBe(`0${'1'.repeat(8)}${'2'.repeat(8)}`);
  // The next turn that ends compensates for the additional one, and then one queue pair at a time sends
  // again.
  for (const qp of [2, 1]) write(r, qp, 8);
  expect(await completions(r, 2e6)).toHaveLength(16);
  for (const qp of [2, 1]) write(r, qp, 8);
  expect(await completions(r, 2e6)).toBe('2222111122221111');
});

test.each(['destroyed', 'reset', 'failed'])('a turn ends with its queue pair: %s', async (how) => {
  const r = rig(3, { allow: 1, watchdogNs: NO_WATCHDOG });
  sendInVain(r, 0);
  for (const qp of [1, 2]) write(r, qp, 12);
  expect(await completions(r, 1e6)).toBe('');
  const { v } = r.ends[0];
  // First the queue pair that waits for its turn, then the one that has it.
  for (const { qp } of [r.ends[1], r.ends[0]]) {
    if (how === 'destroyed') v.destroyQp(qp);
    else v.modifyQp(qp, { qpState: how === 'reset' ? V.IBV_QPS_RESET : V.IBV_QPS_ERR }, V.IBV_QP_STATE);
  }
  const order = await completions(r, 2e6);
  expect(of(2, order)).toBe(12);
  expect([...order].filter((one) => one === 'b')).toHaveLength(how === 'failed' ? 12 : 0);
});

test('the number of concurrent turns may change while queue pairs wait', async () => {
  const r = rig(3, { allow: 1, watchdogNs: NO_WATCHDOG, changeNs: 1e6 });
  sendInVain(r, 0);
  for (const qp of [1, 2]) write(r, qp, 12);
  expect(await completions(r, 0.9e6)).toBe('');
  const order = await completions(r, 1e6);
  expect([of(1, order), of(2, order)]).toEqual([12, 12]);
});

test('a queue pair fails after the end of turns, and those that wait for its turn to end proceed', async () => {
  const r = rig(4, {
    allow: 1,
    watchdogNs: NO_WATCHDOG,
    changeNs: 1e6,
    sequence: [1, ...new Array(99).fill(0)],
  });
  sendInVain(r, 0);
  // The last one waits for a ticket, so all turns are closed.
  for (const qp of [1, 2, 3]) write(r, qp, 12);
  expect(await completions(r, 1.1e6)).toBe('3'.repeat(12));
  r.ends[0].v.modifyQp(r.ends[0].qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
  const order = await completions(r, 0.8e6);
  expect([of(1, order), of(2, order)]).toEqual([12, 12]);
});
