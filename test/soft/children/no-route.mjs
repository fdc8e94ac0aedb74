// @ts-nocheck
// WRITEs to a host to which the kernel has no route, and then to the device itself, in a network namespace of its own.
import { execSync } from 'node:child_process';
import { Context } from '../../../dist/objects/index.js';
import { createSoftNetwork } from '../../../dist/providers/soft/index.js';
import { IBV_SEND_SIGNALED } from '../../../dist/verbs/index.js';

const HERE = '10.99.0.1';
const ELSEWHERE = '10.98.0.1';

execSync('ip link set lo up');
execSync(`ip addr add ${HERE}/32 dev lo`);
const { provider } = createSoftNetwork({ addresses: [HERE] });
const context = new Context(provider, 'soft0', {});
const pd = context.allocPd();
const cq = context.createCq({ cqe: 16 });
const mr = pd.allocate(1 << 17, { access: { remoteWrite: true } });
const half = mr.bytes.length / 2;

/** WRITEs many packets over a new connection. */
async function write(gid) {
  const [qp, peer] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
  const to = JSON.parse(JSON.stringify(peer.endpoint()).replaceAll(HERE, gid));
  // 67 ms until packets are sent again: the device looks for its address at most every 50 ms.
  qp.connectTo(to, { timeout: 14, retryCnt: 2 });
  peer.connectTo(qp.endpoint());
  const batch = context.sendBatch({ capacity: 1 });
  batch.write(1, IBV_SEND_SIGNALED, mr.addr, half, mr.lkey, mr.addr + half, mr.rkey);
  qp.postSend(batch);
  return (await cq.next()).statusText;
}

for (const gid of [ELSEWHERE, HERE]) console.log(await write(gid));
context.close();
