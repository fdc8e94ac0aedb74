// @ts-nocheck
// Everything is closed while the program awaits completions and requests are in flight.
import { loop, pass } from './setup.mjs';

const { write, cq, context } = loop();
const loops = [1, 2].map(async () => {
  for await (const _ of cq);
});
const next = cq.next().then(
  () => 'served',
  (error) => error.code,
);
const late = Array.from({ length: 100 }, () => cq.next().catch((error) => error.code));
for (let i = 0; i < 16; i++) write(1 << 18);
context.close();
await Promise.all(loops);
if (!['served', 'ISO_ERR_HANDLE'].includes(await next)) throw new Error('neither served nor closed');
if ((await Promise.all(late)).at(-1) !== 'ISO_ERR_HANDLE') throw new Error('the last one was served');
pass();
