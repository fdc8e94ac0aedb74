// Each invariant of the shim's ledger is checked: a corrupted ledger makes the next slow path throw.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { assertDestroyed, assertLedger, setAssertions } from '../../src/shim/assertions.ts';
import { compose } from '../../src/shim/compose.ts';
import type { Actions, Policy, QpChange, QpView } from '../../src/shim/policy.ts';
import type { QpLedger } from '../../src/shim/qp-ledger.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, modify, post, SIGNALED } from '../sim/helpers.ts';

/** Holds every request, and issues two pieces of at most 600 bytes. */
class Hold implements Policy {
  readonly name = 'hold';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 8;
  readonly crossChannel = true;
  readonly ledgers: QpLedger[] = [];
  private pieces = 2;

  onload(): number {
    return 0;
  }

  feed(qp: QpView, out: Actions): void {
    if (this.pieces-- > 0 && out.backlog(qp) > 0) out.piece(qp, 600);
  }

  onQp(qp: QpView, change: QpChange): void {
    if (change === 'created') this.ledgers.push(qp as QpLedger);
  }
}

let policy: Hold;
let fabric: Fabric;
let a: End;
let b: End;
let qp: QpLedger;

beforeEach(() => {
  policy = new Hold();
  fabric = createFabric({ autoAdvance: false });
  const provider = compose(fabric.provider, [createShim(() => policy)]);
  const shimmed = { ...fabric, provider } as Fabric;
  [a, b] = [makeEnd(shimmed, 0), makeEnd(shimmed, 1)];
  connect(a, b);
  [qp] = policy.ledgers;
});
afterEach(() => setAssertions(true));

/** Three requests: one is issued whole, one in part, one is held. */
function postThree(): void {
  for (const bytes of [500, 900, 900]) {
    a.send.write(1, SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
  }
  expect([qp.issued - qp.head, qp.appPosted - qp.issued, qp.partial]).toEqual([1, 2, true]);
}

const violation = (text: RegExp) =>
  expect.objectContaining({ code: 'ISO_ERR_LEDGER', message: expect.stringMatching(text) });

type Corruption = readonly [rule: string, corrupt: () => void, message: RegExp];

const corruptions: readonly Corruption[] = [
  ['appPosted not before appFreed', () => (qp.appFreed = qp.appPosted + 1), /application requests .*: -1 is/],
  ['at most appDepth requests', () => (qp.appFreed = qp.appPosted - 65), /application requests .*: 65 is/],
  ['realPosted not before realFreed', () => (qp.realFreed = qp.realPosted + 1), /device requests .*: -1 is/],
  ['at most realDepth requests', () => (qp.realFreed = qp.realPosted - 1000), /device requests .*: 1000 is/],
  ['extra not negative', () => (qp.extra = -1), /\(extra\): -1 is not from 0/],
  ['reserved not negative', () => (qp.reserved = -2), /reserved slots: -2/],
  ['receives kept not negative', () => (qp.recvsKept = -1), /receives kept: -1/],
  ['unreported not negative', () => (qp.unreported = -1), /unreported completions: -1/],
  ['tokens in pairs', () => qp.awaitedTokens.push(1), /token has no real number/],
  [
    'complete within issued',
    () => (qp.sums[1] = qp.sums[0] + 1),
    /bytes complete: 1101 is not from 0 to 1100/,
  ],
  ['bytes not NaN', () => (qp.sums[2] = Number.NaN), /bytes issued of the oldest .*: NaN/],
  ['head not after posted', () => (qp.head = qp.appPosted + 1), /rows: -1 is/],
  ['issued not before head', () => (qp.issued = qp.head - 1), /issued, counted from head: -1/],
  ['issued not after posted', () => (qp.issued = qp.appPosted + 1), /held, counted from issued: -1/],
  ['nothing begun when nothing is held', () => (qp.issued = qp.appPosted), /is begun, but none is held/],
  ['pieces within the request', () => (qp.sums[2] = 901), /901 is not from 0 to 900/],
  [
    'rows end after they begin',
    () => (qp.first[qp.head & qp.mask] = qp.last[qp.head & qp.mask] + 2),
    /ends before it begins/,
  ],
  [
    'rows end within what is posted',
    () => (qp.last[qp.head & qp.mask] = qp.realPosted),
    /ends after the last one posted/,
  ],
  ['extra summed by the CQ', () => qp.sendCq.extra++, /\(extra\): \d+, but its queue pairs have \d+/],
  ['tokens counted by the CQ', () => qp.sendCq.awaitedCount++, /awaited requests: 1, but .* have 0/],
  ['translated counted by the CQ', () => qp.sendCq.translatedQps--, /with rows: 0, but .* have 1/],
  ['listed when it holds', () => qp.sendCq.backlogged.splice(0), /0 times in the backlog list/],
  ['listed once', () => qp.sendCq.backlogged.push(qp), /2 times in the backlog list/],
  ['waits once', () => qp.sendCq.waiters.push(qp, qp), /2 times among the waiters/],
  [
    'a CQ knows those that it lists',
    () => qp.sendCq.backlogged.push(policy.ledgers[1]),
    /lists it but does not know it/,
  ],
];

describe('with rows, and with requests that are issued, begun and held', () => {
  test.each(corruptions)('%s', (_rule, corrupt, message) => {
    postThree();
    expect(() => assertLedger(qp, 'test')).not.toThrow();
    corrupt();
    expect(() => assertLedger(qp, 'test')).toThrow(violation(message));
    setAssertions(false);
    expect(() => assertLedger(qp, 'test')).not.toThrow();
  });

  test('two requests that share a real number', () => {
    postThree();
    const next = qp.issued & qp.mask;
    qp.first[next] = qp.last[qp.head & qp.mask];
    qp.last[next] = qp.realPosted - 1;
    qp.partial = false;
    qp.issued++;
    expect(() => assertLedger(qp, 'test')).toThrow(violation(/shares a real number with the request before/));
  });

  test('a managed queue pair that is enabled beyond what is posted', () => {
    postThree();
    Object.assign(qp, { managed: true, enabled: qp.appPosted + 1 });
    expect(() => assertLedger(qp, 'test')).toThrow(violation(/more requests are enabled than posted/));
  });
});

describe('paths that check the ledger', () => {
  const corrupt = () => {
    qp.recvsKept = -1;
  };
  const kept = violation(/receives kept: -1/);

  test('createQp checks the CQ that the new queue pair shares', () => {
    qp.sendCq.awaitedCount = 1;
    const { sendCq, recvCq } = a;
    const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false };
    expect(() => a.v.createQp(a.pd, attr)).toThrow(violation(/, createQp: awaited requests/));
  });

  test('modifyQp', () => {
    corrupt();
    expect(() => modify(a, { qpState: V.IBV_QPS_RTS })).toThrow(kept);
  });

  test('RESET', () => {
    postThree();
    qp.sendCq.translatedQps = 7;
    expect(() => modify(a, { qpState: V.IBV_QPS_RESET })).toThrow(violation(/with rows: 7/));
  });

  test('the first held request', () => {
    corrupt();
    a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(() => post(a)).toThrow(violation(/begins to hold: receives kept/));
  });

  test('a flush', () => {
    postThree();
    corrupt();
    expect(() => modify(a, { qpState: V.IBV_QPS_ERR })).toThrow(violation(/, flush: receives kept/));
  });

  test('an error completion', () => {
    a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, 12345);
    post(a);
    fabric.simulation.run();
    corrupt();
    const poll = () => a.v.pollCq(a.sendCq, a.wc.ring, 0, 16);
    expect(poll).toThrow(violation(/, error completion: receives kept/));
  });

  test('destroyQp', () => {
    qp.sendCq.waiters.push(qp, qp);
    expect(() => a.v.destroyQp(a.qp)).toThrow(
      violation(/destroyQp: a list of completion queue \d+ still has/),
    );
  });

  test('a destroyed queue pair that its context still lists, or for which requests are written', () => {
    a.v.destroyQp(a.qp);
    expect(() => assertDestroyed(qp, null)).not.toThrow();
    expect(() => assertDestroyed(qp, qp)).toThrow(violation(/written for it and never posted/));
    qp.context.qps.add(qp);
    expect(() => assertDestroyed(qp, null)).toThrow(violation(/its context still has it/));
  });
});
