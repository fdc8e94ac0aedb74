// @ts-nocheck
// A context on sim0 that transfers from sim1 with READs (`bulk`), or a context on sim1 that sends small messages
// (`small`). It prints a line of JSON whenever what the policy does about the context, and why, changes.
import { setImmediate as turn } from 'node:timers/promises';
import { IBV_SEND_SIGNALED, openDevice } from 'isoverbs';

const isBulk = process.argv[2] === 'bulk';
const BYTES = isBulk ? 1 << 20 : 64;
const DEPTH = isBulk ? 2 : 1;

const ends = ['sim0', 'sim1'].map((name) => {
  const context = openDevice(name);
  const pd = context.allocPd();
  const cq = context.createCq({ cqe: 256 });
  const qp = pd.createQp({ sendCq: cq, cap: { maxSendWr: 64 } });
  const mr = pd.allocate(BYTES, { access: { remoteRead: true, remoteWrite: true } });
  return { context, cq, qp, mr };
});
// The loop below does not use the other end, which would be collected, and reported as a leak.
globalThis.ends = ends;
const [near, far] = isBulk ? ends : [...ends].reverse();
near.qp.connectTo(far.qp.endpoint());
far.qp.connectTo(near.qp.endpoint());
const batch = near.context.sendBatch({ capacity: 1 });
const wc = near.context.wcBatch({ capacity: 16 });
const verb = isBulk ? 'read' : 'write';
batch[verb](0, IBV_SEND_SIGNALED, near.mr.addr, BYTES, near.mr.lkey, far.mr.addr, far.mr.rkey);

let shown = '';
let open = 0;
console.log(JSON.stringify({ pid: process.pid }));
process.stdin.on('end', () => process.exit(0)).resume();
for (;;) {
  for (; open < DEPTH; open++) near.qp.postSend(batch);
  for (let polls = 0; open === DEPTH && polls < 200; polls++) {
    const n = near.cq.poll(wc);
    for (let i = 0; i < n; i++) if (wc.status(i) !== 0) throw new Error(`failed with ${wc.status(i)}`);
    open -= n;
  }
  const states = near.context.provider.policyStates?.() ?? [];
  const { does, why } = states.find(({ device }) => device === near.context.name) ?? {};
  const state = `${does}: ${why}`;
  if (state !== shown) console.log(JSON.stringify({ state }));
  shown = state;
  await turn();
}
