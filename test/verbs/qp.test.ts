// Queue pairs: creation, states, traffic by type (counterpart of rdma-core's test_qp.py and test_qpex.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { closePair, connectedPair, polled, postRecv, postSend } from './rig.ts';

feature('RC queue pairs', { group: 'qp', others: 'every device' }, (it) => {
  it('SEND lands in the receive and completes on both sides', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    a.bytes.fill(7, 0, 3000);
    postRecv(b, qpB.handle, 5, 4096, 3000);
    postSend(a, qpA.handle, (batch) => batch.send(9, V.IBV_SEND_SIGNALED, a.mr.addr, 3000, a.mr.lkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 9, status: 'SUCCESS', opcode: 'SEND' }]);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 5, status: 'SUCCESS', opcode: 'RECV', byteLen: 3000 }]);
    expect(b.bytes.subarray(4096, 7096).every((byte) => byte === 7)).toBe(true);
    closePair(pair);
  });
});
