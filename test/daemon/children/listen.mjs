// @ts-nocheck
// Listens on a path, at a given time; prints whether it succeeded, and stays. listen.mjs PATH [EPOCH_MS]
import { setTimeout as delay } from 'node:timers/promises';
import { listenUnix } from '../../../dist/daemon/ipc/index.js';

const [path, at = '0'] = process.argv.slice(2);
await delay(Math.max(0, Number(at) - Date.now()));
try {
  const listener = listenUnix(path);
  listener.watch(() => {});
  console.log('listening');
} catch (error) {
  console.log(error.code);
}
