// @ts-nocheck
// Unclosed objects are garbage-collected in any order, with requests in flight.
import { collect, loop, pass } from './setup.mjs';

process.on('warning', (warning) => {
  if (warning.code !== 'ISO_LEAK') throw warning;
});
process.removeAllListeners('warning');
const warnings = new Promise((resolve) => process.once('warning', resolve));
for (let i = 0; i < 20; i++) loop().write(1 << 16);
await collect();
for (let i = 0; i < 20; i++) loop().context.close();
await collect();
if ((await warnings).code !== 'ISO_LEAK') throw new Error('no leak was reported');
pass();
