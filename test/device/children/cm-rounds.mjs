// @ts-nocheck: runs against dist, which a type check must not need.
// Many rounds of everything leave no descriptor behind.
import { readdirSync } from 'node:fs';
import { address, called, cm, ears, listener } from './cm-rig.mjs';
import { check, V } from './rig.mjs';

const ROUNDS = 200;
const descriptors = () => readdirSync('/proc/self/fd').length;

async function round() {
  const at = ears();
  const { id, port } = listener(at.channel);
  const client = await called(at, port);
  const request = await at.heard(V.RDMA_CM_EVENT_CONNECT_REQUEST);
  cm.destroyId(request.id);
  await at.heard(V.RDMA_CM_EVENT_REJECTED);
  cm.destroyId(client);
  cm.destroyId(id);
  const member = cm.createId(at.channel, V.RDMA_PS_UDP);
  cm.bindAddr(member, { address: address, port: 0 });
  cm.joinMulticast(member, { address: '239.9.9.9', port: 0 });
  await at.heard(V.RDMA_CM_EVENT_MULTICAST_JOIN);
  cm.destroyId(member);
  cm.destroyEventChannel(at.channel);
}

await round();
const before = descriptors();
for (let i = 0; i < ROUNDS; i++) await round();
// libuv closes its handles in a later turn of the loop.
await new Promise((resolve) => setTimeout(resolve, 50));
check(descriptors() === before, `${descriptors()} descriptors, ${before} before`);
console.log('pass');
