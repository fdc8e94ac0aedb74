// The interceptor `fault` on simulated devices: each kind of fault, followed by what a device would do.
import { afterEach, expect, test } from 'vitest';
import { createInterceptor, FAILABLE_VERBS, type FaultOptions, fault } from '../../src/interceptors/index.ts';
import { type Completion, Context } from '../../src/objects/index.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

/** Two connected queue pairs. The first has the faults and posts WRITEs to the second. */
function pair(options: FaultOptions, below: Interceptor[] = []) {
  const injected: string[] = [];
  const note = fault(options, ({ what, number }) => injected.push(`${what} ${number}`));
  const { provider } = createFabric({ hosts: 2 });
  const ends = [compose(provider, [note, ...below]), provider].map((one, i) => {
    const context = new Context(one, `sim${i}`);
    open.push(context);
    const pd = context.allocPd();
    const cq = context.createCq();
    const mr = pd.allocate(1 << 16, { access: { remoteWrite: true } });
    return { context, pd, cq, mr, qp: pd.createQp({ sendCq: cq }) };
  });
  const [a, b] = ends;
  a.qp.connectTo(b.qp.endpoint());
  b.qp.connectTo(a.qp.endpoint());
  const remote = { addr: b.mr.addr, rkey: b.mr.rkey };
  const write = (wrId: number, signaled = true, qp = a.qp) => {
    const sgList = [{ mr: a.mr, length: 8 }];
    qp.post({ opcode: 'RDMA_WRITE', wrId, sgList, remote, flags: { signaled } });
  };
  return { a, b, write, injected };
}

const told = (all: Completion[]) => all.map(({ wrId, statusText }) => `${wrId} ${statusText}`);

test('a verb fails once, at the chosen call, with its usual errno', () => {
  const { a, injected } = pair({ verb: 'createCq', call: 3 });
  a.context.createCq();
  expect(() => a.context.createCq()).toThrow(
    expect.objectContaining({ code: 'ISO_ERR_NO_RESOURCES', errno: V.ENOMEM, verb: 'createCq' }),
  );
  a.context.createCq();
  expect(injected).toEqual(['createCq 3']);
});

test('persistent=true fails all later calls, with the given errno and code', () => {
  const { a } = pair({ verb: 'regMr', persistent: true, errno: 13, code: 'ISO_ERR_MEMORY' });
  for (let i = 0; i < 2; i++) {
    expect(() => a.pd.register(new SharedArrayBuffer(64))).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_MEMORY', errno: 13 }),
    );
  }
});

test.each(FAILABLE_VERBS)('%s can be made to fail', (verb) => {
  const { provider } = createFabric({ hosts: 1 });
  const faulty = compose(provider, [fault({ verb })]);
  const call = () => (faulty[verb] as (...args: number[]) => unknown)(1, 1, 0, 1);
  if (verb.startsWith('post')) expect(call()).toBe(0);
  else if (verb === 'validateSend') expect(call()).toBe(V.EINVAL);
  else expect(call).toThrow(expect.objectContaining({ verb, errno: expect.any(Number) }));
  // The second call reaches the provider, which may reject these arguments.
  let second = '';
  try {
    second = `gave ${call()}`;
  } catch (error) {
    second = (error as Error).message;
  }
  expect(second).not.toBe('');
  expect(second).not.toMatch(/made to fail/);
});

test("verb='*' counts the calls of all verbs", () => {
  const { provider } = createFabric({ hosts: 1 });
  const faulty = compose(provider, [fault({ verb: '*', call: 3 })]);
  const context = faulty.openDevice('sim0');
  const pd = faulty.allocPd(context);
  expect(() => faulty.queryDevice(context)).toThrow(/queryDevice: call 3/);
  faulty.deallocPd(pd);
  faulty.closeDevice(context);
});

test('a failing post accepts `taken` requests, and reports why it refused the next', async () => {
  const { a, b } = pair({ verb: 'postSend', call: 1, taken: 2, errno: V.EINVAL, reason: V.REASON_LIMIT });
  const batch = a.context.sendBatch({ capacity: 4 });
  for (let i = 0; i < 4; i++)
    batch.write(i, V.IBV_SEND_SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
  const refused = { code: 'ISO_ERR_INVALID_WR', index: 2, posted: 2, errno: V.EINVAL };
  expect(() => a.qp.postSend(batch)).toThrow(expect.objectContaining(refused));
  expect(() => a.qp.postSend(batch, 2, 2)).not.toThrow();
  expect(told(await a.cq.drain(4))).toEqual(['0 SUCCESS', '1 SUCCESS', '2 SUCCESS', '3 SUCCESS']);
});

test('a failed completion moves its queue pair to ERR and flushes all requests behind it', async () => {
  const { a, write, injected } = pair({ completion: 'error', nth: 2 });
  a.qp.receive({ wrId: 100, sgList: [{ mr: a.mr, length: 8 }] });
  for (let i = 0; i < 6; i++) write(i, i !== 3);
  const done = told(await a.cq.drain(7));
  const sends = done.filter((one) => !one.startsWith('100'));
  expect(sends).toEqual([
    '0 SUCCESS',
    '1 RETRY_EXC_ERR',
    '2 WR_FLUSH_ERR',
    '3 WR_FLUSH_ERR',
    '4 WR_FLUSH_ERR',
    '5 WR_FLUSH_ERR',
  ]);
  expect(done).toContain('100 WR_FLUSH_ERR');
  expect(a.qp.state).toBe('ERR');
  expect(injected).toEqual(['completion 2']);
  write(6);
  expect(told(await a.cq.drain(1))).toEqual(['6 WR_FLUSH_ERR']);
  expect(a.cq.poll(a.context.wcBatch({ capacity: 8 }))).toBe(0);
});

test('execute() rejects with the injected status, and a new connection works', async () => {
  const { a, b } = pair({ completion: 'error', nth: 1, status: V.IBV_WC_REM_ACCESS_ERR });
  const request = {
    opcode: 'RDMA_WRITE',
    sgList: [{ mr: a.mr, length: 8 }],
    remote: { addr: b.mr.addr, rkey: b.mr.rkey },
  } as const;
  const failed = { code: 'ISO_ERR_COMPLETION', status: V.IBV_WC_REM_ACCESS_ERR };
  await expect(a.qp.execute(request)).rejects.toMatchObject(failed);
  for (const qp of [a.qp, b.qp]) qp.reset();
  a.qp.connectTo(b.qp.endpoint());
  b.qp.connectTo(a.qp.endpoint());
  await expect(a.qp.execute(request)).resolves.toMatchObject({ status: 0 });
});

test('killAt moves a queue pair to ERR right after that request', async () => {
  const { a, write, injected } = pair({ killAt: 3 });
  for (let i = 0; i < 5; i++) write(i);
  const done = told(await a.cq.drain(5));
  expect(done.map((one) => one.split(' ')[0])).toEqual(['0', '1', '2', '3', '4']);
  expect(done.slice(3)).toEqual(['3 WR_FLUSH_ERR', '4 WR_FLUSH_ERR']);
  expect([a.qp.state, injected]).toEqual(['ERR', ['kill 3']]);
});

test('a dropped completion never arrives', async () => {
  const { a, write } = pair({ completion: 'drop', nth: 2 });
  for (let i = 0; i < 3; i++) write(i);
  expect(told(await a.cq.drain(2))).toEqual(['0 SUCCESS', '2 SUCCESS']);
  expect(a.cq.poll(a.context.wcBatch({ capacity: 8 }))).toBe(0);
});

test('a delayed completion arrives later, in order, and wakes a sleeping program', async () => {
  const { a, write } = pair({ completion: 'delay', nth: 2, delayNs: 50_000 });
  for (let i = 0; i < 3; i++) write(i);
  const [first] = await a.cq.drain(1);
  const beganNs = a.context.nowNs();
  const rest = await a.cq.drain(2);
  expect(told([first, ...rest])).toEqual(['0 SUCCESS', '1 SUCCESS', '2 SUCCESS']);
  expect(a.context.nowNs() - beganNs).toBeGreaterThan(40_000);
});

test('only completions of other work queues overtake a reordered one', async () => {
  const { a, b, write } = pair({ completion: 'reorder', nth: 1 });
  const other = a.pd.createQp({ sendCq: a.cq });
  const peer = b.pd.createQp({ sendCq: b.cq });
  other.connectTo(peer.endpoint());
  peer.connectTo(other.endpoint());
  write(0);
  write(1);
  write(10, true, other);
  await a.context.sleep(1e6);
  const wc = a.context.wcBatch({ capacity: 8 });
  expect(a.cq.poll(wc)).toBe(3);
  const order = [0, 1, 2].map((i) => Number(wc.wrId(i)));
  expect(order.filter((id) => id < 10)).toEqual([0, 1]);

  const swapped = pair({ completion: 'reorder', nth: 1 });
  swapped.a.qp.receive({ wrId: 20, sgList: [{ mr: swapped.a.mr, length: 8 }] });
  swapped.write(0);
  await swapped.a.context.sleep(1e6);
  swapped.b.qp.post({ opcode: 'SEND', sgList: [{ mr: swapped.b.mr, length: 8 }] });
  await swapped.a.context.sleep(1e6);
  expect(told(await swapped.a.cq.drain(2))).toEqual(['20 SUCCESS', '0 SUCCESS']);
});

test('the same seed gives the same faults', async () => {
  const runs = [5, 5, 6].map(async (seed) => {
    const { a, write, injected } = pair({ completion: 'drop', probability: 0.3, seed });
    for (let i = 0; i < 40; i++) write(i);
    await a.context.sleep(1e6);
    a.cq.poll(a.context.wcBatch({ capacity: 64 }));
    return injected;
  });
  const [one, same, other] = await Promise.all(runs);
  expect(one.length).toBeGreaterThan(0);
  expect(one).toEqual(same);
  expect(one).not.toEqual(other);
});

test('fault works inside a policy and outside it', async () => {
  const provider = createFabric({ hosts: 2 }).provider;
  const perf = createPolicy('perf', { isolation: 'always', subMsgSizeBytes: 1024 });
  const run = async (interceptors: Interceptor[]) => {
    const [a, b] = [compose(provider, interceptors), provider].map((one, i) => {
      const context = new Context(one, `sim${i}`);
      open.push(context);
      const pd = context.allocPd();
      const cq = context.createCq();
      const mr = pd.allocate(1 << 16, { access: { remoteWrite: true } });
      return { context, cq, mr, qp: pd.createQp({ sendCq: cq }) };
    });
    a.qp.connectTo(b.qp.endpoint());
    b.qp.connectTo(a.qp.endpoint());
    for (let i = 0; i < 3; i++) {
      const remote = { addr: b.mr.addr, rkey: b.mr.rkey };
      a.qp.post({ opcode: 'RDMA_WRITE', wrId: i, sgList: [{ mr: a.mr, length: 16384 }], remote });
    }
    return told(await a.cq.drain(3));
  };
  const broken = () => fault({ completion: 'error', nth: 1 });
  const expected = ['0 RETRY_EXC_ERR', '1 WR_FLUSH_ERR', '2 WR_FLUSH_ERR'];
  expect(await run([broken(), perf])).toEqual(expected);
  expect(await run([perf, broken()])).toEqual(expected);
});

test('wrong options are rejected with the name of the option', () => {
  expect(() => createInterceptor('fault', {})).toThrow(/requires verb, completion or killAt/);
  expect(() => createInterceptor('fault', { verb: 'fly' })).toThrow(/fault\.verb/);
  expect(() => createInterceptor('fault', { verb: 'createQp', call: 0 })).toThrow(/fault\.call/);
  expect(() => createInterceptor('fault', { verb: 'createQp', nth: 2 })).toThrow(/fault\.completion/);
  expect(createInterceptor('fault', { verb: 'createQp', call: '2', persistent: 'true' }).name).toBe('fault');
});
