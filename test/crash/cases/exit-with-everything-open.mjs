// @ts-nocheck
// process.exit() with requests in flight and promises pending.
import { loop, pass } from './setup.mjs';

const { write, cq } = loop();
for (let i = 0; i < 32; i++) write(1 << 18);
cq.next();
cq.next();
pass();
process.exit(0);
