// @ts-nocheck
import { connectUnix, createMemory, createWake, listenUnix } from '../../../dist/daemon/ipc/index.js';

const listener = listenUnix(process.argv[2]);
const near = connectUnix(listener.path);
const memory = createMemory('open', 1 << 16);
const [left, right] = createWake();
new Uint8Array(memory.buffer).fill(1);
near.watch(() => {});
left.watch(() => {
  console.log('pass');
  // Exits within a listener, with everything open.
  process.exit(0);
});
listener.watch(() => {
  listener.accept();
  right.signal();
});
