/**
 * Completion rates under the policy `drum`: all applications of a device together receive at most `completionsPerS`, in
 * proportion to their shares, as from a slower device. Tolerance: 5 % of a rate, written down before the first run.
 */
import { describe, expect, test } from 'vitest';
import { mmps } from '../../src/mix/metrics.ts';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { eachShort } from '../support/variants.ts';
import { connect, type End, makeEnd, post } from './helpers.ts';

const MS = 1e6;
const TOLERANCE = 0.05;
const WEIGHTS = { a: 1, b: 2, c: 4 };
const ALL = 7;

async function run(policy: string, apps: readonly string[], hosts = 2) {
  const result = await runMix({
    ...{ ...DEFAULTS, ...parsePolicy(policy), durationNs: 5 * MS, warmupNs: MS, payload: false },
    ...(hosts > 2 && { hosts, topology: 'star' as const }),
    apps: apps.map(parseApp),
  });
  expect(result.invariants).toEqual([]);
  return result;
}

const near = (value: number, expected: number) => {
  expect(value).toBeGreaterThan(expected * (1 - TOLERANCE));
  expect(value).toBeLessThan(expected * (1 + TOLERANCE));
};

describe('three tenants weighted 1:2:4 receive completions in this proportion', () => {
  eachShort(2, [
    ['write', 2e6],
    ['send', 5e5],
    ['read', 1e5],
    ['atomic', 1e6],
  ] as const)('of requests: %s, %d a second', async (op, perS) => {
    const apps = Object.entries(WEIGHTS).map(
      ([name, weight]) => `M:name=${name},weight=${weight},qps=2,batch=1,depth=16,op=${op}`,
    );
    const result = await run(`drum:completionsPerS=${perS}`, apps);
    for (const [name, weight] of Object.entries(WEIGHTS))
      near(mmps(result, name) * 1e6, (weight / ALL) * perS);
  });

  test('of receives, from three hosts', async () => {
    const apps = Object.entries(WEIGHTS).map(
      ([name, weight], i) =>
        `M:name=${name},weight=${weight},qps=2,batch=1,depth=16,op=send,host=${i + 1},to=0`,
    );
    const result = await run('drum:completionsPerS=700000', apps, 4);
    for (const [name, weight] of Object.entries(WEIGHTS))
      near(mmps(result, name) * 1e6, (weight / ALL) * 7e5);
  });
});

test('what an application does not receive is for the others, from the next epoch on', async () => {
  const apps = ['M:name=a,qps=2,batch=1,depth=16,weight=4,stop=1050us', 'M:name=b,qps=2,batch=1,depth=16'];
  near(mmps(await run('drum:completionsPerS=1e6,epochUs=50', apps), 'b'), 1);
});

test('an application whose completions are few enough notices nothing', async () => {
  const apps = ['D:name=d'];
  const [bare, limited] = [await run('drum', apps), await run('drum:completionsPerS=5e6', apps)];
  expect(mmps(limited, 'd')).toBeCloseTo(mmps(bare, 'd'), 6);
});

/** Two ends on a device whose applications receive this many completions per second. */
function limitedPair(perS = 1e6): { from: End; fabric: ReturnType<typeof createFabric> } {
  const fabric = createFabric({ hosts: 2, autoAdvance: false });
  const provider = compose(fabric.provider, [createPolicy('drum', { completionsPerS: perS })]);
  const [from, to] = [makeEnd({ ...fabric, provider }, 0, { event: true }), makeEnd(fabric, 1)];
  connect(from, to);
  return { from, fabric };
}

function write(from: End, count: number): void {
  for (let i = 0; i < count; i++)
    from.send.write(i, V.IBV_SEND_SIGNALED, from.mr.addr, 0, from.mr.lkey, from.mr.addr, from.mr.rkey);
  expect(post(from)).toBe(count);
}

const poll = (end: End, max = 16) => end.v.pollCq(end.sendCq, end.wc.ring, 0, max);

describe('completions that arrive together', () => {
  test('may be polled one after another', async () => {
    const { from, fabric } = limitedPair(1e4);
    write(from, 8);
    const times: number[] = [];
    for (let at = 0; at < MS; at += 1000) {
      await fabric.advance(1000);
      const n = poll(from);
      for (let i = 0; i < n; i++) times.push(from.v.nowNs(from.context));
    }
    expect(times).toHaveLength(8);
    // The first one has waited for its completion.
    for (let i = 2; i < times.length; i++)
      expect(Math.abs(times[i] - times[i - 1] - 100_000)).toBeLessThanOrEqual(1000);
  });

  test('occupy the send queue until they have been polled', async () => {
    const { from, fabric } = limitedPair(1e4);
    write(from, 64);
    await fabric.advance(50_000);
    expect(poll(from)).toBe(1);
    for (let i = 0; i < 2; i++)
      from.send.write(i, V.IBV_SEND_SIGNALED, from.mr.addr, 0, from.mr.lkey, from.mr.addr, from.mr.rkey);
    expect(post(from)).toBe(1);
  });

  test('are for an application that polls late as many as in a millisecond', async () => {
    const { from, fabric } = limitedPair(1e4);
    write(from, 40);
    await fabric.advance(30 * MS);
    expect(poll(from, 64)).toBe(10);
    expect(poll(from, 64)).toBe(0);
  });

  test('arrive at the rate once the application knows that some are kept, however late it polls', async () => {
    const { from, fabric } = limitedPair(1e4);
    write(from, 64);
    await fabric.advance(MS);
    expect(poll(from, 64)).toBe(10);
    await fabric.advance(4 * MS);
    expect([poll(from, 64), poll(from, 64)]).toEqual([40, 0]);
    await fabric.advance(30 * MS);
    expect(poll(from, 64)).toBe(14);
    // Now none are kept, and the application saves up as many as in a millisecond.
    write(from, 20);
    await fabric.advance(10 * MS);
    expect([poll(from, 64), poll(from, 64)]).toEqual([10, 0]);
  });

  test('a poll for none of them takes none', async () => {
    const { from, fabric } = limitedPair(1e4);
    write(from, 2);
    await fabric.advance(50_000);
    expect(poll(from, 0)).toBe(0);
    expect(poll(from)).toBe(1);
  });
});

describe('events', () => {
  test('each comes when a completion may be polled, and once', async () => {
    const { from, fabric } = limitedPair();
    const { v, sendCq, channel } = from;
    const polls: number[] = [];
    v.reqNotifyCq(sendCq, false);
    v.watchCompChannel(channel, () => {
      polls.push(poll(from));
      v.reqNotifyCq(sendCq, false);
    });
    write(from, 8);
    await fabric.advance(30_000);
    expect(polls).toEqual(Array(8).fill(1));
  });

  test('an application that arms too late for the completions waits for the next one that it may poll', async () => {
    const { from, fabric } = limitedPair(1e4);
    const { v, sendCq, channel } = from;
    write(from, 3);
    await fabric.advance(10_000);
    expect(poll(from)).toBe(1);
    let events = 0;
    v.watchCompChannel(channel, () => {
      events++;
    });
    v.reqNotifyCq(sendCq, false);
    await fabric.advance(80_000);
    expect(events).toBe(0);
    await fabric.advance(30_000);
    expect([events, poll(from)]).toEqual([1, 1]);
  });
});

describe('several CQs of an application', () => {
  /** Two queue pairs of a context, each with its own CQs. */
  function twoEnds() {
    const { from: first, fabric } = limitedPair(1e5);
    const { v, context, pd, mr } = first;
    const channel = v.createCompChannel(context);
    const sendCq = v.createCq(context, 256, channel).handle;
    const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 };
    const made = v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq, recvCq: first.recvCq, cap, sqSigAll: false });
    const second: End = { ...first, sendCq, channel, qp: made.handle, qpNum: made.qpNum, mr };
    connect(second, makeEnd(fabric, 1));
    return { first, second, fabric };
  }

  function listen(end: End, polls: string[], name: string): void {
    end.v.reqNotifyCq(end.sendCq, false);
    end.v.watchCompChannel(end.channel, () => {
      for (let n = poll(end); n > 0; n--) polls.push(name);
      end.v.reqNotifyCq(end.sendCq, false);
    });
  }

  test('take turns', async () => {
    const { first, second, fabric } = twoEnds();
    const polls: string[] = [];
    listen(first, polls, 'first');
    listen(second, polls, 'second');
    write(first, 10);
    write(second, 10);
    await fabric.advance(120_000);
    const some = polls.slice(0, 8);
    expect(some.filter((name) => name === 'first').length).toBeGreaterThanOrEqual(3);
    expect(some.filter((name) => name === 'second').length).toBeGreaterThanOrEqual(3);
  });

  test('the end of one does not stop the other', async () => {
    const { first, second, fabric } = twoEnds();
    const polls: string[] = [];
    listen(first, polls, 'first');
    listen(second, polls, 'second');
    write(first, 5);
    write(second, 5);
    await fabric.advance(25_000);
    first.v.destroyQp(first.qp);
    first.v.destroyCq(first.sendCq);
    await fabric.advance(150_000);
    expect(polls.filter((name) => name === 'second')).toHaveLength(5);
  });
});

test('the limit cannot change while the policy runs', () => {
  const v = compose(createFabric({ hosts: 1 }).provider, [createPolicy('drum', { completionsPerS: 1e6 })]);
  expect(() => v.configurePolicy!('drum', { completionsPerS: 2e6 })).toThrow(
    /completionsPerS: cannot change/,
  );
});
