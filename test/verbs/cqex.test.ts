// Extended completion queues: timestamps (counterpart of rdma-core's test_cqex.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { completions, feature, type Ground } from './ground.ts';
import { closePair, connect, connectedPair, createQp, openEnd, postSend } from './rig.ts';

const others = 'devices that stamp completions (mlx5 ...)';

/** Two WRITEs that complete on a queue of the given flags. */
async function stamped(ground: Ground, wcFlags: number): Promise<{ wcs: V.WcBatch; close(): void }> {
  const probe = openEnd(ground, 0);
  const cq = probe.p.createCq(probe.context, 16, 0, { wcFlags }).handle;
  probe.p.destroyCq(cq);
  const pair = connectedPair(ground);
  const { a, b } = pair;
  const extended = a.p.createCq(a.context, 16, 0, { wcFlags }).handle;
  a.p.destroyQp(pair.qpA.handle);
  b.p.destroyQp(pair.qpB.handle);
  pair.qpA = createQp(a, { sendCq: extended });
  pair.qpB = createQp(b);
  connect(a, pair.qpA.handle, b, pair.qpB.qpNum);
  connect(b, pair.qpB.handle, a, pair.qpA.qpNum);
  const { handle } = pair.qpA;
  postSend(a, handle, (batch) => {
    for (const id of [1, 2]) {
      batch.write(id, V.IBV_SEND_SIGNALED, a.mr.addr, 4096, a.mr.lkey, b.mr.addr, b.mr.rkey);
    }
  });
  const wcs = await completions(ground, extended, 2);
  const close = () => {
    wcs.close();
    a.p.destroyQp(handle);
    a.p.destroyCq(extended);
    pair.qpA = createQp(a);
    closePair(pair);
  };
  return { wcs, close };
}

feature('completion timestamps', { group: 'cqex', refusedBy: ['rxe'], others }, (it) => {
  it('tell when each completed, on the clock of queryRtValues', async (ground) => {
    const { wcs, close } = await stamped(ground, V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
    expect(wcs.ticks(0)).toBeGreaterThan(0n);
    expect(wcs.ticks(1)).toBeGreaterThan(wcs.ticks(0));
    const end = openEnd(ground, 0);
    expect(end.p.queryRtValues(end.context).ticks).toBeGreaterThanOrEqual(wcs.ticks(1));
    expect([wcs.wrId(0), wcs.wrId(1)]).toEqual([1, 2]);
    close();
  });

  it('wall clock', async (ground) => {
    const { wcs, close } = await stamped(ground, V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    expect(wcs.wallclockNs(0)).toBeGreaterThan(0n);
    expect(wcs.wallclockNs(1)).toBeGreaterThan(wcs.wallclockNs(0));
    close();
  });

  it('flags of completions that nobody has', (ground) => {
    const end = openEnd(ground, 0);
    expect(() => end.p.createCq(end.context, 16, 0, { wcFlags: 1 << 30 })).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_UNSUPPORTED' }),
    );
    end.p.createCq(end.context, 16, 0, { wcFlags: V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP });
  });
});
