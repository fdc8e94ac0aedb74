/** How processes end in the middle of transfers, on a real device. */
import { describe, expect, test } from 'vitest';
import { openDevice } from '../../src/index.ts';
import { endings } from '../crash/endings.ts';
import { findDevice } from './rig.ts';

const found = findDevice();

/**
 * The endings that differ most from the device's point of view; in a virtual machine each takes ten seconds or more.
 */
const ENDINGS = ['wait', 'worker terminated'];

describe.skipIf(typeof found === 'string')('processes that end in the middle of transfers', () => {
  endings(typeof found === 'string' ? '' : found.name, ENDINGS);
});

describe.skipIf(typeof found === 'string')('a bound window is closed before its queue pair', () => {
  // Soft-RoCE blocks for 50 s if the queue pair is closed first.
  test('when the context is closed', async () => {
    const context = openDevice(typeof found === 'string' ? '' : found.name);
    const pd = context.allocPd();
    const window = pd.allocMw();
    const qp = pd.createQp({ sendCq: context.createCq() });
    qp.connectTo(qp.endpoint());
    const mr = pd.allocate(4096, { access: { remoteWrite: true, mwBind: true } });
    await window.bind(qp, { mr, access: { remoteWrite: true } });
    const began = performance.now();
    context.close();
    expect(performance.now() - began).toBeLessThan(20_000);
  }, 90_000);
});
