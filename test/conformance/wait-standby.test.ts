/** Below a policy, the emulation of WAIT sleeps until it is needed. Completions do not show whether it sleeps. */
import { describe, expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { createShim } from '../../src/shim/shim.ts';
import { withWait } from '../../src/shim/wait/wait-support.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, modify, SIGNALED } from '../sim/helpers.ts';

/** Passes everything on, and leaves WAITs of the application to the layer below. */
const through = () =>
  withWait(
    createShim(() => ({
      name: 'through',
      needs: { wait: 'required' },
      slots: 0,
      onload: (_qp, _words, _start, count) => count,
      feed: () => {},
    })),
    'required',
  );

function open(chain: Interceptor, wait = false) {
  const fabric = createFabric({ autoAdvance: false, wait });
  const provider = compose(fabric.provider, [chain]);
  const wrapped = { ...fabric, provider };
  const pair = () => {
    const end = makeEnd(wrapped, 0);
    connect(end, makeEnd(wrapped, 1));
    return end;
  };
  /** Requests that the emulation has received. */
  const emulated = () => provider.counters?.().find(({ name }) => name === 'emulate-wait')?.seen;
  return { fabric, provider, pair, emulated };
}

const write = (end: End, id: number, flags = SIGNALED) => end.send.write(id, flags, 0, 0, 0, 0, 0);

function post(end: End): void {
  expect(end.v.postSend(end.qp, end.send.ring, 0, end.send.length)).toBe(end.send.length);
  end.send.clear();
}

async function completed(fabric: { run(): Promise<unknown> }, { v, sendCq, wc }: End): Promise<number[]> {
  const ids: number[] = [];
  for (let idle = 0; idle < 3; idle++) {
    await fabric.run();
    const n = v.pollCq(sendCq, wc.ring, 0, 64);
    for (let i = 0; i < n; i++) ids.push(wc.wrId(i));
    if (n > 0) idle = 0;
  }
  return ids;
}

describe('the emulation sleeps', () => {
  test('while a policy that executes WAITs itself sends other requests', async () => {
    const { fabric, pair, emulated } = open(createPolicy('perf', { isolation: 'always', waits: 'fixed' }));
    const a = pair();
    write(a, 1);
    write(a, 2, 0);
    a.send.write(3, SIGNALED, a.mr.addr, 65536, a.mr.lkey, a.mr.addr, a.mr.rkey);
    post(a);
    await completed(fabric, a);
    a.send.wait(4, SIGNALED, a.sendCq, 1);
    post(a);
    write(a, 5);
    post(a);
    await completed(fabric, a);
    expect(emulated()).toBe(0);
  });

  test('while all posts of a policy that leaves WAITs to it end with a signaled request', async () => {
    const { fabric, pair, emulated } = open(through());
    const a = pair();
    write(a, 1, 0);
    write(a, 2);
    post(a);
    expect(await completed(fabric, a)).toEqual([2]);
    expect(emulated()).toBe(0);
  });
});

describe('the emulation wakes', () => {
  test('at a 0_WAIT of the application', async () => {
    const { fabric, pair, emulated } = open(createPolicy('perf'));
    const a = pair();
    write(a, 1);
    post(a);
    write(a, 2);
    a.send.wait(3, SIGNALED, a.sendCq, 0);
    write(a, 4);
    post(a);
    expect(emulated()).toBeGreaterThan(0);
    expect(await completed(fabric, a)).toEqual([1, 2, 3, 4]);
  });

  test('at an unsignaled request that ends a post, because a WAIT may follow', async () => {
    const { fabric, pair, emulated } = open(through());
    const a = pair();
    write(a, 1, 0);
    post(a);
    expect(emulated()).toBe(1);
    a.send.wait(2, SIGNALED, a.sendCq, 0);
    post(a);
    expect(await completed(fabric, a)).toEqual([2]);
  });

  test('when the policy begins turns, with requests of every queue pair in flight', async () => {
    const { fabric, provider, pair, emulated } = open(createPolicy('perf', { isolation: 'always' }));
    const ends = [pair(), pair(), pair()];
    for (const end of ends) {
      write(end, 1);
      post(end);
    }
    expect(emulated()).toBe(0);
    provider.configurePolicy?.('perf', { qpIsolation: 'always', qNumAllow: 1 });
    for (const end of ends) {
      end.send.write(2, SIGNALED, end.mr.addr, 65536, end.mr.lkey, end.mr.addr, end.mr.rkey);
      post(end);
    }
    for (const end of ends) expect(await completed(fabric, end)).toContain(2);
    expect(emulated()).toBeGreaterThan(0);
  });
});

/** Each case returns the application's completions, which must be the same as on a device with WAIT. */
const programs: Record<string, (rig: ReturnType<typeof open>) => Promise<unknown>> = {
  'a WAIT counts completions from before the emulation woke': async ({ fabric, pair }) => {
    const a = pair();
    const b = pair();
    for (const id of [1, 2, 3]) write(b, id);
    post(b);
    const before = await completed(fabric, b);
    a.send.wait(4, SIGNALED, b.sendCq, 3);
    write(a, 5);
    a.send.wait(6, SIGNALED, b.sendCq, 1);
    post(a);
    const first = await completed(fabric, a);
    write(b, 7);
    post(b);
    return [before, first, await completed(fabric, b), await completed(fabric, a)];
  },
  'a WAIT counts completions that a RESET has dropped': async ({ fabric, pair }) => {
    const a = pair();
    const b = pair();
    write(b, 1);
    write(b, 2);
    post(b);
    await fabric.run();
    modify(b, { qpState: V.IBV_QPS_RESET });
    a.send.wait(3, SIGNALED, b.sendCq, 2);
    post(a);
    return [await completed(fabric, a), await completed(fabric, b)];
  },
  'completions of one queue pair outlive another one of the same queue': async ({
    fabric,
    provider,
    pair,
  }) => {
    const a = pair();
    const other = pair();
    write(a, 1);
    write(a, 2);
    post(a);
    await fabric.run();
    provider.destroyQp(other.qp);
    const all = await completed(fabric, a);
    a.send.wait(3, SIGNALED, a.sendCq, 2);
    post(a);
    return [all, await completed(fabric, a)];
  },
  'requests in flight when the emulation wakes complete in order': async ({ fabric, pair }) => {
    const a = pair();
    for (let id = 1; id <= 8; id++) write(a, id);
    post(a);
    a.send.wait(9, SIGNALED, a.sendCq, 8);
    write(a, 10);
    post(a);
    return completed(fabric, a);
  },
  'a WAIT on a queue pair that failed earlier is flushed': async ({ fabric, pair }) => {
    const a = pair();
    a.send.write(1, SIGNALED, a.mr.addr, 64, a.mr.lkey + 1, 0, 0);
    post(a);
    const failed = await completed(fabric, a);
    a.send.wait(2, SIGNALED, a.sendCq, 5);
    post(a);
    return [failed, await completed(fabric, a)];
  },
};

test.each(Object.keys(programs))('%s, as on a device with WAIT', async (name) => {
  const wanted = await programs[name](open(through(), true));
  expect(await programs[name](open(through()))).toEqual(wanted);
});
