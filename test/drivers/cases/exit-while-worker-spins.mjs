// @ts-nocheck
// The policy never returns; posting does not wait for it, and the process can end.
import { heldWrite } from '../held-write.mjs';

heldWrite('spins');
console.log('pass');
process.exit(0);
