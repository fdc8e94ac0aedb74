// @ts-nocheck
// Workers are repeatedly terminated in the middle of their work; the process survives.
import { Worker } from 'node:worker_threads';
import { loop, pass } from './setup.mjs';

const setup = JSON.stringify(new URL('./setup.mjs', import.meta.url).href);
const code = `import(${setup}).then(({ loop }) => {
  const { write, cq } = loop();
  require('node:worker_threads').parentPort.postMessage('up');
  const turn = async () => { write(); await cq.next(); setImmediate(turn); };
  turn();
});`;
for (let i = 0; i < 5; i++) {
  const worker = new Worker(code, { eval: true });
  await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
  await new Promise((resolve) => setTimeout(resolve, 10 * i));
  await worker.terminate();
}
const { write, cq, context } = loop();
write();
if ((await cq.next()).status !== 0) throw new Error('the main thread was disturbed');
context.close();
pass();
