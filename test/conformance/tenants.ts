/**
 * Random programs of many tenants on one device: contexts open and close, queue pairs are created, fail, pause and are
 * destroyed, while others send traffic that a policy classifies as B, M and D. Each request must complete once, in
 * order, with its data in place, and none may wait for ever.
 */
import fc from 'fast-check';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import {
  ALL_ACCESS,
  connect,
  type End,
  makeEnd,
  modify,
  post,
  SIGNALED,
  toInit,
  toRtr,
  toRts,
} from '../sim/helpers.ts';

const DEPTH = 16;
const AREA = 1 << 17;
const LANES = 12;
const CAP = { maxSendWr: DEPTH, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
/** Lengths at the limits of classes, pieces, packets and turns. */
const SIZES = [0, 1, 64, 1023, 1024, 1025, 4096, 16_384, 16_385, 65_537, AREA];
/** After the last post, every request completes within this time. */
const PATIENCE_NS = 4e7;

interface Request {
  bytes: number;
  kind: 'write' | 'read';
  signaled: boolean;
}

export type TenantStep =
  | { do: 'open'; tenant: string; qps: number }
  | { do: 'close'; tenant: number }
  | { do: 'add'; tenant: number }
  | { do: 'post'; lane: number; requests: Request[] }
  | { do: 'error' | 'reset' | 'destroy' | 'pause'; lane: number }
  | { do: 'advance'; ns: number }
  | { do: 'poll' };

const nth = fc.nat({ max: 63 });
const request: fc.Arbitrary<Request> = fc.record({
  bytes: fc.constantFrom(...SIZES),
  kind: fc.constantFrom('write' as const, 'write' as const, 'write' as const, 'read' as const),
  signaled: fc.integer({ min: 0, max: 3 }).map((n) => n > 0),
});
/** A tenant, which posts requests of one kind or of all. */
const requests = fc.oneof(
  fc.array(request, { minLength: 1, maxLength: DEPTH }),
  fc
    .tuple(request, fc.integer({ min: 1, max: DEPTH }))
    .map(([one, n]) => Array.from({ length: n }, () => one)),
);

const step: fc.Arbitrary<TenantStep> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('open' as const),
      tenant: fc.constantFrom('', 'a', 'b', 'c'),
      qps: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('close' as const), tenant: nth }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('add' as const), tenant: nth }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('post' as const), lane: nth, requests }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('error' as const, 'reset' as const, 'destroy' as const, 'pause' as const),
      lane: nth,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      ns: fc.oneof(fc.nat({ max: 2000 }), fc.nat({ max: 60_000 })),
    }),
  },
  { weight: 4, arbitrary: fc.constant({ do: 'poll' as const }) },
);

export const tenantSteps: fc.Arbitrary<TenantStep[]> = fc
  .array(step, { minLength: 4, maxLength: 60 })
  .map((steps) => [
    { do: 'open', tenant: 'a', qps: 2 },
    { do: 'open', tenant: 'b', qps: 1 },
    { do: 'open', tenant: '', qps: 1 },
    ...steps,
  ]);

/** A queue pair, its peer, and the completions that it must get. */
interface Lane {
  end: End;
  peer: End;
  at: number;
  /** Requests posted and not known to have ended, the oldest first. */
  waiting: (Request & { id: number })[];
  next: number;
  failed: boolean;
  /** Whether a request was flushed, so that all later ones must be flushed too. */
  flushed: boolean;
  /** Expected contents of its peer's memory. */
  shadow: Uint8Array;
}

interface Tenant {
  end: End;
  lanes: Lane[];
}

/** Offset of a message of this length, so that each length has different bytes. */
function sourceOf(bytes: number): number {
  return Math.floor((AREA - bytes) / 2);
}

class Ground {
  readonly fabric: Fabric;
  readonly trace: string[] = [];
  private readonly v: V.Provider;
  private readonly peer: End;
  private readonly tenants: Tenant[] = [];
  private readonly places: number[] = Array.from({ length: LANES }, (_, i) => i);

  constructor(chain: Interceptor[], wait: boolean, profile: string | undefined) {
    this.fabric = createFabric({ hosts: 2, seed: 1, wait, autoAdvance: false, ...(profile && { profile }) });
    this.v = compose(this.fabric.provider, chain);
    this.peer = makeEnd(this.fabric, 1, { bytes: LANES * AREA, access: ALL_ACCESS });
    for (let i = 0; i < this.peer.bytes.length; i++) this.peer.bytes[i] = i * 7;
  }

  private get lanes(): Lane[] {
    return this.tenants.flatMap(({ lanes }) => lanes);
  }

  async take(one: TenantStep): Promise<void> {
    if (one.do === 'open') this.open(one.tenant, one.qps);
    else if (one.do === 'advance') await this.fabric.advance(one.ns);
    else if (one.do === 'poll') this.poll();
    else if (one.do === 'close' || one.do === 'add') {
      const tenant = this.tenants[one.tenant % Math.max(1, this.tenants.length)];
      if (tenant === undefined) return;
      if (one.do === 'add') this.add(tenant);
      else this.close(tenant);
    } else {
      const { lanes } = this;
      const lane = lanes[one.lane % Math.max(1, lanes.length)];
      if (lane === undefined) return;
      if (one.do === 'post') this.post(lane, one.requests);
      else this.disturb(lane, one.do);
    }
  }

  private open(tenant: string, qps: number): void {
    if (this.places.length === 0) return;
    const { v } = this;
    const fabric = {
      ...this.fabric,
      provider: { ...v, openDevice: (name: string) => v.openDevice(name, { tenant }) },
    };
    const end = makeEnd(fabric, 0, { bytes: 2 * AREA, cqe: LANES * DEPTH, access: ALL_ACCESS });
    for (let i = 0; i < end.bytes.length; i++) end.bytes[i] = i * 31 + (i >> 8) * 7 + this.tenants.length;
    v.destroyQp(end.qp);
    const made: Tenant = { end, lanes: [] };
    this.tenants.push(made);
    for (let i = 0; i < qps; i++) this.add(made);
  }

  private add({ end, lanes }: Tenant): void {
    const place = this.places.pop();
    if (place === undefined) return;
    const at = place * AREA;
    const own = this.created(end);
    const peer = this.created(this.peer);
    const shadow = this.peer.bytes.slice(at, at + AREA);
    const lane: Lane = { end: own, peer, at, waiting: [], next: 0, failed: false, flushed: false, shadow };
    connect(own, peer);
    lanes.push(lane);
  }

  private created(end: End): End {
    const { v, pd, sendCq, recvCq } = end;
    const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap: CAP, sqSigAll: false };
    const { handle, qpNum } = v.createQp(pd, attr);
    return { ...end, qp: handle, qpNum };
  }

  private post(lane: Lane, list: readonly Request[]): void {
    const { end, peer, waiting } = lane;
    for (const [i, { bytes, kind, signaled }] of list.entries()) {
      const flags = signaled ? SIGNALED : 0;
      // A READ writes to memory from which no request sends.
      const from = end.mr.addr + (kind === 'read' ? AREA : sourceOf(bytes));
      end.send[kind](lane.next + i, flags, from, bytes, end.mr.lkey, peer.mr.addr + lane.at, peer.mr.rkey);
    }
    const taken = post(end);
    for (const one of list.slice(0, taken)) waiting.push({ ...one, id: lane.next++ });
    this.trace.push(`post ${end.qp} ${taken}`);
  }

  private disturb(lane: Lane, how: 'error' | 'reset' | 'destroy' | 'pause'): void {
    const { end, peer } = lane;
    if (how === 'error') {
      modify(end, { qpState: V.IBV_QPS_ERR });
      lane.failed = true;
    } else if (how === 'pause') {
      if (lane.failed) return;
      modify(end, { qpState: V.IBV_QPS_SQD });
      void this.resumeLater(lane);
    } else if (how === 'reset') {
      this.poll();
      for (const one of [end, peer]) modify(one, { qpState: V.IBV_QPS_RESET });
      lane.waiting.length = 0;
      lane.failed = false;
      lane.flushed = false;
      for (const one of [end, peer]) toInit(one);
      toRtr(end, peer);
      toRtr(peer, end);
      toRts(peer);
      toRts(end);
      this.forgetData(lane);
    } else {
      this.poll();
      this.remove(lane);
    }
  }

  private readonly paused: Lane[] = [];
  private resumeLater(lane: Lane): void {
    this.paused.push(lane);
  }

  private forgetData(lane: Lane): void {
    lane.shadow = new Uint8Array(0);
  }

  private remove(lane: Lane): void {
    lane.end.v.destroyQp(lane.end.qp);
    lane.peer.v.destroyQp(lane.peer.qp);
    this.places.push(lane.at / AREA);
    for (const { lanes } of this.tenants) {
      const at = lanes.indexOf(lane);
      if (at >= 0) lanes.splice(at, 1);
    }
  }

  private close(tenant: Tenant): void {
    const { v, end, lanes } = { ...tenant, v: this.v };
    for (const lane of [...lanes]) this.remove(lane);
    v.destroyCq(end.sendCq);
    v.destroyCq(end.recvCq);
    v.deregMr(end.mr.handle);
    v.deallocPd(end.pd);
    v.closeDevice(end.context);
    this.tenants.splice(this.tenants.indexOf(tenant), 1);
  }

  /** Polls all completions, and checks each. */
  poll(): void {
    for (const lane of this.paused.splice(0)) {
      if (lane.failed || !this.lanes.includes(lane)) continue;
      const { attr } = lane.end.v.queryQp(lane.end.qp);
      if (attr.qpState === V.IBV_QPS_SQD) modify(lane.end, { qpState: V.IBV_QPS_RTS });
    }
    for (const { end, lanes } of this.tenants) {
      for (let n = end.wc.capacity; n === end.wc.capacity; ) {
        n = this.v.pollCq(end.sendCq, end.wc.ring, 0, end.wc.capacity);
        for (let i = 0; i < n; i++) this.completed(end, lanes, i);
      }
    }
  }

  private completed({ wc }: End, lanes: readonly Lane[], i: number): void {
    const lane = lanes.find(({ end }) => end.qp === wc.qp(i));
    const [id, status] = [Number(wc.wrId(i)), wc.status(i)];
    this.trace.push(`${this.fabric.nowNs} done ${wc.qp(i)} ${id} ${V.wcStatusName(status)}`);
    if (lane === undefined) throw new Error(`a completion ${id} of no queue pair`);
    const isGood = status === V.IBV_WC_SUCCESS;
    if (!isGood && !lane.failed) throw new Error(`${id} failed by itself: ${V.wcStatusName(status)}`);
    const { waiting } = lane;
    for (let one = waiting.shift(); ; one = waiting.shift()) {
      if (one === undefined) throw new Error(`completion ${id} was not waited for`);
      if (one.kind === 'write' && isGood && lane.shadow.length > 0) {
        const from = sourceOf(one.bytes);
        lane.shadow.set(lane.end.bytes.subarray(from, from + one.bytes));
      }
      if (one.id === id) {
        if (isGood && !one.signaled) throw new Error(`${id} was not signaled`);
        lane.flushed ||= !isGood;
        return;
      }
      // An unsignaled request may have completed before the failure.
      if (one.signaled || lane.flushed) throw new Error(`${id} completed, and ${one.id} before it did not`);
    }
  }

  /** Lanes that still await a completion. */
  private get unfinished(): Lane[] {
    return this.lanes.filter(({ waiting, flushed }) => waiting.some(({ signaled }) => signaled || flushed));
  }

  /** Runs until all awaited completions have arrived. */
  async finish(): Promise<void> {
    const endNs = this.fabric.nowNs + PATIENCE_NS;
    this.poll();
    while (this.unfinished.length > 0 && this.fabric.nowNs < endNs) {
      await this.fabric.advance(20_000);
      this.poll();
    }
    const late = this.unfinished.map(({ end, waiting }) => `${end.qp}: ${waiting.map(({ id }) => id)}`);
    if (late.length > 0) throw new Error(`still waiting: ${late.join('; ')}`);
    await this.fabric.advance(PATIENCE_NS / 100);
    this.poll();
    for (const lane of this.lanes) {
      if (lane.failed || lane.shadow.length === 0 || lane.waiting.length > 0) continue;
      const area = this.peer.bytes.subarray(lane.at, lane.at + AREA);
      if (Buffer.compare(area, lane.shadow) !== 0) throw new Error(`memory of ${lane.end.qp} is another`);
    }
    while (this.tenants.length > 0) this.close(this.tenants[0]);
    const broken = this.fabric.brokenInvariants();
    if (broken.length > 0) throw new Error(broken.join('\n'));
  }
}

/** Runs a program; returns what happened and when. @throws Error at the first violation */
export async function runTenants(
  steps: readonly TenantStep[],
  chain: Interceptor[],
  { wait = true, profile }: { wait?: boolean; profile?: string } = {},
): Promise<string[]> {
  const ground = new Ground(chain, wait, profile);
  for (const one of steps) await ground.take(one);
  await ground.finish();
  return ground.trace;
}
