// @ts-nocheck
// Takes the address of an open device away and gives it back, and changes the MTU, in a network namespace of its own.
import { execSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '../../../dist/objects/index.js';
import { createSoftNetwork } from '../../../dist/providers/soft/index.js';
import { IBV_PORT_ACTIVE, IBV_SEND_SIGNALED, mtuBytes } from '../../../dist/verbs/index.js';

const ip = (words) => execSync(`ip ${words}`);
ip('link set lo up');
ip('addr add 10.99.0.1/32 dev lo');
const { provider } = createSoftNetwork({ addresses: ['10.99.0.1'] });
const context = new Context(provider, 'soft0', {});
const pd = context.allocPd();
const cq = context.createCq({ cqe: 16 });
const mr = pd.allocate(4096, { access: { remoteWrite: true } });
const state = () => (context.queryPort(1).state === IBV_PORT_ACTIVE ? 'ACTIVE' : 'DOWN');
const events = context.events();

/** A WRITE to the device itself, over a new connection. */
async function write() {
  const [qp, peer] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
  qp.connectTo(peer.endpoint(), { timeout: 8, retryCnt: 1 });
  peer.connectTo(qp.endpoint());
  const batch = context.sendBatch({ capacity: 1 });
  batch.write(1, IBV_SEND_SIGNALED, mr.addr, 8, mr.lkey, mr.addr + 8, mr.rkey);
  qp.postSend(batch);
  return (await cq.next()).statusText;
}

console.log(state());
for (const change of ['del', 'add']) {
  ip(`addr ${change} 10.99.0.1/32 dev lo`);
  const { value } = await events.next();
  console.log(`${value.type}, ${state()}, WRITE ${await write()}`);
}
ip('link set lo mtu 1500');
while (mtuBytes(context.queryPort(1).activeMtu) !== 1024) await delay(50);
console.log(`MTU 1024, WRITE ${await write()}`);
context.close();
