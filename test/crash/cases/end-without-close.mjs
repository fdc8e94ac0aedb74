// @ts-nocheck
// The program ends without closing anything: open objects must not keep the process alive.
import { loop, pass } from './setup.mjs';

const { write, cq, context } = loop();
write();
await cq.next();
globalThis.keep = context;
pass();
