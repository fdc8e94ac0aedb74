// @ts-nocheck
// Sockets that are watched, closed and watched again under the same numbers, from within each other's
// listeners.
import { createWake } from '../../../dist/daemon/ipc/index.js';

let told = 0;
let pairs = [];
function again() {
  for (const [near, far] of pairs) {
    near.close();
    far.close();
  }
  pairs = Array.from({ length: 8 }, () => createWake());
  for (const [near, far] of pairs) {
    near.watch(
      () => {
        told++;
        if (told < 2000) again();
      },
      { keepAlive: told < 1990 },
    );
    far.signal();
  }
}
again();
process.on('exit', () => console.log(told >= 2000 ? 'pass' : `told ${told}`));
setTimeout(() => process.exit(), 20_000).unref();
