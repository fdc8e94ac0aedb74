/**
 * A UC queue pair goes from SQE back to RTS before the failure is polled, so that one poll brings the failure and a later
 * success. Then it fails again, with requests held. The results must be the same with a shim and without one.
 */
import { expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import type { Actions, Policy, QpView } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { type End, makeEnd, modify, post, SIGNALED, take } from '../sim/helpers.ts';
import { pathTo, toRts } from '../support/to-rts.ts';

const CAP = { maxSendWr: 16, maxRecvWr: 16, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };

/** Forwards everything until `holds` is set. */
class Late implements Policy {
  readonly name = 'late';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 16;
  holds = false;

  onload(_qp: QpView, _words: Uint32Array, _start: number, count: number): number {
    return this.holds ? 0 : count;
  }

  feed(qp: QpView, out: Actions): void {
    while (!this.holds && out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }
}

function connectUc(a: End, b: End): void {
  for (const end of [a, b]) {
    end.v.destroyQp(end.qp);
    const { sendCq, recvCq } = end;
    const attr = { qpType: V.IBV_QPT_UC, sendCq, recvCq, cap: CAP, sqSigAll: false };
    const { handle, qpNum } = end.v.createQp(end.pd, attr);
    Object.assign(end, { qp: handle, qpNum });
  }
  for (const [end, peer] of [
    [a, b],
    [b, a],
  ]) {
    const ah = pathTo(peer.v.queryGid(peer.context, 1, 0).gid);
    toRts(end.v, end.qp, { qpType: V.IBV_QPT_UC, destQpNum: peer.qpNum, ah });
  }
}

async function failTwice(chain: Interceptor[], policy: Late, pollsBetween: boolean): Promise<string[]> {
  const fabric = createFabric({ autoAdvance: false });
  const provider = compose(fabric.provider, chain);
  const a = makeEnd({ ...fabric, provider } as Fabric, 0, { bytes: 4096 });
  const b = makeEnd(fabric, 1, { bytes: 4096 });
  connectUc(a, b);
  const seen: string[] = [];
  const polled = () => {
    for (const { wrId, status } of take(a)) seen.push(`${wrId} ${status}`);
  };
  const write = async (wrId: number, lkey = a.mr.lkey) => {
    a.send.write(wrId, SIGNALED, a.mr.addr, 64, lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(1);
    // A post that is accepted whole, held or not, leaves no errno.
    expect(a.send.errno).toBe(0);
    await fabric.run();
  };
  const recover = () => modify(a, { qpState: V.IBV_QPS_RTS });
  await write(1, 12345);
  if (pollsBetween) polled();
  recover();
  await write(2);
  polled();
  await write(3, 12345);
  polled();
  policy.holds = true;
  await write(4);
  await write(5);
  recover();
  await fabric.run();
  policy.holds = false;
  polled();
  await write(6);
  polled();
  return seen;
}

test.each([true, false])(
  'a queue pair that recovered from a failure fails again; polled in between: %s',
  async (pollsBetween) => {
    const bare = await failTwice([], new Late(), pollsBetween);
    expect(bare).toEqual([
      '1 LOC_PROT_ERR',
      '2 SUCCESS',
      '3 LOC_PROT_ERR',
      '4 WR_FLUSH_ERR',
      '5 WR_FLUSH_ERR',
      '6 SUCCESS',
    ]);
    const policy = new Late();
    expect(await failTwice([createShim(() => policy)], policy, pollsBetween)).toEqual(bare);
  },
);
