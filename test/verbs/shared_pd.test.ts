// Protection domains shared between contexts (counterpart of rdma-core's test_shared_pd.py). Importing another
// process's device, protection domain and memory is out of scope and refused; each context has its own.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import * as refusedVerbs from '../../src/verbs-refused.ts';
import { feature } from './ground.ts';
import { ACCESS, closeEnd, connect, createQp, openEnd, polled, postSend } from './rig.ts';

const calls: Record<string, () => never> = { ...refusedVerbs };
const IMPORTS = ['ibv_import_device', 'ibv_import_pd', 'ibv_import_mr'];

feature(
  'import of objects of another process',
  {
    group: 'shared_pd',
    refusedBy: ['sim', 'soft', 'rxe'],
    others: 'out of scope: open the device in each process',
  },
  (it) => {
    for (const verb of IMPORTS) it(`${verb} throws UnsupportedError`, () => calls[verb]());
  },
);

feature('several contexts of one device', { group: 'shared_pd', others: 'every device' }, (it) => {
  it('contexts write into each other’s memory by its key, as with an import', async (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 0)];
    const [qpA, qpB] = [createQp(a, { extended: true }), createQp(b, { extended: true })];
    connect(a, qpA.handle, b, qpB.qpNum);
    connect(b, qpB.handle, a, qpA.qpNum);
    for (let i = 1; i <= 10; i++) {
      a.bytes.fill(i, 0, 1000);
      postSend(a, qpA.handle, (batch) =>
        batch.write(i, V.IBV_SEND_SIGNALED, a.mr.addr, 1000, a.mr.lkey, b.mr.addr + 4096, b.mr.rkey),
      );
      expect(await polled(a, 1)).toMatchObject([{ wrId: i, status: 'SUCCESS' }]);
      expect(b.bytes.subarray(4096, 5096).every((byte) => byte === i)).toBe(true);
    }
    a.p.destroyQp(qpA.handle);
    b.p.destroyQp(qpB.handle);
    closeEnd(a);
    closeEnd(b);
  });

  it('contexts register the same memory under different keys', async (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 0)];
    const memory = new SharedArrayBuffer(8192);
    const shared = [a, b].map((end) => end.p.regMr(end.pd, memory, 0, 8192, ACCESS));
    expect(shared[0].addr).toBe(shared[1].addr);
    const [qpA, qpB] = [createQp(a), createQp(b)];
    connect(a, qpA.handle, b, qpB.qpNum);
    connect(b, qpB.handle, a, qpA.qpNum);
    const bytes = new Uint8Array(memory);
    bytes.fill(8, 0, 100);
    const [near, far] = shared;
    postSend(a, qpA.handle, (batch) =>
      batch.write(1, V.IBV_SEND_SIGNALED, near.addr, 100, near.lkey, far.addr + 4096, far.rkey),
    );
    expect(await polled(a, 1)).toMatchObject([{ status: 'SUCCESS' }]);
    expect(bytes.subarray(4096, 4196).every((byte) => byte === 8)).toBe(true);
    a.p.destroyQp(qpA.handle);
    b.p.destroyQp(qpB.handle);
    a.p.deregMr(near.handle);
    b.p.deregMr(far.handle);
    closeEnd(a);
    closeEnd(b);
  });

  it('closing one does not affect the other', (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 0)];
    closeEnd(a);
    expect(() => a.p.allocMr(a.pd, 4096, 0)).toThrow(V.InvalidHandleError);
    const mr = b.p.allocMr(b.pd, 4096, ACCESS);
    b.p.deregMr(mr.handle);
    closeEnd(b);
  });
});
