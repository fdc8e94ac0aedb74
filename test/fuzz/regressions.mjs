// @ts-nocheck
/** Bugs found by fuzzing, one case each, on the null device: node regressions.mjs NAME. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { makeError } from '../../dist/verbs/errors.js';

const root = resolve(import.meta.dirname, '../..');
const native = createRequire(import.meta.url)('bindings')({ bindings: 'isoverbs', module_root: root });
native.init(makeError, (bytes) => new Uint8Array(new SharedArrayBuffer(bytes)), native.detachBuffer);
const block = native.callBlock();
const call = new Uint32Array(block.memory, block.byteOffset, block.words);
const context = native.openDevice('null0');
const pd = native.allocPd(context);

function ring(capacity) {
  const { handle, memory, byteOffset } = native.createWrRing(capacity, 1, 0);
  return { handle, words: new Uint32Array(memory, byteOffset, 16 + capacity * 16) };
}

function postToSrq(srq, { handle }, count) {
  call.set([srq, handle, 0, count]);
  native.postSrqRecv();
  return call[4];
}

const cases = {
  /** A post of more elements than are built at a time never returned. */
  'srq-elements'() {
    const xrcd = native.openXrcd(context);
    const { handle: cq } = native.createCq(context, 16, 0, 0, 0);
    const { handle: srq } = native.createSrq(pd, 16, 5000, xrcd, cq);
    assert.equal(postToSrq(srq, ring(4), 4), 4);
  },
  /** The check for detached buffers was missing from optimised builds. */
  'srq-detached'() {
    const { handle: srq } = native.createSrq(pd, 16, 1, 0, 0);
    const buffer = new ArrayBuffer(64);
    const mr = native.regMr(pd, new Uint8Array(buffer), 1);
    const { handle, words } = ring(1);
    words[16 + 2] = 1 << 16;
    words[16 + 10] = 8;
    words[16 + 11] = mr.lkey;
    assert.equal(postToSrq(srq, { handle }, 1), 1);
    structuredClone(buffer, { transfer: [buffer] });
    assert.equal(postToSrq(srq, { handle }, 1), 0);
    assert.equal(words[1], 8);
  },
  /** Re-registration moved a region to memory that the caller had not passed. */
  'rereg-nothing'() {
    const { handle: mr } = native.allocMr(pd, 4096, 1);
    assert.throws(() => native.reregMr(mr, 1, 0, undefined, 0), { code: 'ISO_ERR_ARGUMENT' });
    assert.equal(native.reregMr(mr, 4, 0, undefined, 1).lengthBytes, 4096);
  },
  /** A rejected init had already replaced some of the functions. */
  'init-halfway'() {
    assert.throws(
      () =>
        native.init(
          () => 'no error',
          () => {},
          5,
        ),
      { code: 'ISO_ERR_ARGUMENT' },
    );
    assert.throws(() => native.deallocPd(1), { code: 'ISO_ERR_HANDLE' });
  },
};

cases[process.argv[2]]();
console.log('pass');
