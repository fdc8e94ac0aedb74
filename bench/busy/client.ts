/**
 * A program under justitia and a daemon, over the null device: it sends one token after another, and sleeps while there
 * are no completions; or it sends single messages after a pause. The parent controls it by messages.
 */
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { setRemoteCoordinators } from '#src/coordinator/registry.ts';
import { DaemonClient } from '#src/daemon/client/client.ts';
import { createPolicy } from '#src/policies/index.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose } from '#src/shim/compose.ts';
import * as V from '#src/verbs/index.ts';
import { LIBRARY, openNull } from '../against-cpp/null-device.ts';
import { nowNs } from '../timing.ts';

/** What the parent sends. */
export type Order =
  | { readonly do: 'flood' | 'stop' | 'report' | 'log' }
  | { readonly do: 'probe'; readonly count: number };

/** What the program answers to `report`: bytes sent so far, its CPU time, and the time. */
export interface Report {
  readonly bytes: number;
  readonly cpuNs: number;
  readonly atNs: number;
}

/** Bytes of the program's messages, of which the policy holds nearly all. */
const HELD_BYTES = 4_000_000;
/** Polls between two turns of the event loop. */
const POLLS = 64;
const PROBE_PAUSE_MS = 5;
/** Longer than an application counts that has nothing to send. */
const JOIN_MS = 300;
const LOGGED = 2 ** 16;

process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
const [socket, tenant, weight, policyOptions] = process.argv.slice(2);
const options = JSON.parse(policyOptions) as Record<string, number>;
const messageBytes = options.bulkChunkBytes;
const maxInFlight = Math.ceil(HELD_BYTES / messageBytes);

const client = new DaemonClient({ socket, hello: { tenant, weight: Number(weight) }, report: () => {} });
setRemoteCoordinators((device) => client.coordinator(device));
const bench = openNull(compose(createRdmaCoreProvider(), [createPolicy('justitia', options)]));
const { provider, qp, cq, send, wcs } = bench;

let isFlooding = false;
let isProbing = false;
let inFlight = 0;
let bytes = 0;
/** The times of the last completions. */
const logNs = new Float64Array(LOGGED);
let logged = 0;

function post(): void {
  send.clear().write(1, V.IBV_SEND_SIGNALED, 0x10000000, messageBytes, 7, 0x20000000, 9);
  if (provider.postSend(qp, send.ring, 0, 1) !== 1) throw new Error(`errno ${send.errno}`);
  inFlight++;
}

function poll(): void {
  const done = provider.pollCq(cq, wcs.ring, 0, 16);
  inFlight -= done;
  bytes += done * messageBytes;
  for (let i = 0; i < done; i++) logNs[logged++ % LOGGED] = nowNs();
}

/** The times from a post to its completion, which the null device reports at once when it is given the request. */
async function probe(count: number): Promise<number[]> {
  const waitsNs: number[] = [];
  isProbing = true;
  for (let i = 0; i < count; i++) {
    await delay(PROBE_PAUSE_MS);
    const fromNs = nowNs();
    post();
    for (let polls = 0; inFlight > 0; polls++) {
      poll();
      if (polls % POLLS === POLLS - 1) await turn();
    }
    waitsNs.push(nowNs() - fromNs);
  }
  isProbing = false;
  return waitsNs;
}

/** Sends what has been posted. Returns the time at which the program has become idle. */
async function stop(): Promise<number> {
  isFlooding = false;
  while (inFlight > 0) await turn();
  return logNs[(logged - 1) % LOGGED];
}

function report(): Report {
  const { user, system } = process.cpuUsage();
  return { bytes, cpuNs: (user + system) * 1e3, atNs: nowNs() };
}

process.on('message', async (order: Order) => {
  if (order.do === 'flood') isFlooding = true;
  const answers = {
    flood: () => nowNs(),
    stop,
    report,
    log: () => [...logNs.subarray(0, Math.min(logged, LOGGED))].toSorted((a, b) => a - b),
    probe: () => probe((order as Order & { do: 'probe' }).count),
  };
  process.send?.(await answers[order.do]());
});
process.once('disconnect', () => process.exit());
while (!client.isConnected) await delay(10);
await delay(JOIN_MS);
process.send?.('ready');
for (;;) {
  if (!isFlooding && (inFlight === 0 || isProbing)) {
    await delay(1);
    continue;
  }
  const before = bytes;
  for (let polls = 0; polls < POLLS; polls++) {
    while (isFlooding && inFlight < maxInFlight) post();
    poll();
  }
  await (bytes === before ? delay(1) : turn());
}
