/**
 * Every event and action of a policy, on simulated devices, with small policies that each use a few.
 * Longer than 500 lines: the policies share one world and its helpers.
 */
import { afterEach, expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import type { CoordinatorPort } from '../../src/shim/coordinator-port.ts';
import { shimCounters } from '../../src/shim/counters.ts';
import {
  type Actions,
  type ContextView,
  NO_TOKEN,
  type Policy,
  type QpChange,
  type QpView,
} from '../../src/shim/policy.ts';
import type { ResourceRequest, Resources, ResourceView } from '../../src/shim/resources.ts';
import { createShim, type ShimOptions } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, type EndOptions, makeEnd, modify, post, take } from '../sim/helpers.ts';
import { connectPeers } from './peer-rig.ts';

/** Forwards everything; the policies of the tests override what they need. */
class Base implements Policy {
  readonly name: string = 'test';
  readonly needs: Policy['needs'] = { wait: 'none' };
  readonly slots: number = 16;
  onload(_qp: QpView, _words: Uint32Array, _start: number, count: number, _out?: Actions): number {
    return count;
  }
  feed(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }
}

const request = (fields: Partial<ResourceRequest>): ResourceRequest => ({
  opcode: V.IBV_WR_RDMA_WRITE,
  signaled: false,
  offsetBytes: 0,
  bytes: 0,
  remoteOffsetBytes: 0,
  target: 0,
  count: 0,
  token: NO_TOKEN,
  ...fields,
});

interface World {
  fabric: Fabric;
  v: V.Provider;
  a: End;
  b: End;
}

const worlds: World[] = [];

function world(policy: Policy | Interceptor, a: EndOptions = {}, options: ShimOptions = {}): World {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  const interceptor = 'wrap' in policy ? policy : createShim(() => policy, options);
  const v = compose(fabric.provider, [interceptor]);
  const shimmed = { ...fabric, provider: v };
  const made = {
    fabric,
    v,
    a: makeEnd(shimmed, 0, { bytes: 1 << 18, ...a }),
    b: makeEnd(shimmed, 1, { bytes: 1 << 18 }),
  };
  for (let i = 0; i < made.a.bytes.length; i++) made.a.bytes[i] = (i * 31 + (i >> 8)) & 255;
  connectPeers(made.a, made.b);
  worlds.push(made);
  return made;
}

function closeEnd({ v, o, ...end }: End): void {
  v.destroyQp(end.qp);
  v.destroyCq(end.sendCq);
  v.destroyCq(end.recvCq);
  if (o.event === true) v.destroyCompChannel(end.channel);
  v.deregMr(end.mr.handle);
  v.deallocPd(end.pd);
  v.closeDevice(end.context);
}

afterEach(() => {
  for (const { fabric, a, b } of worlds.splice(0)) {
    fabric.simulation.run();
    expect(fabric.brokenInvariants()).toEqual([]);
    closeEnd(a);
    closeEnd(b);
    expect(fabric.tenants()).toEqual([]);
    expect(fabric.simulation.world.qps.filter((qp) => qp !== undefined)).toEqual([]);
    expect(fabric.simulation.world.cqs.filter((cq) => cq !== undefined)).toEqual([]);
  }
});

function write(w: World, wrId: number, bytes: number, flags = V.IBV_SEND_SIGNALED, at = 0): void {
  const { a, b } = w;
  a.send.write(wrId, flags, a.mr.addr + at, bytes, a.mr.lkey, b.mr.addr + at, b.mr.rkey);
}

/** Runs until no events are left; returns what the application polled, as `wr_id status`. */
async function settle(w: World): Promise<string[]> {
  const seen: string[] = [];
  for (let quiet = 0; quiet < 2; ) {
    await w.fabric.run();
    const wcs = take(w.a);
    seen.push(...wcs.map(({ wrId, status }) => `${wrId} ${status}`));
    quiet = wcs.length === 0 ? quiet + 1 : 0;
  }
  return seen;
}

test.each(['all', 'held'] as const)('onCompleted reports queue pairs with completionsOf %s', async (of) => {
  const log: string[] = [];
  class Listener extends Base {
    readonly completionsOf = of;
    isHolding = false;
    watches = false;
    override onload(qp: QpView, _words: Uint32Array, _start: number, count: number, out?: Actions): number {
      out?.watchCompletions(qp, this.watches);
      return this.isHolding ? 0 : count;
    }
    onCompleted({ context }: QpView, count: number): void {
      log.push(`${context.device} ${count}`);
    }
  }
  const policy = new Listener();
  const w = world(policy);
  const send = async (ids: readonly number[]) => {
    for (const id of ids) write(w, id, 64);
    post(w.a);
    expect(await settle(w)).toEqual(ids.map((id) => `${id} SUCCESS`));
    return log.splice(0);
  };
  expect(await send([0, 1])).toEqual(of === 'all' ? ['sim0 2'] : []);
  policy.watches = true;
  expect(await send([6])).toEqual(['sim0 1']);
  policy.watches = false;
  expect(await send([7])).toEqual(of === 'all' ? ['sim0 1'] : []);
  policy.isHolding = true;
  expect(await send([2, 3, 4])).toEqual(['sim0 3']);
  policy.isHolding = false;
  expect(await send([5])).toEqual(['sim0 1']);
});

test('passPlain lets so many requests of one opcode pass without onload', async () => {
  const posts: number[] = [];
  class Passing extends Base {
    override onload(qp: QpView, _words: Uint32Array, _start: number, count: number, out?: Actions): number {
      posts.push(count);
      out?.passPlain(qp, 128, 3, V.IBV_WR_RDMA_WRITE);
      return count;
    }
  }
  const w = world(new Passing());
  const asks = async (...lengths: number[]) => {
    posts.length = 0;
    for (const bytes of lengths) write(w, 0, bytes);
    post(w.a);
    expect(await settle(w)).toHaveLength(lengths.length);
    return posts.length > 0;
  };
  expect(await asks(64)).toBe(true);
  expect(await asks(64, 100)).toBe(false);
  expect(await asks(0)).toBe(false);
  expect(await asks(64), 'the fourth').toBe(true);
  expect(await asks(64, 64, 64, 64), 'four in one post').toBe(true);
  expect(await asks(127)).toBe(false);
  expect(await asks(128), 'a long one').toBe(true);
  w.a.send.read(0, V.IBV_SEND_SIGNALED, w.a.mr.addr, 64, w.a.mr.lkey, w.b.mr.addr, w.b.mr.rkey);
  post(w.a);
  expect(await settle(w)).toHaveLength(1);
  expect(posts, 'a READ').toHaveLength(2);
  expect(shimCounters(w.v)).toMatchObject({ seen: 12, held: 0 });
});

test('onQp reports changes of queue pairs, and onCompleted the completions of one poll', async () => {
  const log: string[] = [];
  class Listener extends Base {
    onQp(qp: QpView, change: QpChange): void {
      log.push(`${qp.context.device} ${change} ${V.stateName(qp.state)}${qp.broken ? ' broken' : ''}`);
    }
    onCompleted(qp: QpView, count: number, out: Actions): void {
      log.push(`${qp.context.device} ${count} of ${out.outstanding(qp)}`);
    }
  }
  const w = world(new Listener());
  for (let i = 0; i < 4; i++) write(w, i, 64);
  post(w.a);
  expect(await settle(w)).toHaveLength(4);
  w.a.send.write(9, V.IBV_SEND_SIGNALED, w.a.mr.addr, 64, w.a.mr.lkey, w.b.mr.addr, 0xdead);
  post(w.a);
  expect(await settle(w)).toEqual(['9 REM_ACCESS_ERR']);
  w.v.modifyQp(w.a.qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
  expect(log.filter((line) => line.startsWith('sim0'))).toEqual([
    'sim0 created RESET',
    'sim0 state INIT',
    'sim0 state RTR',
    'sim0 state RTS',
    'sim0 4 of 0',
    'sim0 1 of 0',
    'sim0 state RTS broken',
    'sim0 state RESET',
  ]);
  w.v.destroyQp(w.b.qp);
  expect(log.at(-1)).toBe('sim1 destroyed RTS');
  w.b.qp = w.v.createQp(w.b.pd, {
    qpType: V.IBV_QPT_RC,
    sendCq: w.b.sendCq,
    recvCq: w.b.recvCq,
    cap: { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 },
    sqSigAll: false,
  }).handle;
});

/** Issues one held request every microsecond. */
class Clocked extends Base {
  readonly fired: number[] = [];
  readonly qps: QpView[] = [];
  readonly periodic: boolean;
  constructor(periodic = false) {
    super();
    this.periodic = periodic;
  }
  setup(resources: Resources, out: Actions): void {
    const { context } = resources;
    if (this.periodic) out.timer(context, out.nowNs(context) + 1000, 1000);
  }
  override onload(): number {
    return 0;
  }
  onQp(qp: QpView): void {
    this.qps[qp.index] = qp;
  }
  override feed(qp: QpView, out: Actions): void {
    if (out.inflight(qp) === 0) out.timer(qp.context, out.nowNs(qp.context) + 1000, qp.index);
  }
  onTimer(token: number, out: Actions): void {
    const qp = this.qps[token] ?? this.qps.find((one) => one?.context.device === 'sim0');
    if (qp === undefined) return;
    const nowNs = out.nowNs(qp.context);
    this.fired.push(nowNs);
    if (token === 1000) out.timer(qp.context, nowNs + 1000, token);
    else if (out.backlog(qp) > 0) out.pass(qp);
  }
}

test('a timer releases held requests, and a run waits for it', async () => {
  const policy = new Clocked();
  const w = world(policy);
  const startNs = w.fabric.nowNs;
  for (let i = 0; i < 3; i++) write(w, i, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['0 SUCCESS', '1 SUCCESS', '2 SUCCESS']);
  expect(policy.fired[0]).toBe(startNs + 1000);
  expect(policy.fired).toHaveLength(3);
});

test('a timer that is set repeatedly lets a run end, and fires while other timers run', async () => {
  const policy = new Clocked(true);
  const w = world(policy);
  write(w, 1, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['1 SUCCESS']);
  const before = policy.fired.length;
  const { nowNs } = w.fabric;
  await w.fabric.run();
  expect(w.fabric.nowNs).toBe(nowNs);
  expect(policy.fired).toHaveLength(before);
  await w.fabric.advance(10_000);
  expect(policy.fired.length - before).toBeGreaterThanOrEqual(9);
});

test('timers fire in a program that polls without awaiting anything', () => {
  const w = world(new Clocked());
  write(w, 1, 64);
  post(w.a);
  let polled = 0;
  for (let i = 0; i < 2000 && polled === 0; i++) polled += w.v.pollCq(w.a.sendCq, w.a.wc.ring, 0, 4);
  expect(polled).toBe(1);
});

test('a timer token has one time: setting it again moves the timer, Infinity removes it', async () => {
  const fired: string[] = [];
  class Alarms extends Base {
    setup({ context }: Resources, out: Actions): void {
      if (context.device !== 'sim0') return;
      const nowNs = out.nowNs(context);
      out.timer(context, nowNs + 3000, 1);
      out.timer(context, nowNs + 2000, 2);
      out.timer(context, nowNs + 1000, 3);
      out.timer(context, nowNs + 4000, 3);
      out.timer(context, Number.POSITIVE_INFINITY, 2);
      expect(() => out.timer(context, Number.NaN, 4)).toThrow(V.InvalidArgumentError);
    }
    onTimer(token: number): void {
      fired.push(`${token}`);
    }
  }
  const w = world(new Alarms());
  await w.fabric.advance(2500);
  expect(fired).toEqual([]);
  await w.fabric.advance(2500);
  expect(fired).toEqual(['1', '3']);
});

/** PeRF's PAUSE and RESUME: a WAIT stops a queue pair until an ENABLE lets a managed loopback complete one. */
class Pausing extends Base {
  override readonly needs = { wait: 'required' } as const;
  readonly told: string[] = [];
  private pcq: ResourceView | null = null;
  private ordinary: ResourceView | null = null;
  private paused = false;
  setup(resources: Resources, out: Actions): void {
    if (resources.context.device !== 'sim0') return;
    this.pcq = resources.loopback({ depth: 8, managed: true });
    this.ordinary = resources.loopback({ depth: 8 });
    for (let i = 0; i < 8; i++)
      expect(out.post(this.pcq, request({ signaled: true, token: 100 + i }))).toBe(true);
    expect(out.post(this.pcq, request({ signaled: true }))).toBe(false);
  }
  override onload(): number {
    return 0;
  }
  override feed(qp: QpView, out: Actions): void {
    if (this.pcq === null || this.ordinary === null) return;
    if (!this.paused) {
      this.paused = true;
      out.waitFor(qp, this.pcq.cq, 1, 7);
      out.timer(qp.context, out.nowNs(qp.context) + 50_000, 0);
    }
    super.feed(qp, out);
  }
  onTimer(_token: number, out: Actions): void {
    const enable = { opcode: V.ISO_WR_ENABLE, target: this.pcq!.qp, count: 1, token: 9 };
    out.post(this.ordinary!, request(enable));
  }
  onInternal(token: number, status: number): void {
    this.told.push(`${token} ${V.wcStatusName(status)}`);
  }
}

test('a WAIT on a resource pauses a queue pair, an ENABLE resumes it, and both are reported', async () => {
  const policy = new Pausing();
  const w = world(policy);
  write(w, 1, 64);
  write(w, 2, 64);
  post(w.a);
  await w.fabric.advance(40_000);
  expect(take(w.a)).toEqual([]);
  expect(await settle(w)).toEqual(['1 SUCCESS', '2 SUCCESS']);
  expect(w.fabric.nowNs).toBeGreaterThan(50_000);
  expect(policy.told.sort()).toEqual(['100 SUCCESS', '7 SUCCESS', '9 SUCCESS']);
  expect(shimCounters(w.v)).toMatchObject({ seen: 2, internal: { waits: 1, posts: 9 } });
});

test('when a paused queue pair goes to ERR, the WAIT is reported as flushed, and each request once', async () => {
  const policy = new Pausing();
  const w = world(policy);
  write(w, 1, 64);
  post(w.a);
  await w.fabric.advance(1000);
  w.v.modifyQp(w.a.qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
  expect(await settle(w)).toEqual(['1 WR_FLUSH_ERR']);
  expect(policy.told).toContain('7 WR_FLUSH_ERR');
});

test('a queue pair enables another with an ENABLE behind its own requests', async () => {
  class Relay extends Base {
    override readonly needs = { wait: 'required' } as const;
    private pcq: ResourceView | null = null;
    readonly told: number[] = [];
    setup(resources: Resources, out: Actions): void {
      if (resources.context.device !== 'sim0') return;
      this.pcq = resources.loopback({ depth: 2, managed: true });
      out.post(this.pcq, request({ token: 5 }));
    }
    override onload(): number {
      return 0;
    }
    override feed(qp: QpView, out: Actions): void {
      super.feed(qp, out);
      if (this.told.length === 0) out.enable(qp, this.pcq!.qp, 1, 6);
    }
    onInternal(token: number): void {
      this.told.push(token);
    }
  }
  const policy = new Relay();
  const w = world(policy);
  write(w, 1, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['1 SUCCESS']);
  await w.fabric.run();
  expect(policy.told.sort()).toEqual([5, 6]);
  expect(shimCounters(w.v).internal.enables).toBe(1);
});

/** Ends every READ itself, with success or with an error. */
class Delivering extends Base {
  readonly status: number;
  readonly answers: boolean[] = [];
  constructor(status: number) {
    super();
    this.status = status;
  }
  override onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    for (let i = 0; i < count; i++)
      if ((words[V.slotAt(start + i) + V.WR_OP] & 0xff) === V.IBV_WR_RDMA_READ) return i;
    return qp.broken ? 0 : count;
  }
  override feed(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) {
      if (out.nextOpcode(qp) !== V.IBV_WR_RDMA_READ) out.pass(qp);
      else {
        this.answers.push(out.deliver(qp, this.status, 4096));
        if (this.answers.at(-1) === false) return;
      }
    }
  }
}

function read(w: World, wrId: number, flags = V.IBV_SEND_SIGNALED): void {
  const { a, b } = w;
  a.send.read(wrId, flags, a.mr.addr, 4096, a.mr.lkey, b.mr.addr, b.mr.rkey);
}

test('deliver makes a completion in order, with the request’s opcode and length', async () => {
  const policy = new Delivering(V.IBV_WC_SUCCESS);
  const w = world(policy);
  write(w, 1, 64);
  read(w, 2);
  read(w, 3, 0);
  write(w, 4, 64);
  post(w.a);
  await w.fabric.run();
  const wcs = take(w.a);
  await w.fabric.run();
  wcs.push(...take(w.a));
  expect(wcs.map(({ wrId, opcode, byteLen }) => [wrId, opcode, byteLen])).toEqual([
    [1, 'RDMA_WRITE', 64],
    [2, 'RDMA_READ', 4096],
    [4, 'RDMA_WRITE', 64],
  ]);
  // The READ did not complete while the earlier WRITE was in flight. The second READ has no completion.
  expect(policy.answers[0]).toBe(false);
  expect(policy.answers.slice(-2)).toEqual([true, true]);
});

test('deliver with an error fails the request, and flushes later ones', async () => {
  const w = world(new Delivering(V.IBV_WC_REM_ACCESS_ERR));
  write(w, 1, 64);
  read(w, 2, 0);
  write(w, 3, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['1 SUCCESS', '2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR']);
  expect(w.v.queryQp(w.a.qp).attr.qpState).toBe(V.IBV_QPS_ERR);
});

test('refuse fails with IBV_WC_GENERAL_ERR, even if no earlier request would report', async () => {
  class Refusing extends Delivering {
    override feed(qp: QpView, out: Actions): void {
      if (out.nextOpcode(qp) === V.IBV_WR_RDMA_READ) out.refuse(qp);
      else super.feed(qp, out);
    }
  }
  const w = world(new Refusing(0));
  write(w, 1, 64, 0);
  post(w.a);
  await w.fabric.run();
  read(w, 2);
  post(w.a);
  expect(await settle(w)).toEqual(['2 GENERAL_ERR']);
});

test('admit refuses the rest of a batch with ENOMEM and REASON_LIMIT; admitQp makes createQp throw NoResourcesError', async () => {
  class Limiting extends Base {
    admit(qp: QpView, _words: Uint32Array, _start: number, count: number, out: Actions): number {
      return Math.min(count, 5 - out.outstanding(qp));
    }
    private made = 0;
    admitQp(_context: ContextView, type: number): boolean {
      return type !== V.IBV_QPT_RC || this.made++ < 2;
    }
  }
  const w = world(new Limiting());
  for (let i = 0; i < 8; i++) write(w, i, 64);
  expect(w.v.postSend(w.a.qp, w.a.send.ring, 0, 8)).toBe(5);
  expect([w.a.send.errno, w.a.send.reason]).toEqual([V.ENOMEM, V.REASON_LIMIT]);
  w.a.send.clear();
  expect(await settle(w)).toHaveLength(5);
  const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const attr = { sendCq: w.a.sendCq, recvCq: w.a.recvCq, cap, sqSigAll: false };
  expect(() => w.v.createQp(w.a.pd, { ...attr, qpType: V.IBV_QPT_RC })).toThrow(V.NoResourcesError);
  w.v.destroyQp(w.v.createQp(w.a.pd, { ...attr, qpType: V.IBV_QPT_UD }).handle);
});

/** A coordinator that knows its contexts, and announces at each report how many requests all may have in flight. */
class TinyCoordinator implements CoordinatorPort {
  allowed = 0;
  readonly reports: number[] = [];
  readonly listeners = new Map<ContextView, () => void>();
  report(context: ContextView, held: number): void {
    this.reports.push(held);
    this.allowed = held;
    this.listeners.get(context)?.();
  }
  subscribe(context: ContextView, listener: () => void): () => void {
    this.listeners.set(context, listener);
    return () => this.listeners.delete(context);
  }
}

test('changed grants are announced after the event in which the coordinator announced them', async () => {
  const log: string[] = [];
  class Governed extends Base {
    override readonly needs = { wait: 'none', coordinator: true } as const;
    private allowed = 0;
    private held: QpView | null = null;
    override onload(): number {
      return 0;
    }
    override feed(qp: QpView, out: Actions): void {
      this.held = qp;
      if (this.allowed > 0) super.feed(qp, out);
      else coordinator.report(qp.context, out.backlog(qp));
      log.push(`fed, ${this.allowed} allowed`);
    }
    onGrants(_context: ContextView, out: Actions): void {
      log.push(`granted ${coordinator.allowed}`);
      this.allowed = coordinator.allowed;
      super.feed(this.held!, out);
    }
  }
  const coordinator = new TinyCoordinator();
  expect(() => world(createShim(() => new Governed()))).toThrow(V.UnsupportedError);
  const w = world(new Governed(), {}, { coordinator });
  expect(coordinator.listeners.size).toBe(2);
  write(w, 1, 64);
  write(w, 2, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['1 SUCCESS', '2 SUCCESS']);
  expect(coordinator.reports).toEqual([2]);
  expect(log.slice(0, 2)).toEqual(['fed, 0 allowed', 'granted 2']);
  const other = w.v.openDevice('sim0', { tenant: 'x' });
  expect(coordinator.listeners.size).toBe(3);
  w.v.closeDevice(other);
  expect(coordinator.listeners.size).toBe(2);
});

test('the shim signals no further requests if the application signals enough', async () => {
  class Late extends Base {
    holds = false;
    override onload(_qp: QpView, _words: Uint32Array, _start: number, count: number): number {
      return this.holds ? 0 : count;
    }
  }
  const policy = new Late();
  const w = world(policy);
  for (let turn = 0; turn < 4; turn++) {
    for (let i = 0; i < 12; i++) write(w, i, 64);
    post(w.a);
    expect(await settle(w)).toHaveLength(12);
  }
  policy.holds = true;
  for (let i = 0; i < 4; i++) write(w, i, 64, i === 3 ? V.IBV_SEND_SIGNALED : 0);
  post(w.a);
  expect(await settle(w)).toHaveLength(1);
  expect(shimCounters(w.v)).toMatchObject({ held: 4, hiddenCompletions: 0 });
});

test('signalNow makes the next request report to the policy only', async () => {
  const completed: number[] = [];
  class Curious extends Base {
    override onload(): number {
      return 0;
    }
    override feed(qp: QpView, out: Actions): void {
      out.signalNow(qp);
      super.feed(qp, out);
    }
    onCompleted(_qp: QpView, count: number): void {
      completed.push(count);
    }
  }
  const w = world(new Curious());
  write(w, 1, 64, 0);
  post(w.a);
  expect(await settle(w)).toEqual([]);
  expect(completed).toEqual([1]);
});

test('signalNow after a request of the same event makes that one report', async () => {
  const completed: number[] = [];
  class Late extends Base {
    override onload(): number {
      return 0;
    }
    override feed(qp: QpView, out: Actions): void {
      super.feed(qp, out);
      out.signalNow(qp);
    }
    onCompleted(_qp: QpView, count: number): void {
      completed.push(count);
    }
  }
  const w = world(new Late());
  for (let i = 0; i < 3; i++) write(w, i, 64, 0);
  post(w.a);
  expect(await settle(w)).toEqual([]);
  expect(completed).toEqual([1]);
  expect(shimCounters(w.v).hiddenCompletions).toBe(1);
});

/** Justitia's split queue pair: messages go in pieces over the twin, and their last bytes over the application's own. */
class Splitting extends Base {
  override readonly slots = 8;
  readonly told: string[] = [];
  readonly twins: (ResourceView | null)[] = [];
  private readonly resources: Resources[] = [];
  private readonly qps: QpView[] = [];
  private flying = 0;
  private failed = 0;
  readonly chunkBytes: number;
  constructor(chunkBytes: number) {
    super();
    this.chunkBytes = chunkBytes;
  }
  setup(resources: Resources): void {
    expect(resources.twins({ depth: 8, bufferBytes: 64 })).toBe(0);
    this.resources[resources.context.index] = resources;
  }
  onQp(qp: QpView, change: QpChange): void {
    if (change === 'created') this.qps.push(qp);
    if (change !== 'created' || this.qps.length > 2) return;
    this.twins.push(this.resources[qp.context.index].twin(qp, 0));
  }
  override onload(): number {
    return 0;
  }
  override feed(qp: QpView, out: Actions): void {
    const twin = this.twins[this.qps.indexOf(qp)] ?? null;
    while (out.backlog(qp) > 0 && out.room(qp) > 0 && this.flying === 0) {
      if (this.failed !== 0) {
        out.deliver(qp, this.failed, 0);
        return;
      }
      if (twin === null || out.nextBytes(qp) <= this.chunkBytes) {
        out.pass(qp);
        continue;
      }
      const taken = out.pieceOn(qp, twin, this.chunkBytes, qp.index);
      if (taken === 0) return;
      this.flying++;
    }
  }
  onInternal(token: number, status: number, out: Actions): void {
    this.told.push(`${token} ${V.wcStatusName(status)}`);
    const qp = this.qps.find((one) => one.index === token);
    this.flying--;
    if (status !== V.IBV_WC_SUCCESS) this.failed = status;
    if (qp !== undefined) this.feed(qp, out);
  }
}

test('a message over a twin arrives whole, once and in order, across elements', async () => {
  const policy = new Splitting(1000);
  const w = world(policy, { event: true });
  const { a, b } = w;
  a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, 2500, a.mr.lkey, b.mr.addr, b.mr.rkey);
  a.send.sge(0, a.mr.addr + 10_000, 0, a.mr.lkey);
  a.send.sge(0, a.mr.addr + 20_000, 1700, a.mr.lkey);
  write(w, 2, 64, V.IBV_SEND_SIGNALED, 50_000);
  post(a);
  expect(await settle(w)).toEqual(['1 SUCCESS', '2 SUCCESS']);
  const wanted = Buffer.concat([a.bytes.subarray(0, 2500), a.bytes.subarray(20_000, 21_700)]);
  expect(Buffer.compare(wanted, b.bytes.subarray(0, 4200))).toBe(0);
  expect(policy.told).toHaveLength(4);
  expect(shimCounters(w.v)).toMatchObject({ seen: 2, split: 1, internal: { pieces: 5, posts: 0 } });
});

test('a piece that fails on a twin fails the message once, with its status', async () => {
  const w = world(new Splitting(1000));
  const { a, b } = w;
  a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, 4000, a.mr.lkey, b.mr.addr, 0xdead);
  write(w, 2, 64);
  post(a);
  expect(await settle(w)).toEqual(['1 REM_ACCESS_ERR', '2 WR_FLUSH_ERR']);
});

test('a twin SENDs into a receive of the other twin’s buffer', async () => {
  const policy = new Splitting(1000);
  const w = world(policy);
  const talk = (out: Actions) => {
    const [from, to] = policy.twins;
    from!.buffer!.set([1, 2, 3, 4], 8);
    expect(out.receive(to!, 32, 16, 201)).toBe(true);
    const message = { opcode: V.IBV_WR_SEND, offsetBytes: 8, bytes: 4, token: 200 };
    expect(out.post(from!, request(message))).toBe(true);
  };
  let isDone = false;
  const feed = policy.feed.bind(policy);
  policy.feed = (qp, out) => {
    if (!isDone) talk(out);
    isDone = true;
    feed(qp, out);
  };
  write(w, 1, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['1 SUCCESS']);
  await w.fabric.run();
  expect(policy.told.sort()).toEqual(['200 SUCCESS', '201 SUCCESS']);
  expect([...policy.twins[1]!.buffer!.subarray(32, 36)]).toEqual([1, 2, 3, 4]);
});

test('openDevice throws the error of a policy’s setup, and leaves nothing open', () => {
  class Greedy extends Base {
    setup(resources: Resources): void {
      resources.loopback({ depth: 4, bufferBytes: 100 });
      resources.loopback({ depth: 1 << 30 });
    }
  }
  const fabric = createFabric({ hosts: 1, autoAdvance: false });
  const v = compose(fabric.provider, [createShim(() => new Greedy())]);
  expect(() => v.openDevice('sim0')).toThrow(V.IsoverbsError);
  expect(fabric.tenants()).toEqual([]);
  expect(fabric.simulation.world.qps.filter((qp) => qp !== undefined)).toEqual([]);
});

test('closeDevice with children is refused, and the resources stay until it succeeds', async () => {
  const policy = new Pausing();
  const w = world(policy);
  expect(() => w.v.closeDevice(w.a.context)).toThrow(V.BusyError);
  write(w, 1, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['1 SUCCESS']);
});

test("a queue pair of the device's maximum depth is fed piece by piece, and the application keeps the full depth", async () => {
  const interceptor = createPolicy('perf', {
    isolation: 'always',
    subMsgSizeBytes: 256,
    zeroWaitUnitBytes: 64,
  });
  const fabric = createFabric({ hosts: 1, autoAdvance: false });
  const context = fabric.provider.openDevice('sim0');
  const { maxQpWr } = fabric.provider.queryDevice(context);
  fabric.provider.closeDevice(context);
  const w = world(interceptor, { cap: { maxSendWr: maxQpWr }, cqe: 1 << 16 });
  expect(w.v.queryQp(w.a.qp).init.cap.maxSendWr).toBe(maxQpWr);
  let posted = 0;
  for (let taken = 256; taken === 256; posted += taken) {
    for (let i = 0; i < 256; i++) write(w, posted + i, 512);
    taken = post(w.a);
  }
  expect(posted).toBe(maxQpWr);
  expect([w.a.send.errno, w.a.send.reason]).toEqual([V.ENOMEM, V.REASON_QUEUE_FULL]);
  const done = await settle(w);
  expect(done).toEqual(Array.from({ length: maxQpWr }, (_, i) => `${i} SUCCESS`));
  expect(shimCounters(w.v).sqHighWater).toBeLessThanOrEqual(maxQpWr);
}, 60_000);

test('a timer of one context feeds the queue pairs of another, each as one batch', async () => {
  let posts = 0;
  const counting: Interceptor = {
    name: 'posts',
    wrap: (next) => ({
      postSend(qp, ring, start, count) {
        posts++;
        return next.postSend(qp, ring, start, count);
      },
    }),
  };
  class Both extends Base {
    private readonly qps: QpView[] = [];
    onQp(qp: QpView, change: QpChange): void {
      if (change === 'created') this.qps.push(qp);
    }
    override onload(): number {
      return 0;
    }
    override feed(qp: QpView, out: Actions): void {
      out.timer(qp.context, 5000, 1);
    }
    onTimer(_token: number, out: Actions): void {
      for (const qp of this.qps) super.feed(qp, out);
    }
  }
  const shim = createShim(() => new Both());
  const w = world({ name: 'both', wrap: (next) => shim.wrap(compose(next, [counting])) });
  for (let i = 0; i < 3; i++) {
    write(w, i, 64);
    w.b.send.write(i, V.IBV_SEND_SIGNALED, w.b.mr.addr, 64, w.b.mr.lkey, w.a.mr.addr, w.a.mr.rkey);
  }
  post(w.a);
  post(w.b);
  expect(await settle(w)).toEqual(['0 SUCCESS', '1 SUCCESS', '2 SUCCESS']);
  expect(take(w.b)).toHaveLength(3);
  expect(posts).toBe(2);
});

test('after RESET with internal requests in flight, none is reported, and the queue pair behaves like a new one', async () => {
  const policy = new Pausing();
  const w = world(policy);
  write(w, 1, 64);
  post(w.a);
  await w.fabric.advance(1000);
  for (const end of [w.a, w.b]) modify(end, { qpState: V.IBV_QPS_RESET });
  connect(w.a, w.b);
  write(w, 2, 64);
  post(w.a);
  expect(await settle(w)).toEqual(['2 SUCCESS']);
  expect(policy.told).not.toContain('7 SUCCESS');
});
