/** A message that finds no receive at its peer must not hold up other connections. */
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, post, postRecv, SIGNALED, take } from './helpers.ts';

/** One more end in the same context and protection domain, with completion queues of its own. */
function another(base: End): End {
  const { v, context, pd } = base;
  const [sendCq, recvCq] = [v.createCq(context, 64, 0).handle, v.createCq(context, 64, 0).handle];
  const cap = { maxSendWr: 16, maxRecvWr: 16, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 64 };
  const { handle, qpNum } = v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false });
  return { ...base, sendCq, recvCq, qp: handle, qpNum };
}

test.each(['fair', 'drum', 'tassel'] as const)('under %s, from the first message on', async (policy) => {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  const on = { ...fabric, provider: compose(fabric.provider, [createPolicy(policy)]) };
  const bases = [makeEnd(on, 0), makeEnd(on, 1)];
  const pairs = [0, 1, 2].map(() => bases.map(another));
  for (const [a, b] of pairs) connect(a, b);
  // The peers of the first two post no receives. Their messages are issued after earlier ones have been given up.
  for (const [i, sizes] of [[930], [111, 0]].entries()) {
    const [a] = pairs[i];
    for (const [wrId, bytes] of sizes.entries()) a.send.send(wrId, SIGNALED, a.mr.addr, bytes, a.mr.lkey);
    post(a);
    await fabric.advance(5_000_000);
    expect(take(a)).toEqual([]);
  }
  const [a, b] = pairs[2];
  for (const wrId of [7, 8]) b.recv.recv(wrId, b.mr.addr, 4096, b.mr.lkey);
  postRecv(b);
  for (const wrId of [7, 8]) a.send.send(wrId, SIGNALED, a.mr.addr, 930, a.mr.lkey);
  post(a);
  await fabric.advance(1_000_000);
  expect(take(a).map(({ wrId, status }) => `${wrId} ${status}`)).toEqual(['7 SUCCESS', '8 SUCCESS']);
});

test.each(['fair', 'palos', 'drum', 'tassel'] as const)(
  'under %s, queue pairs to a peer that has vanished are not waited for one after another',
  async (policy) => {
    const options = {
      profile: PROFILES['cx6-100g'],
      hosts: 3,
      topology: 'star',
      autoAdvance: false,
    } as const;
    const fabric = createFabric(options);
    const on = { ...fabric, provider: compose(fabric.provider, [createPolicy(policy)]) };
    const bases = [makeEnd(on, 0), makeEnd(fabric, 1)];
    for (let i = 0; i < 16; i++) {
      const [a, b] = bases.map(another);
      connect(a, b);
      b.v.destroyQp(b.qp);
      for (let wrId = 0; wrId < 8; wrId++)
        a.send.write(wrId, SIGNALED, a.mr.addr, 4096, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
    }
    const [a, b] = [another(bases[0]), makeEnd(fabric, 2)];
    connect(a, b);
    for (let wrId = 0; wrId < 8; wrId++)
      a.send.write(wrId, SIGNALED, a.mr.addr, 4096, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    await fabric.advance(3_000_000);
    expect(take(a).map(({ status }) => status)).toEqual(Array(8).fill('SUCCESS'));
  },
);
