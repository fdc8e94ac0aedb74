/** Queue pairs that are blocked, fail or are destroyed under palos: the others do not notice. */
import { expect, test } from 'vitest';
import { createFabric, type Fabric, PROFILES } from '../../../src/providers/sim/index.ts';
import * as V from '../../../src/verbs/index.ts';
import { connect, drain, type End, makeEnd, SIGNALED } from '../helpers.ts';

const BYTES = 65_536;
const MESSAGES = 48;
const RUN = { ...PROFILES['cx5-100g'], scheduler: 'palos' as const };

function pairOn(fabric: Fabric): [End, End] {
  const ends: [End, End] = [makeEnd(fabric, 0), makeEnd(fabric, 1)];
  connect(...ends);
  return ends;
}

function post([a, b]: readonly [End, End], kind: 'write' | 'send', count: number): void {
  a.send.clear();
  for (let i = 0; i < count; i++) {
    if (kind === 'write') a.send.write(i, SIGNALED, a.mr.addr, BYTES, a.mr.lkey, b.mr.addr, b.mr.rkey);
    else a.send.send(i, SIGNALED, a.mr.addr, BYTES, a.mr.lkey);
  }
  expect(a.v.postSend(a.qp, a.send.ring, 0, count)).toBe(count);
}

/** Time until three queue pairs have sent all their messages, while `meddle` happens to a fourth one. */
async function timeOfThree(meddle: (fabric: Fabric, ends: [End, End]) => void | Promise<void>) {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false, profile: RUN, payload: false });
  const three = Array.from({ length: 3 }, () => pairOn(fabric));
  const fourth = pairOn(fabric);
  for (const ends of three) post(ends, 'write', MESSAGES);
  await meddle(fabric, fourth);
  let done = 0;
  while (done < 3 * MESSAGES && fabric.nowNs < 1e7) {
    await fabric.advance(1000);
    for (const [{ v, sendCq, wc }] of three) {
      const n = v.pollCq(sendCq, wc.ring, 0, 64);
      for (let i = 0; i < n; i++) expect(wc.status(i)).toBe(V.IBV_WC_SUCCESS);
      done += n;
    }
  }
  expect(fabric.brokenInvariants()).toEqual([]);
  return { ns: fabric.nowNs, fabric, fourth };
}

test('a queue pair that waits for a receive costs the others less than 1 %', async () => {
  const alone = await timeOfThree(() => {});
  const blocked = await timeOfThree((_fabric, ends) => {
    const [a] = ends;
    a.send.clear();
    a.send.send(0, SIGNALED, a.mr.addr, 64, a.mr.lkey);
    a.v.postSend(a.qp, a.send.ring, 0, 1);
  });
  expect(blocked.ns / alone.ns).toBeLessThan(1.01);
});

test('after an error, a reset or the end of a queue pair in its turn, the others have the link', async () => {
  const alone = await timeOfThree(() => {});
  const ways: ((ends: [End, End]) => void)[] = [
    ([a]) => a.v.modifyQp(a.qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE),
    ([a]) => a.v.modifyQp(a.qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE),
    ([a]) => a.v.destroyQp(a.qp),
    // Its memory is gone, so that it fails in the middle of a message.
    ([a]) => a.v.deregMr(a.mr.handle),
  ];
  for (const end of ways) {
    const { ns } = await timeOfThree(async (fabric, ends) => {
      post(ends, 'write', 16);
      await fabric.advance(20_000);
      end(ends);
    });
    // Until then, it had a quarter of 20 us.
    expect(ns - alone.ns).toBeLessThan(8000);
  }
});

test('a queue pair that was in error works again after it was reset and connected', async () => {
  const { fabric, fourth } = await timeOfThree((_fabric, ends) => {
    post(ends, 'write', 4);
    const [a] = ends;
    a.v.modifyQp(a.qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
  });
  drain(fabric, fourth[0]);
  for (const { v, qp } of fourth) v.modifyQp(qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
  connect(...fourth);
  post(fourth, 'write', 4);
  expect(drain(fabric, fourth[0]).map(({ status }) => status)).toEqual(Array(4).fill('SUCCESS'));
});
