// @ts-nocheck
// A tenant under load: two queue pairs, with signaled and unsignaled requests, one of them long enough to be
// split. Received data is compared, and completions are checked: none lost, none duplicated, in order. It
// prints lines of JSON: its rate whenever it changes, and what it has seen when standard input says `report`.
// `spin FILE` keeps it from polling while that file exists, `sync MS` makes it send and poll without running
// the event loop, `exit` closes everything, and `quit` ends the process as it is.
import { existsSync, openSync, readSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { IBV_SEND_SIGNALED, openDevice } from 'isoverbs';
import { registryFor } from '../../../dist/coordinator/registry.js';
import { RATE_GBPS, shares } from '../../../dist/policies/token-bucket/shares.js';
import { defaultSimProvider } from '../../../dist/providers/sim/index.js';

const PAUSE_MS = Number(process.env.PAUSE_MS ?? 2);
const SIZES = Array.from({ length: 16 }, (_, i) => (i === 7 ? 40_000 : 2000));
const TOTAL = SIZES.reduce((sum, bytes) => sum + bytes, 0);
const SIGNAL_EVERY = 5;
const POLLS_PER_TURN = 2000;
const SPIN_NS = 1e6;

const nowNs = () => Number(process.hrtime.bigint());
// How long this thread has waited for a CPU since it started, which on a busy machine is most of any delay. During
// garbage collection it sleeps until V8's other threads are done, and their waiting for a CPU is not
// included.
const statFd = openSync('/proc/self/schedstat', 'r');
const stat = Buffer.alloc(64);
const waitedNs = () => Number(stat.toString('latin1', 0, readSync(statFd, stat, 0, 64, 0)).split(' ')[1]);
const print = (line) => console.log(JSON.stringify(line));

function fail(why) {
  print({ error: why });
  process.exit(3);
}

/** A queue pair that sends to another queue pair of this process. */
class Flow {
  constructor(context, pd, cq) {
    this.qp = pd.createQp({ sendCq: cq, cap: { maxSendWr: 64 } });
    this.peer = pd.createQp({ sendCq: cq });
    this.qp.connectTo(this.peer.endpoint());
    this.peer.connectTo(this.qp.endpoint());
    this.mr = pd.allocate(2 * TOTAL, { access: { remoteWrite: true } });
    this.batch = context.sendBatch({ capacity: SIZES.length });
    this.due = [];
    this.next = 0;
  }

  post(flow) {
    const { batch, mr } = this;
    mr.bytes.fill(this.next % 251, 0, TOTAL);
    batch.clear();
    let at = 0;
    for (const [i, bytes] of SIZES.entries()) {
      const isSignaled = i % SIGNAL_EVERY === 0 || i === SIZES.length - 1;
      const id = 2 * this.next++ + flow;
      if (isSignaled) this.due.push(id);
      batch.write(
        id,
        isSignaled ? IBV_SEND_SIGNALED : 0,
        mr.addr + at,
        bytes,
        mr.lkey,
        mr.addr + TOTAL + at,
        mr.rkey,
      );
      at += bytes;
    }
    this.qp.postSend(batch);
  }

  verify() {
    if (this.due.length > 0) fail('requests are left');
    const { bytes } = this.mr;
    if (Buffer.compare(bytes.subarray(0, TOTAL), bytes.subarray(TOTAL)) !== 0) fail('the data is another');
  }
}

// A process that must be available without delay is started in advance and waits for `go`.
if (process.env.GATE === '1') {
  print({ ready: true });
  await new Promise((go) => process.stdin.once('data', go));
}
const context = openDevice();
const pd = context.allocPd();
const cq = context.createCq({ cqe: 256 });
const wc = context.wcBatch({ capacity: 32 });
const flows = [new Flow(context, pd, cq), new Flow(context, pd, cq)];
const coordinator = registryFor(defaultSimProvider()).coordinatorFor(context.name ?? 'sim0');

let rate = 0;
function reportRate() {
  const member = coordinator.members?.[0];
  if (member === undefined) return;
  const gbps = member.columns(shares).grants[RATE_GBPS];
  const joined = member.seatNumber >= 0 && member.grants.length !== member.grants.buffer.byteLength / 8;
  if (gbps === rate && joined === reportRate.joined) return;
  rate = gbps;
  reportRate.joined = joined;
  print({ rate, joined, ns: nowNs(), waitedNs: waitedNs() });
}
coordinator.listen?.(reportRate);

let completions = 0;
let lastNs = nowNs();
let lastWaitedNs = waitedNs();
let gapNs = 0;
let ownGapNs = 0;
function poll() {
  const n = cq.poll(wc);
  if (n === 0) return 0;
  const now = nowNs();
  gapNs = Math.max(gapNs, now - lastNs);
  const waited = waitedNs();
  ownGapNs = Math.max(ownGapNs, now - lastNs - (waited - lastWaitedNs));
  lastWaitedNs = waited;
  lastNs = now;
  for (let i = 0; i < n; i++) {
    const id = Number(wc.wrId(i));
    if (wc.status(i) !== 0) fail(`request ${id} failed with ${wc.status(i)}`);
    const expected = flows[id % 2].due.shift();
    if (expected !== id) fail(`completion of ${id}, not of ${expected}`);
  }
  completions += n;
  return n;
}

const isDone = () => flows.every(({ due }) => due.length === 0);
const postAll = () => {
  for (const [i, flow] of flows.entries()) flow.post(i);
};
const verifyAll = () => {
  for (const flow of flows) flow.verify();
};

const todo = process.argv.slice(2);
createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === 'report') {
    print({ report: { completions, gapNs, ownGapNs, rate, ns: nowNs() } });
    gapNs = 0;
    ownGapNs = 0;
  } else todo.push(line);
});
process.stdin.on('end', () => process.exit(0));

/** Posts, and does not poll while this file exists; the event loop is blocked too. */
function spin(file) {
  postAll();
  const beganNs = nowNs();
  print({ spinning: beganNs });
  while (existsSync(file)) for (const fromNs = nowNs(); nowNs() < fromNs + SPIN_NS; );
}

function sync(ms) {
  const endNs = nowNs() + ms * 1e6;
  while (nowNs() < endNs) {
    postAll();
    while (!isDone()) poll();
    verifyAll();
    reportRate();
  }
}

print({ pid: process.pid, ns: nowNs() });
for (;;) {
  const [word, what] = (todo.shift() ?? '').split(' ');
  if (word === 'exit') break;
  if (word === 'quit') {
    print({ leaving: nowNs() });
    process.exit(0);
  }
  if (word === 'sync') sync(Number(what));
  if (word === 'spin') spin(what);
  else postAll();
  for (let polls = 0; !isDone(); polls++) {
    if (poll() === 0 && polls % POLLS_PER_TURN === 0) await turn();
  }
  verifyAll();
  reportRate();
  if (PAUSE_MS > 0) await delay(PAUSE_MS);
  else await turn();
}
print({ leaving: nowNs() });
context.close();
process.stdin.destroy();
