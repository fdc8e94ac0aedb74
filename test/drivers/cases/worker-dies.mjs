// @ts-nocheck
// The policy throws: typed errors from then on, and everything can be closed.
import { heldWrite } from '../held-write.mjs';

const warnings = [];
process.on('warning', (warning) => warnings.push(warning.code));
const { context, cq, qp } = heldWrite('throws');
let code = '';
try {
  await cq.next();
} catch (error) {
  code = error.code;
}
if (code !== 'ISO_ERR_DRIVER') throw new Error(`code ${code}`);
const state = qp.query().attr?.qpState;
// As the line at exit and the end of a trace do.
if (!Array.isArray(context.provider.counters())) throw new Error('no counters');
context.close();
await new Promise((resolve) => setTimeout(resolve, 50));
if (!warnings.includes('ISO_ERR_DRIVER')) throw new Error(`warnings ${warnings}, state ${state}`);
console.log('pass');
