/**
 * Random programs of WAIT, ENABLE and managed queue pairs. Times do not change where they stop: the target of a request is
 * fixed when it is posted, and programs poll only when no events are left. So a device that executes WAIT and every
 * emulation must have the same trace.
 */
import fc from 'fast-check';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, modify, SIGNALED } from '../sim/helpers.ts';
import { highNumbers } from './high-numbers.ts';

const DEPTH = 12;

export type WaitOp =
  | { op: 'write'; bytes: number; signaled: boolean; bad: boolean }
  /** `cq`: that of queue pair 0, 1 ...; -1: a CQ that only WAITs use. */
  | { op: 'wait'; cq: number; count: number; signaled: boolean }
  | { op: 'enable'; qp: number; count: number; signaled: boolean };

export type WaitStep =
  | { do: 'post'; qp: number; ops: WaitOp[] }
  | { do: 'settle' }
  | { do: 'error'; qp: number }
  | { do: 'reset'; qp: number }
  | { do: 'destroy'; qp: number }
  | { do: 'destroyCq' };

export interface WaitProgram {
  managed: boolean[];
  steps: WaitStep[];
}

const signaled = fc.boolean();

export const waitProgram: fc.Arbitrary<WaitProgram> = fc
  .array(fc.boolean(), { minLength: 2, maxLength: 4 })
  .chain((managed) => {
    const qp = fc.nat({ max: managed.length - 1 });
    const bytes = fc.constantFrom(0, 8, 600, 3000);
    const bad = fc.nat({ max: 25 }).map((n) => n === 0);
    const count = fc.nat({ max: 3 });
    const op: fc.Arbitrary<WaitOp> = fc.oneof(
      { weight: 5, arbitrary: fc.record({ op: fc.constant('write' as const), bytes, signaled, bad }) },
      {
        weight: 3,
        arbitrary: fc.record({
          op: fc.constant('wait' as const),
          cq: fc.integer({ min: -1, max: managed.length - 1 }),
          count,
          signaled,
        }),
      },
      { weight: 3, arbitrary: fc.record({ op: fc.constant('enable' as const), qp, count, signaled }) },
    );
    const ops = fc.array(op, { minLength: 1, maxLength: 6 });
    const step: fc.Arbitrary<WaitStep> = fc.oneof(
      { weight: 12, arbitrary: fc.record({ do: fc.constant('post' as const), qp, ops }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('error' as const), qp }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const), qp }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('destroy' as const), qp }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('destroyCq' as const) }) },
    );
    return fc.record({
      managed: fc.constant(managed),
      steps: fc.array(step, { minLength: 1, maxLength: 14 }),
    });
  });

interface World {
  fabric: ReturnType<typeof createFabric>;
  ends: End[];
  peers: End[];
  gone: boolean[];
  extraCq: number;
  nextId: number;
  trace: string[];
}

function build(program: WaitProgram, wait: boolean, chain: Interceptor[], first: number): World {
  const fabric = createFabric({ autoAdvance: false, wait });
  const all = first === 0 ? chain : highNumbers(fabric, first, chain);
  const wrapped = { ...fabric, provider: compose(fabric.provider, all) };
  const cap = { maxSendWr: DEPTH };
  const ends = program.managed.map((managed) => makeEnd(wrapped, 0, { cap, managed }));
  const peers = ends.map(() => makeEnd(wrapped, 1));
  ends.forEach((end, i) => {
    connect(end, peers[i]);
  });
  const extraCq = ends[0].v.createCq(ends[0].context, 4, 0).handle;
  const w = { fabric, ends, peers, gone: ends.map(() => false), extraCq, nextId: 1, trace: [] };
  // Exact from the first WAIT on: earlier unsignaled requests are not known to have ended.
  for (const end of ends) end.send.write(0, SIGNALED, 0, 0, 0, 0, 0).wait(0, 0, end.sendCq, 1);
  ends.forEach((_, i) => {
    flushPost(w, i);
  });
  return w;
}

function flushPost(w: World, qp: number): void {
  const { v, qp: handle, send } = w.ends[qp];
  const n = v.postSend(handle, send.ring, 0, send.length);
  w.trace.push(`post ${qp}: ${n}/${send.length} ${n < send.length ? `${send.errno} ${send.reason}` : ''}`);
  send.clear();
}

function post(w: World, qp: number, ops: WaitOp[]): void {
  if (w.gone[qp]) return;
  const { send, mr } = w.ends[qp];
  const remote = w.peers[qp].mr;
  for (const o of ops) {
    const id = w.nextId++;
    const flags = o.signaled ? SIGNALED : 0;
    if (o.op === 'write') {
      const rkey = o.bad && o.bytes > 0 ? 0xdead : remote.rkey;
      send.write(id, flags, mr.addr, o.bytes, mr.lkey, remote.addr, rkey);
    } else if (o.op === 'wait') {
      send.wait(id, flags, o.cq < 0 ? w.extraCq : w.ends[o.cq].sendCq, o.count, o.count === 0 ? 2 : 1);
    } else {
      send.enable(id, flags, w.ends[o.qp].qp, o.count);
    }
  }
  flushPost(w, qp);
}

async function settle(w: World): Promise<void> {
  for (let idle = 0; idle < 3; idle++) {
    await w.fabric.run();
    for (const [i, { v, sendCq, wc }] of w.ends.entries()) {
      const n = v.pollCq(sendCq, wc.ring, 0, wc.capacity);
      for (let k = 0; k < n; k++) {
        const opcode = wc.status(k) === 0 ? V.wcOpcodeName(wc.opcode(k)) : '';
        w.trace.push(`${i}: ${wc.wrId(k)} ${V.wcStatusName(wc.status(k))} ${opcode}`);
      }
      if (n > 0) idle = 0;
    }
  }
  // Nothing orders different queue pairs.
  const from = w.trace.lastIndexOf('settled') + 1;
  const recent = w.trace.splice(from);
  const of = (prefix: string) => recent.filter((line) => line.startsWith(prefix));
  w.trace.push(...of('post'), ...w.ends.flatMap((_, i) => of(`${i}: `)), 'settled');
}

async function play(w: World, step: WaitStep): Promise<void> {
  if (step.do === 'post') {
    post(w, step.qp, step.ops);
    return;
  }
  await settle(w);
  if (step.do === 'destroyCq') {
    if (w.extraCq !== 0) w.ends[0].v.destroyCq(w.extraCq);
    w.extraCq = 0;
  }
  if (step.do === 'settle' || step.do === 'destroyCq' || w.gone[step.qp]) return;
  const end = w.ends[step.qp];
  if (step.do === 'error') modify(end, { qpState: V.IBV_QPS_ERR });
  if (step.do === 'destroy') {
    end.v.destroyQp(end.qp);
    w.gone[step.qp] = true;
  }
  if (step.do === 'reset') {
    for (const one of [end, w.peers[step.qp]]) modify(one, { qpState: V.IBV_QPS_RESET });
    connect(end, w.peers[step.qp]);
  }
}

/** What the application saw: how much of each post was taken, and what had completed at each stop, in order. */
export async function runWaits(
  program: WaitProgram,
  wait: boolean,
  chain: Interceptor[],
  first = 0,
): Promise<string[]> {
  const w = build(program, wait, chain, first);
  for (const step of program.steps) await play(w, step);
  await settle(w);
  for (const [i, end] of w.ends.entries()) if (!w.gone[i]) modify(end, { qpState: V.IBV_QPS_ERR });
  await settle(w);
  for (const [i, end] of w.ends.entries()) if (!w.gone[i]) end.v.destroyQp(end.qp);
  for (const peer of w.peers) peer.v.destroyQp(peer.qp);
  return [...w.trace, ...w.fabric.brokenInvariants()];
}
