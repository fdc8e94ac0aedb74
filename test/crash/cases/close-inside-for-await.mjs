// @ts-nocheck
// A consumer closes the context from inside its own loop.
import { loop, pass } from './setup.mjs';

const { write, cq, context } = loop();
for (let i = 0; i < 8; i++) write();
let n = 0;
for await (const wc of cq) {
  n++;
  if (wc.status !== 0) throw new Error(wc.statusText);
  if (n === 3) context.close();
}
if (n !== 3) throw new Error(`${n} completions`);
pass();
