// The interceptor `check` on simulated devices: it reports each mistake, and nothing in a correct program.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { CHECKS, type CheckCode, check, createInterceptor } from '../../src/interceptors/index.ts';
import { Context } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { chains } from '../conformance/chains.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true };
const CAP = { maxSendWr: 8, maxRecvWr: 8, maxInlineData: 16 };

/** Two ends on one checked provider, each with a queue pair that is not connected yet. */
function world(around: (checking: Interceptor) => Interceptor[] = (checking) => [checking], wait = true) {
  const reported: string[] = [];
  const checking = check({ severity: 'hint' }, ({ message }) => reported.push(message));
  const provider = compose(createFabric({ hosts: 2, wait }).provider, around(checking));
  const ends = ['sim0', 'sim1'].map((name) => {
    const context = new Context(provider, name);
    open.push(context);
    const pd = context.allocPd();
    const cq = context.createCq({ cqe: 64 });
    return {
      context,
      pd,
      cq,
      mr: pd.allocate(4096, { access: ALL }),
      qp: pd.createQp({ sendCq: cq, cap: CAP }),
    };
  });
  const [a, b] = ends;
  const found = () => checking.findings.map(({ code }) => code);
  const join = () => {
    a.qp.connectTo(b.qp.endpoint());
    b.qp.connectTo(a.qp.endpoint());
  };
  const remote = () => ({ addr: b.mr.addr, rkey: b.mr.rkey });
  const sges = (length = 8) => [{ mr: a.mr, length }];
  return { provider, a, b, findings: checking.findings, found, reported, join, remote, sges };
}

type World = ReturnType<typeof world>;

/** Makes a mistake and ignores the outcome. */
async function wrong(action: () => unknown): Promise<void> {
  try {
    await action();
  } catch {
    // The verb's own tests cover the error.
  }
}

const MISTAKES: Record<CheckCode, (w: World) => unknown> = {
  ISO_CHECK_QP_STATE: ({ a, sges, remote }) =>
    wrong(() => a.qp.post({ opcode: 'RDMA_WRITE', sgList: sges(), remote: remote() })),
  ISO_CHECK_TRANSITION: ({ a }) => wrong(() => a.qp.modify({ qpState: V.IBV_QPS_RTS, sqPsn: 1 })),
  ISO_CHECK_LKEY: ({ a, join, remote }) => {
    join();
    const elsewhere = a.context.allocPd().allocate(64);
    const sgList = [{ mr: elsewhere, length: 8 }];
    return wrong(() => a.qp.execute({ opcode: 'RDMA_WRITE', sgList, remote: remote() }));
  },
  ISO_CHECK_RANGE: ({ a, join, b }) => {
    join();
    const batch = a.context.sendBatch({ capacity: 1 });
    batch.write(1, V.IBV_SEND_SIGNALED, a.mr.addr + 4090, 100, a.mr.lkey, b.mr.addr, b.mr.rkey);
    return wrong(() => a.qp.postSend(batch));
  },
  ISO_CHECK_ACCESS: ({ a, join, remote }) => {
    join();
    const sgList = [{ mr: a.pd.allocate(64, { access: { localWrite: false } }), length: 8 }];
    return wrong(() => a.qp.execute({ opcode: 'RDMA_READ', sgList, remote: remote() }));
  },
  ISO_CHECK_REQUEST: ({ a, join, b }) => {
    join();
    const batch = a.context.sendBatch({ capacity: 1 });
    batch.fetchAdd(1, V.IBV_SEND_SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr + 3, b.mr.rkey, 1n);
    return wrong(() => a.qp.postSend(batch));
  },
  ISO_CHECK_INLINE: ({ a, join }) => {
    join();
    const batch = a.context.sendBatch({ capacity: 1, inlineBytes: 2048 });
    batch.inline(1, V.IBV_WR_SEND, V.IBV_SEND_SIGNALED, new Uint8Array(2000));
    return wrong(() => a.qp.postSend(batch));
  },
  ISO_CHECK_SRQ: ({ a }) => {
    const qp = a.pd.createQp({ sendCq: a.cq, srq: a.pd.createSrq() });
    qp.toInit();
    const batch = a.context.recvBatch({ capacity: 1 }).recv(1, a.mr.addr, 8, a.mr.lkey);
    return wrong(() => a.context.provider.postRecv(qp.handle, batch.ring, 0, 1));
  },
  ISO_CHECK_RD_ATOMIC: ({ a, b, sges, remote }) => {
    a.qp.connectTo(b.qp.endpoint(), { maxRdAtomic: 0 });
    b.qp.connectTo(a.qp.endpoint());
    return wrong(() => a.qp.post({ opcode: 'RDMA_READ', sgList: sges(), remote: remote() }));
  },
  ISO_CHECK_MEMORY_BUSY: ({ a, join }) => {
    join();
    const mr = a.pd.allocate(64);
    a.qp.receive({ sgList: [{ mr, length: 8 }] });
    mr.close();
  },
  ISO_CHECK_AH_BUSY: ({ a, b }) => {
    const qp = a.pd.createQp({ sendCq: a.cq, type: 'UD' });
    qp.start({ qkey: 1 });
    const ah = a.pd.createAhTo(b.qp.endpoint());
    qp.post({ opcode: 'SEND', sgList: [{ mr: a.mr, length: 8 }], to: { ah, qpNum: 1 } });
    ah.close();
  },
  ISO_CHECK_NEVER_SIGNALED: ({ a, join, sges, remote }) => {
    join();
    const request = {
      opcode: 'RDMA_WRITE',
      sgList: sges(),
      remote: remote(),
      flags: { signaled: false },
    } as const;
    return wrong(() => {
      for (;;) a.qp.post(request);
    });
  },
  ISO_CHECK_CLOSED: ({ a, provider }) => {
    const wc = a.context.wcBatch({ capacity: 1 });
    const cq = provider.createCq(a.context.handle, 4, 0).handle;
    provider.destroyCq(cq);
    return wrong(() => provider.pollCq(cq, wc.ring, 0, 1));
  },
  ISO_CHECK_DESTROY_ORDER: ({ a, provider }) => wrong(() => provider.deallocPd(a.pd.handle)),
  ISO_CHECK_CQ_SIZE: ({ a }) => {
    const cq = a.context.createCq({ cqe: 2 });
    const qp = a.pd.createQp({ sendCq: cq, cap: CAP });
    qp.toInit();
    for (let i = 0; i < cq.cqe + 1; i++) qp.receive({ wrId: i, sgList: [{ mr: a.mr, length: 8 }] });
  },
  ISO_CHECK_RECV_MISSING: ({ a, b, sges }) => {
    a.qp.connectTo(b.qp.endpoint(), { rnrRetry: 1 });
    b.qp.connectTo(a.qp.endpoint());
    return wrong(() => a.qp.execute({ opcode: 'SEND', sgList: sges() }));
  },
  ISO_CHECK_RECV_TOO_SMALL: async ({ a, b, join, sges }) => {
    join();
    b.qp.receive({ sgList: [{ mr: b.mr, length: 4 }] });
    await wrong(() => a.qp.execute({ opcode: 'SEND', sgList: sges(100) }));
    await b.cq.next();
  },
  ISO_CHECK_REMOTE_ACCESS: ({ a, join, sges, remote }) => {
    join();
    const bad = { ...remote(), rkey: remote().rkey ^ 1 };
    return wrong(() => a.qp.execute({ opcode: 'RDMA_READ', sgList: sges(), remote: bad }));
  },
  ISO_CHECK_QP_BUSY: ({ a, join }) => {
    join();
    a.qp.receive({ sgList: [{ mr: a.mr, length: 8 }] });
    a.qp.close();
  },
  ISO_CHECK_WR_ID: ({ a, join }) => {
    join();
    for (let i = 0; i < 2; i++) a.qp.receive({ wrId: 5, sgList: [{ mr: a.mr, length: 8 }] });
  },
};

describe('check reports', () => {
  test.each(Object.keys(CHECKS) as CheckCode[])('%s', async (code) => {
    const w = world();
    await MISTAKES[code](w);
    expect(w.found()).toContain(code);
    // A mistake may have follow-up findings, but no other error.
    const errors = w.found().filter((one) => CHECKS[one][0] === 'error' && one !== code);
    expect(errors).toEqual([]);
    expect(w.reported.find((message) => message.includes(CHECKS[code][1]))).toBeDefined();
  });
});

/** A correct program: all opcodes, with unsignaled requests between, and receives. */
async function correct({ a, b, join, remote, sges }: World) {
  join();
  const big = [{ mr: a.mr, length: 4096 }];
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 4; i++) b.qp.receive({ wrId: i, sgList: [{ mr: b.mr, offset: 64 * i, length: 64 }] });
    for (const imm of [undefined, 7]) {
      const opcode = imm === undefined ? 'SEND' : 'SEND_WITH_IMM';
      a.qp.post({ opcode, wrId: 1, sgList: sges(64), imm, flags: { signaled: false } });
      a.qp.post({ opcode: 'RDMA_WRITE', wrId: 2, sgList: big, remote: remote(), flags: { signaled: false } });
      await a.qp.execute({ opcode: 'RDMA_READ', sgList: big, remote: remote() });
      await a.qp.execute({ opcode: 'ATOMIC_FETCH_AND_ADD', sgList: sges(), remote: remote(), add: 1n });
      await a.qp.execute({ opcode, sgList: sges(64), imm });
    }
    for (const { status } of await b.cq.drain(4)) expect(status).toBe(0);
  }
  await a.qp.drain();
  await b.qp.drain();
  for (const { qp, mr, cq, pd, context } of [a, b]) {
    for (const one of [qp, mr, cq, pd, context]) one.close();
  }
}

test('check reports nothing in a correct program', async () => {
  const w = world();
  await correct(w);
  expect(w.reported).toEqual([]);
});

describe('inside a policy, check reports only hints', () => {
  test.each(Object.entries(chains))('%s', async (_name, { chain, wait }) => {
    const w = world((checking) => [...chain(), checking], wait);
    await correct(w);
    // Policies do these on purpose: internal requests share a wr_id, and internal queue pairs close while busy.
    expect(w.findings.filter(({ severity }) => severity !== 'hint')).toEqual([]);
  });
});

test('check reports a mistake once per object, and none below the severity', async () => {
  const reported: string[] = [];
  const checking = check({}, ({ code, verb, severity }) => reported.push(`${severity} ${code} in ${verb}`));
  const checked = compose(createFabric({ hosts: 1 }).provider, [checking]);
  const context = new Context(checked, 'sim0');
  open.push(context);
  const pd = context.allocPd();
  const mr = pd.allocate(64);
  const qp = pd.createQp({ sendCq: context.createCq() });
  qp.toInit();
  for (let i = 0; i < 3; i++) {
    qp.receive({ wrId: 1, sgList: [{ mr, length: 8 }] });
    await wrong(() => checked.deallocPd(pd.handle));
  }
  expect(reported).toEqual(['error ISO_CHECK_DESTROY_ORDER in deallocPd']);
  expect(createInterceptor('check', { severity: 'error' }).name).toBe('check');
  expect(() => createInterceptor('check', { severity: 'loud' })).toThrow(/check\.severity/);
});

test('docs/interceptors.md lists every code', () => {
  const page = readFileSync(new URL('../../docs/interceptors.md', import.meta.url), 'utf8');
  const listed = [...page.matchAll(/^\| `(ISO_CHECK_\w+)` \| (\w+) \|/gm)].map(([, code, severity]) => [
    code,
    severity,
  ]);
  expect(listed).toEqual(Object.entries(CHECKS).map(([code, [severity]]) => [code, severity]));
});
