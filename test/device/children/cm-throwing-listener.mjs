// @ts-nocheck: runs against dist, which a type check must not need.
// An error thrown by a listener is an uncaughtException; the channel stays open, and the connection request lost that
// way is closed with it.
import { called, cm, ears, listener } from './cm-rig.mjs';
import { check, pause, V } from './rig.mjs';

const at = ears();
const passive = cm.createEventChannel();
const { id, port } = listener(passive);
const caught = [];
process.on('uncaughtException', (error) => caught.push(error.message));
cm.watchEventChannel(passive, ({ event }) => {
  throw new Error(`thrown at ${event}`);
});
const clients = [await called(at, port), await called(at, port)];
for (let i = 0; i < 500 && caught.length < 2; i++) await pause(10);
process.removeAllListeners('uncaughtException');
const request = V.RDMA_CM_EVENT_CONNECT_REQUEST;
check(caught.join() === `thrown at ${request},thrown at ${request}`, `caught: ${caught}`);
let code = 'none';
try {
  cm.destroyEventChannel(passive);
} catch (error) {
  code = error.code;
}
check(code === 'ISO_ERR_BUSY', 'busy with the listening identifier');
cm.destroyId(id);
cm.destroyEventChannel(passive);
for (const _ of clients) {
  check((await at.heard(V.RDMA_CM_EVENT_REJECTED)).status === 28, 'rejected with the request');
}
for (const client of clients) cm.destroyId(client);
cm.destroyEventChannel(at.channel);
console.log('pass');
