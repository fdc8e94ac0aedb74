// One of two processes is killed in the middle of a transfer: the other is notified and continues with another peer.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, test } from 'vitest';
import { type Connection, type Context, type Endpoint, listen, openDevice } from '../../src/index.ts';
import { IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR } from '../../src/verbs/index.ts';
import { findDevice } from './rig.ts';

const found = findDevice();
const device = typeof found === 'string' ? '' : found.name;

const CHILD = new URL('children/killed.mjs', import.meta.url).pathname;
/** 7 tries of 4.096 us * 2^13, 34 ms, each: longer than soft-RoCE takes to answer in an emulated machine. */
const PATH = { timeout: 13, retryCnt: 6 };
const WRITE_BYTES = 4096;
const OUTSTANDING = 8;

const children = new Set<ChildProcess>();
const contexts = new Set<Context>();
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  for (const context of contexts) context.close();
  contexts.clear();
});

function start(...args: string[]) {
  const env = { ...process.env, ISOVERBS_DEVICE: process.env.RXE_DEV2 ?? device };
  const child = spawn(process.execPath, [CHILD, ...args], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  children.add(child);
  return child;
}

function open() {
  const context = openDevice(device);
  contexts.add(context);
  const pd = context.allocPd();
  return { context, pd, cq: context.createCq(), mr: pd.allocate(1 << 16) };
}

type Here = ReturnType<typeof open>;

/** A queue pair connected by hand to the memory of a new process, so that only the device reports its end. */
async function towards({ pd, cq, mr }: Here) {
  const child = start('target');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const heard = async () => JSON.parse((await lines.next()).value as string);
  const { endpoint, addr, rkey } = (await heard()) as { endpoint: Endpoint; addr: number; rkey: number };
  const qp = pd.createQp({ sendCq: cq });
  child.stdin.write(`${JSON.stringify(qp.endpoint())}\n`);
  qp.connectTo(endpoint, PATH);
  await heard();
  const write = (wrId: number) =>
    qp.post({ opcode: 'RDMA_WRITE', wrId, sgList: [{ mr, length: WRITE_BYTES }], remote: { addr, rkey } });
  return { child, qp, write };
}

describe.skipIf(device === '')('kill -9 of the other process', { timeout: 240_000 }, () => {
  test('a sender gets RETRY_EXC_ERR within a second, and continues with another peer', async () => {
    const here = open();
    const { child, qp, write } = await towards(here);
    let posted = 0;
    while (posted < OUTSTANDING) write(posted++);
    let completed = 0;
    let killedAtMs = 0;
    let status = 0;
    let wrId = -1n;
    while (status === 0) {
      ({ status, wrId } = await here.cq.next());
      if (status === 0) {
        completed++;
        write(posted++);
      }
      if (completed === 100 && killedAtMs === 0) {
        child.kill('SIGKILL');
        await once(child, 'exit');
        killedAtMs = performance.now();
      }
    }
    const tookMs = performance.now() - killedAtMs;
    expect(killedAtMs, 'it was alive for a hundred of them').toBeGreaterThan(0);
    expect([status, wrId]).toEqual([IBV_WC_RETRY_EXC_ERR, BigInt(completed)]);
    console.log(`RETRY_EXC_ERR ${Math.round(tookMs)} ms after the end of the other process`);
    expect(tookMs).toBeLessThan(1000);
    const rest = await here.cq.drain(posted - completed - 1);
    expect(rest.map((one) => one.status)).toEqual(rest.map(() => IBV_WC_WR_FLUSH_ERR));
    expect(qp.state).toBe('ERR');
    qp.close();

    const next = await towards(here);
    next.write(1);
    expect((await here.cq.next()).status).toBe(0);
  });

  test('a waiting receiver is notified by the connection, and continues with another peer', async () => {
    const { context, pd, cq, mr } = open();
    const calls: Connection[] = [];
    let called = () => {};
    const prepare = (qp: Connection['qp']) => {
      for (let i = 0; i < 16; i++) qp.receive({ wrId: i, sgList: [{ mr, offset: 1024 * i, length: 1024 }] });
    };
    const server = await listen(context, { port: 0, host: '127.0.0.1', pd, sendCq: cq, prepare }, (one) => {
      calls.push(one);
      called();
    });
    const accepted = async () => {
      const child = start('sender', `${server.port}`);
      if (calls.length === 0) await new Promise<void>((resolve) => (called = resolve));
      return { child, connection: calls.shift() as Connection };
    };
    const receive = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const { status, wrId, qp } = await cq.next();
        expect(status).toBe(0);
        const slot = { mr, offset: 1024 * Number(wrId), length: 1024 };
        qp?.receive({ wrId, sgList: [slot] });
      }
    };
    const { child, connection } = await accepted();
    await receive(100);
    const gone = once(connection, 'close');
    child.kill('SIGKILL');
    await once(child, 'exit');
    const killedAtMs = performance.now();
    const [error] = await gone;
    const tookMs = performance.now() - killedAtMs;
    console.log(`told ${Math.round(tookMs)} ms after the end of the other process`);
    expect(error).toMatchObject({ code: 'ISO_ERR_CONNECTION' });
    expect(tookMs).toBeLessThan(1000);
    // The messages that arrived earlier complete first, up to all posted receives; then the remaining receives are
    // flushed.
    const rest = (await cq.drain(16)).map(({ status }) => status);
    const delivered = rest.filter((status) => status === 0).length;
    expect(rest.slice(delivered)).toEqual(rest.slice(delivered).map(() => IBV_WC_WR_FLUSH_ERR));
    expect(rest).toHaveLength(16);
    connection.close();

    const next = await accepted();
    await receive(20);
    next.connection.close();
    server.close();
  });
});
