// @ts-nocheck
// A tenant that always has WRITEs to send, on a simulated device with a link of 100 Gbit/s. Arguments are its queue
// pairs, each as JSON: { group }, { kbps }, the rate that the program sets, or { to }, the peer's host. It prints lines of JSON: what each queue pair
// has sent in Gbit/s on the wire, in each 20 ms of the device's time. Standard input changes rates: `QP KBPS`.
import { createInterface } from 'node:readline';
import { setImmediate as turn } from 'node:timers/promises';
import { openDevice } from 'isoverbs';
import { createFabric } from 'isoverbs/sim';

const BYTES = 65_536;
const OUTSTANDING = 4;
/** On the wire, in packets of 4096 bytes, each of which is a WRITE of its own. */
const WIRE_BYTES = (BYTES / 4096) * (4096 + 98);
const SPAN_NS = 20e6;
const POLLS_PER_TURN = 200;

const fabric = createFabric({ profile: 'cx6-100g', hosts: 3, payload: false });
const { provider } = fabric;
const [context, ...remotes] = ['sim0', 'sim1', 'sim2'].map((name) =>
  openDevice(name, { provider, ...(name !== 'sim0' && { policy: null }) }),
);
const pd = context.allocPd();
const cq = context.createCq({ cqe: 1024 });
const peers = remotes.map((remote) => {
  const pd = remote.allocPd();
  const target = pd.allocate(BYTES, { access: { remoteWrite: true } });
  return { pd, cq: remote.createCq({ cqe: 1024 }), target };
});
const mr = pd.allocate(BYTES);
const batch = context.sendBatch({ capacity: 1 });
const wc = context.wcBatch({ capacity: 32 });

const flows = process.argv.slice(2).map((text) => {
  const { group, kbps, to = 1 } = JSON.parse(text);
  const { pd: peerPd, cq: peerCq, target } = peers[to - 1];
  const qp = pd.createQp({ sendCq: cq, cap: { maxSendWr: OUTSTANDING } });
  const peer = peerPd.createQp({ sendCq: peerCq });
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  if (group !== undefined) qp.setLabels({ group });
  if (kbps !== undefined) qp.rateLimit({ rateLimitKbps: kbps });
  return { qp, target, sent: 0 };
});

const post = (i) => {
  batch.clear();
  const { qp, target } = flows[i];
  batch.write(i, 2, mr.addr, BYTES, mr.lkey, target.addr, target.rkey);
  qp.postSend(batch);
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const [i, kbps] = line.split(' ').map(Number);
  flows[i].qp.rateLimit({ rateLimitKbps: kbps });
});
process.stdin.on('end', () => process.exit(0));
console.log(JSON.stringify({ pid: process.pid }));
for (let k = 0; k < OUTSTANDING; k++) for (let i = 0; i < flows.length; i++) post(i);
for (let fromNs = fabric.nowNs, polls = 0; ; polls++) {
  const n = cq.poll(wc);
  for (let k = 0; k < n; k++) {
    if (wc.status(k) !== 0) process.exit(3);
    const i = Number(wc.wrId(k));
    flows[i].sent += WIRE_BYTES;
    post(i);
  }
  const spanNs = fabric.nowNs - fromNs;
  if (spanNs >= SPAN_NS) {
    console.log(JSON.stringify({ gbps: flows.map(({ sent }) => (sent * 8) / spanNs) }));
    for (const flow of flows) flow.sent = 0;
    fromNs = fabric.nowNs;
  }
  if (polls % POLLS_PER_TURN === 0) await turn();
}
