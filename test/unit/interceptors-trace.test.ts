// The interceptor `trace`: the contents of its files, lost entries, and files that are not traces.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parsePolicies } from '../../src/config.ts';
import { type Driver, policyInterceptors } from '../../src/drivers/index.ts';
import { count, readTrace, record, type TraceOptions, trace } from '../../src/interceptors/index.ts';
import * as V from '../../src/verbs/index.ts';
import { type Pair, pairOn, scratch, simUnder } from './interceptors-rig.ts';

const folder = scratch();

async function traced(
  name: string,
  options: TraceOptions,
  program: (pair: Pair, verbs: V.Provider) => unknown,
) {
  const interceptor = trace({ file: join(folder, name), ...options });
  const provider = simUnder(interceptor);
  const pair = await pairOn(provider, { maxSendWr: 2048 });
  await program(pair, provider);
  pair.close();
  interceptor.close();
  const [file] = interceptor.files;
  const { header, records } = readTrace(file);
  return { file, header, records: [...records()] };
}

/** Fills a batch with one-byte WRITEs, the last one signaled, and waits for it. */
async function writeMany(pair: Pair, verbs: V.Provider, count: number, rounds = 1): Promise<void> {
  const { b, a } = pair;
  const batch = new V.SendBatch(verbs, { capacity: count });
  for (let round = 0; round < rounds; round++) {
    batch.clear();
    for (let i = 0; i < count; i++) {
      const flags = i === count - 1 ? V.IBV_SEND_SIGNALED : 0;
      batch.write(round * count + i, flags, b.mr.addr, 1, b.mr.lkey, a.mr.addr, a.mr.rkey);
    }
    expect(verbs.postSend(b.qp.handle, batch.ring, 0, count)).toBe(count);
    await b.cq.next();
  }
  batch.close();
}

test('a trace has requests, completions, control verbs and events, in order', async () => {
  const { header, records } = await traced('all.trace', {}, async ({ a, b }) => {
    const remote = { addr: a.mr.addr, rkey: a.mr.rkey };
    const sgList = [3, 0, 5, 9].map((offset) => ({ mr: b.mr, offset, length: 100 + offset }));
    b.qp.post({ wrId: 2n ** 64n - 1n, opcode: 'RDMA_WRITE', sgList, remote });
    await b.cq.next();
    a.qp.receive({ wrId: 5, sgList: [{ mr: a.mr, length: 64 }] });
    b.qp.post({ wrId: 6, opcode: 'SEND_WITH_IMM', imm: 77, inlineData: Buffer.from('inline') });
    await a.cq.next();
    b.qp.post({ wrId: 7, opcode: 'RDMA_READ', sgList: sgList.slice(0, 1), remote: { ...remote, rkey: 1 } });
    await b.cq.drain(2);
  });
  expect(header).toMatchObject({ provider: 'sim', below: [], pid: process.pid });
  const of = (verb: string) => records.filter((record) => record.verb === verb);
  expect(of('openDevice')[0]).toMatchObject({ args: ['sim0', null], status: 'done' });
  expect(of('postSend').slice(0, 3)).toMatchObject([
    {
      wrId: '18446744073709551615',
      opcode: 'RDMA_WRITE',
      flags: ['SIGNALED'],
      bytes: 417,
      sges: 4,
      status: 'posted',
    },
    { wrId: '6', opcode: 'SEND_WITH_IMM', flags: ['SIGNALED', 'INLINE'], bytes: 6, imm: 77 },
    { wrId: '7', opcode: 'RDMA_READ', bytes: 103, sges: 1 },
  ]);
  expect(of('postRecv').at(-1)).toMatchObject({ wrId: '5', bytes: 64, sges: 1, status: 'posted' });
  const statuses = of('pollCq').map(({ wrId, opcode, status }) => `${wrId} ${opcode} ${status}`);
  expect(statuses).toEqual(
    expect.arrayContaining([
      '18446744073709551615 RDMA_WRITE SUCCESS',
      '5 RECV SUCCESS',
      '7 SEND REM_ACCESS_ERR',
    ]),
  );
  expect(of('event').length).toBeGreaterThan(0);
  expect(of('reqNotifyCq').length).toBeGreaterThan(0);
  const times = records.map((record) => record.timeNs);
  expect(times).toEqual([...times].sort((x, y) => x - y));
  expect(records.at(-1)).toMatchObject({ verb: 'end', lost: 0 });
});

test('a trace shows which request was refused and why, and verbs that throw', async () => {
  const { records } = await traced('refused.trace', {}, (pair, verbs) => {
    const { b } = pair;
    const batch = new V.SendBatch(verbs, { capacity: 3 });
    for (let i = 0; i < 3; i++) batch.write(i, 0, b.mr.addr, 1, b.mr.lkey, 0, 0);
    batch.words[V.slotAt(1) + V.WR_OP] = 99;
    expect(verbs.postSend(b.qp.handle, batch.ring, 0, 3)).toBe(1);
    expect(() => verbs.allocPd(12345)).toThrow();
  });
  const posts = records.filter((record) => record.verb === 'postSend');
  expect(posts.map((post) => [post.wrId, post.status])).toEqual([
    ['0', 'posted'],
    ['1', expect.stringMatching(/^refused: this opcode is not allowed.*\(errno 95\)$/)],
  ]);
  const failed = records.find((record) => record.error !== undefined);
  expect(failed).toMatchObject({ verb: 'allocPd', args: [12345], status: 'ISO_ERR_HANDLE' });
});

test.each(['wait', 'drop', 'last'] as const)('full=%s with little memory', async (full) => {
  const rounds = 30;
  const { records } = await traced(`${full}.trace`, { bufferBytes: 65536, full }, (pair, verbs) =>
    writeMany(pair, verbs, 700, rounds),
  );
  const posts = records.filter((record) => record.verb === 'postSend').map((record) => Number(record.wrId));
  const lost = records.at(-1)!.lost!;
  if (full === 'wait') {
    expect(lost).toBe(0);
    expect(posts).toEqual(Array.from({ length: 700 * rounds }, (_, i) => i));
  }
  if (full === 'last') {
    expect(lost).toBeGreaterThan(15_000);
    expect(records[0]).toMatchObject({ verb: 'lost', lost });
    expect(posts.at(-1)).toBe(700 * rounds - 1);
    expect(posts.every((id, i) => i === 0 || id === posts[i - 1] + 1)).toBe(true);
  }
  if (full === 'drop') {
    const marks = records.filter((record) => record.verb === 'lost');
    expect(marks.reduce((sum, mark) => sum + mark.lost!, 0)).toBeLessThanOrEqual(lost);
    expect(posts.length).toBeGreaterThan(0);
    expect(posts.length + lost).toBeGreaterThanOrEqual(700 * rounds);
  }
});

test('readTrace() rejects other files, other versions and truncated traces with a typed error', async () => {
  const { file } = await traced('whole.trace', {}, () => {});
  const bytes = readFileSync(file);
  const read = (name: string, content: Uint8Array) => {
    const path = join(folder, name);
    writeFileSync(path, content);
    return () => [...readTrace(path).records()];
  };
  const error = (message: RegExp) =>
    expect.objectContaining({ code: 'ISO_ERR_FILE', message: expect.stringMatching(message) });
  expect(read('same.trace', bytes)().length).toBeGreaterThan(10);
  expect(read('foreign.trace', Buffer.from('PK and something else altogether'))).toThrow(
    error(/not a trace/),
  );
  expect(read('empty.trace', Buffer.alloc(0))).toThrow(error(/not a trace/));
  const newer = Buffer.from(bytes);
  newer.writeUInt32LE(99, 8);
  expect(read('newer.trace', newer)).toThrow(error(/has version 99; this isoverbs reads version 1/));
  expect(read('header.trace', bytes.subarray(0, 30))).toThrow(error(/ends inside its header/));
  expect(read('cut.trace', bytes.subarray(0, bytes.length - 5))).toThrow(error(/ends inside an entry/));
  const damaged = Buffer.from(bytes);
  damaged.writeUInt32LE(0xabcd, bytes.length - 32);
  expect(read('damaged.trace', damaged)).toThrow(error(/damaged: invalid entry of kind/));
  expect(() => readTrace(join(folder, 'absent.trace'))).toThrow(error(/cannot be read/));
  expect(() => simUnder(trace({ file: join(file, 'in-a-file.trace') }))).toThrow(error(/cannot be written/));
  for (const interceptor of [trace, record]) {
    const missing = join(folder, 'missing', 'a');
    expect(() => simUnder(interceptor({ file: missing }))).toThrow(error(/create the folder .*missing, or/));
  }
  expect(existsSync(join(folder, 'missing'))).toBe(false);
});

test.each<Driver>(['inline', 'worker'])(
  'a trace and a recording name the policies below with their options: %s',
  (driver) => {
    const policies = parsePolicies(
      'token-bucket:burstBytes=8KiB;./examples/policies/token-pacer.mjs:rateBytesPerS=1e9',
      'test',
    );
    const specs = [
      'token-bucket:burstBytes=8KiB',
      './examples/policies/token-pacer.mjs:rateBytesPerS=1000000000',
    ];
    const tracer = trace({ file: join(folder, `${driver}-policies.trace`) });
    const recorder = record({ file: join(folder, `${driver}-policies.rec`) });
    simUnder(tracer, recorder, ...policyInterceptors(driver, policies), count());
    const below = [...(driver === 'inline' ? specs : [specs.join(';')]), 'count'];
    tracer.close();
    recorder.close();
    expect(readTrace(tracer.files[0]).header.below).toEqual(['record', ...below]);
    expect(readFileSync(recorder.files[0], 'latin1')).toContain(`"below":${JSON.stringify(below)}`);
  },
);

test('two traces never share a file, and {pid} in a name is replaced', () => {
  const [first, second] = [1, 2].map(() => {
    const interceptor = trace({ file: join(folder, 'shared-{pid}.trace') });
    simUnder(interceptor);
    return interceptor;
  });
  expect(first.files[0]).toBe(join(folder, `shared-${process.pid}.trace`));
  expect(second.files[0]).toBe(join(folder, `shared-${process.pid}-2.trace`));
  first.close();
  second.close();
});
