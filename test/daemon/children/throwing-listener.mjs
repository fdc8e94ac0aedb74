// @ts-nocheck
// An exception in a listener is uncaught, as in any event handler, and the next call still comes.
import { createWake } from '../../../dist/daemon/ipc/index.js';

const [near, far] = createWake();
const caught = [];
process.on('uncaughtException', (error) => caught.push(error.message));
let calls = 0;
near.watch(
  () => {
    calls++;
    if (calls === 3) {
      near.close();
      setImmediate(() => console.log(caught.join() === 'call 1,call 2,call 3' ? 'pass' : caught.join()));
    } else {
      setImmediate(() => far.signal());
    }
    throw new Error(`call ${calls}`);
  },
  { keepAlive: true },
);
far.signal();
