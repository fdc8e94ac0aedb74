// @ts-nocheck
// The program simply ends: nothing that nobody waits for may keep the process alive.
import { loop, pass } from './setup.mjs';

const { write, cq, context } = loop();
write();
await cq.next();
globalThis.keep = context;
pass();
