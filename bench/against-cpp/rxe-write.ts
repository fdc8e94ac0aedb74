/**
 * Compares RDMA WRITEs on a real device with C ib_write_bw on the same device, in alternation. As in ib_write_bw by
 * default, 128 are outstanding, every 100th is signaled, and the peer is passive. Prints JSON.
 */
import { execFile, spawn } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { Context } from '#src/objects/index.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { IBV_SEND_SIGNALED } from '#src/verbs/index.ts';
import { p50 } from '../timing.ts';

const run = promisify(execFile);
const DEVICE = process.env.RXE_DEV ?? 'rxe0';
const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 5);
const DEPTH = 128;
const MODERATION = 100;
const CASES = [
  { bytes: 65536, iterations: 5000 },
  { bytes: 2, iterations: 20000 },
];

interface Rate {
  mibPerS: number;
  messagesPerS: number;
}

/** One run of isoverbs, between two queue pairs of this process. */
async function ours(context: Context, bytes: number, iterations: number): Promise<Rate> {
  using pd = context.allocPd();
  using cq = context.createCq({ cqe: 2 * DEPTH, channel: null });
  const options = { sendCq: cq, recvCq: cq, cap: { maxSendWr: DEPTH, maxRecvWr: 1 } };
  using qp = pd.createQp(options);
  using peer = pd.createQp(options);
  using mr = pd.allocate(2 * bytes, { access: { remoteWrite: true } });
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  using batch = context.sendBatch({ capacity: DEPTH });
  using wcs = context.wcBatch({ capacity: 16 });
  let posted = 0;
  let done = 0;
  const startMs = performance.now();
  while (done < iterations) {
    batch.clear();
    while (posted - done < DEPTH && posted < iterations) {
      posted++;
      const signaled = posted % MODERATION === 0 || posted === iterations;
      batch.write(
        posted,
        signaled ? IBV_SEND_SIGNALED : 0,
        mr.addr,
        bytes,
        mr.lkey,
        mr.addr + bytes,
        mr.rkey,
      );
    }
    if (batch.length > 0) qp.postSend(batch);
    const n = cq.poll(wcs);
    for (let i = 0; i < n; i++) {
      if (wcs.status(i) !== 0) throw new Error(`a WRITE failed with status ${wcs.status(i)}`);
      done = wcs.wrId(i);
    }
  }
  const seconds = (performance.now() - startMs) / 1000;
  return { mibPerS: (bytes * iterations) / seconds / 2 ** 20, messagesPerS: iterations / seconds };
}

/** One run of C ib_write_bw, with server and client on this machine. */
async function perftest(bytes: number, iterations: number, port: number): Promise<Rate> {
  const flags = ['-d', DEVICE, '-x', '1', '-F', '-s', `${bytes}`, '-n', `${iterations}`, '-p', `${port}`];
  const server = spawn('ib_write_bw', flags, { stdio: 'ignore' });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const { stdout } = await run('ib_write_bw', [...flags, '127.0.0.1']);
  server.kill();
  const row = stdout.split('\n').find((line) => new RegExp(`^ ${bytes}\\s`).test(line));
  if (row === undefined) throw new Error(`no result in ib_write_bw's output:\n${stdout}`);
  const [, , , average, rate] = row.trim().split(/\s+/).map(Number);
  return { mibPerS: average, messagesPerS: rate * 1e6 };
}

async function main(): Promise<void> {
  const context = new Context(createRdmaCoreProvider(), DEVICE);
  const results = [];
  let port = 18600;
  for (const { bytes, iterations } of CASES) {
    const mine: Rate[] = [];
    const theirs: Rate[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      theirs.push(await perftest(bytes, iterations, port++));
      mine.push(await ours(context, bytes, iterations));
    }
    const of = (rates: Rate[]) => ({
      mibPerS: p50(rates.map((rate) => rate.mibPerS)),
      messagesPerS: p50(rates.map((rate) => rate.messagesPerS)),
    });
    const [isoverbs, ibWriteBw] = [of(mine), of(theirs)];
    results.push({
      bytes,
      iterations,
      isoverbs,
      ibWriteBw,
      ratio: isoverbs.messagesPerS / ibWriteBw.messagesPerS,
    });
  }
  context.close();
  console.log(JSON.stringify({ benchmark: 'rxe-write', device: DEVICE, rounds: ROUNDS, results }, null, 2));
}

void main();
