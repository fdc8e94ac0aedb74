// @ts-nocheck: runs against dist, which a type check must not need.
// process.exit() inside a listener of a connection manager, with an unanswered connection request.
import { called, cm, ears, listener } from './cm-rig.mjs';
import { V } from './rig.mjs';

const at = ears();
const passive = cm.createEventChannel();
const { port } = listener(passive);
cm.watchEventChannel(passive, ({ event }) => {
  console.log(event === V.RDMA_CM_EVENT_CONNECT_REQUEST ? 'pass' : `event ${event}`);
  process.exit(0);
});
await called(at, port);
setTimeout(() => {}, 20_000);
