// The throttle: it keeps entities to their rates, and serves the queue pairs of one in turns.
import { expect, test } from 'vitest';
import { byQueuePair, byTenant } from '../../../src/policies/kit/entities.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';
import { Throttle } from '../../../src/policies/kit/throttle.ts';
import { HeldRequests } from './held-requests.ts';

const PIECE = 1000;
/** Of a WRITE of one packet: 82 bytes of each packet, and 16 that name the remote memory. */
const WIRE = PIECE + 82 + 16;

function ground(keyOf: typeof byTenant | typeof byQueuePair) {
  const rate = { perNs: 1 };
  const requests = new HeldRequests(64);
  const throttle = new Throttle({ keyOf, pieceBytes: PIECE, burstBytes: WIRE, perNsOf: () => rate.perNs });
  const qps = [0, 1].map((index) => requests.qp(index, { tenant: 'a' }));
  const entities = qps.map((qp) => throttle.join(qp, requests.out));
  const issued = () => requests.issued.map(({ qp }) => qp);
  return { requests, throttle, rate, qps, entities, issued };
}

test('queue pairs of one tenant share a bucket, and are served in turns at its rate', () => {
  const { requests, throttle, qps, entities, issued } = ground(byTenant);
  expect(entities).toEqual([0, 0]);
  for (const qp of qps) {
    requests.hold(qp.index, { bytes: 3 * PIECE });
    throttle.feed(qp, requests.out);
  }
  // The burst is one piece; the next one may go when the bucket has a token again.
  expect(issued()).toEqual([0]);
  for (let i = 1; i < 6; i++) {
    expect(requests.timerNs).toBe((i - 1) * WIRE + 1);
    requests.nowNs = i * WIRE;
    throttle.serve(0, requests.out);
  }
  // The first one was alone when it took the burst, and waited before the other.
  expect(issued()).toEqual([0, 0, 1, 0, 1, 1]);
});

test('each queue pair has a bucket of its own if it is an entity of its own', () => {
  const { requests, throttle, qps, entities, issued } = ground(byQueuePair);
  expect(entities).toEqual([0, 1]);
  for (const qp of qps) {
    requests.hold(qp.index, { bytes: 2 * PIECE });
    throttle.feed(qp, requests.out);
  }
  expect(issued()).toEqual([0, 1]);
});

test('a debt outlives the queue pairs, and ends at the rate that was the last', () => {
  const { requests, throttle, rate, qps } = ground(byTenant);
  throttle.configure({ pieceBytes: 10 * PIECE });
  requests.hold(0, { bytes: 10 * PIECE });
  throttle.feed(qps[0], requests.out);
  const debt = throttle.tokensAt(0, 0);
  expect(debt).toBeLessThan(-8 * PIECE);
  for (const qp of qps) expect(throttle.leave(qp, requests.out)).toBe(0);
  expect(throttle.leave(qps[0], requests.out)).toBe(NONE);
  rate.perNs = 1000;
  requests.nowNs = 100;
  throttle.fill(0, qps[0].context, requests.out);
  expect(throttle.join(qps[0], requests.out)).toBe(0);
  expect(throttle.tokensAt(0, 100)).toBe(debt + 100);
});
