// @ts-nocheck
// Every verb answers invalid arguments of every type with a typed error, never a crash.
import { IsoverbsError, VERB_NAMES } from 'isoverbs';
import { loop, pass } from './setup.mjs';

const { context } = loop();
const { provider } = context;
const junk = [
  undefined,
  null,
  -1,
  0,
  1.5,
  NaN,
  Infinity,
  2 ** 53,
  1e9,
  '',
  'x',
  {},
  [],
  () => {},
  true,
  10n,
  Symbol('s'),
];
let thrown = 0;
for (const verb of VERB_NAMES) {
  if (verb === 'getDeviceList') continue;
  for (const value of junk) {
    for (const rest of [[], [value], [value, value, value, value, value], [1, 1, 1, 1]]) {
      try {
        provider[verb](value, ...rest);
      } catch (error) {
        if (!(error instanceof IsoverbsError) && !(error instanceof TypeError)) throw error;
        thrown++;
      }
    }
  }
}
if (thrown < 1000) throw new Error(`only ${thrown} of them were refused`);
context.close();
pass();
