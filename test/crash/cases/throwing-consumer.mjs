// @ts-nocheck
// Callbacks of the program throw: the error reaches the program, and the library stays usable.
import { connect, listen, openDevice } from 'isoverbs';
import { pass } from './setup.mjs';

const context = openDevice();
const pd = context.allocPd();
const cq = context.createCq();
const options = { pd, sendCq: cq };
const errors = [];
process.on('uncaughtException', (error) => errors.push(error.message));
let calls = 0;
const listener = await listen(context, { port: 0, ...options }, () => {
  throw new Error(`thrown in call ${++calls}`);
});
for (let i = 0; i < 2; i++) (await connect(context, { port: listener.port, ...options })).close();
while (errors.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
if (errors.join() !== 'thrown in call 1,thrown in call 2') throw new Error(errors.join());
context.close();
pass();
