/**
 * The environment of a case: two ends with connected queue pairs a0-b0, a1-b1 ..., on any provider with or without
 * interceptors. A scene records what the application sees (return codes, completions by queue pair, events, states), and
 * checks that memory has the effect of the successful requests.
 */
import * as V from '../../../src/verbs/index.ts';
import type { Ground } from '../../verbs/ground.ts';
import {
  ACCESS,
  addressHandle,
  closeEnd,
  connect,
  createQp,
  modify,
  openEnd,
  QKEY,
  replaceCq,
} from '../../verbs/rig.ts';
import { xrcSrq } from '../../verbs/xrc-rig.ts';
import { describe } from './completion-text.ts';
import { Ledger, type Queue } from './ledger.ts';
import { Memory, type Range } from './memory.ts';
import type { Op } from './op.ts';
import { add, plan, type Route, type Side } from './posts.ts';
import { initOf, type Setup, type SideName } from './setup.ts';

export type Trace = Record<string, string[]>;

export const MEMORY_BYTES = 1 << 17;
export const RECV_BYTES = 4096;
const FIRST_RECV = 101;
const PATIENCE_MS = 10_000;
/** Milliseconds in which a real device could deliver a completion that must not arrive. */
const QUIET_TURNS = 3;
const PLANNED_QUIET_TURNS = 1;
/** Without polls, a shim requires more time. */
const PASS_TURNS = 10;
const SHIMMED_PASS_TURNS = 150;

export class Scene {
  readonly trace: Trace = { calls: [], events: [] };
  readonly p: V.Provider;
  readonly ground: Ground;
  readonly sides: Record<SideName, Side>;
  readonly setup: Setup;
  readonly srq: number = 0;
  readonly channels: Partial<Record<SideName, number>> = {};
  /** The number of completions of each settle(), for which a later run waits. */
  readonly counts: number[] = [];
  private readonly planned: readonly number[] | null;
  private readonly queues = new Map<string, Queue>();
  private readonly byHandle = new Map<number, Queue>();
  private readonly ledger: Ledger;
  private readonly wcs: V.WcBatch;
  private readonly extraCqs: { cq: number; side: SideName }[] = [];
  readonly xrcd: number = 0;
  /** XRC: the number that senders use. */
  private readonly srqNum: number = 0;
  private nextId = 1n;
  private nextRecv = FIRST_RECV;
  private readonly undo: (() => void)[] = [];
  private readonly windows: (() => void)[] = [];

  constructor(ground: Ground, setup: Setup, planned: readonly number[] | null) {
    this.ground = ground;
    this.p = ground.provider;
    this.setup = setup;
    this.planned = planned;
    this.sides = { a: this.openSide('a', 0, ACCESS), b: this.openSide('b', 1, setup.mrAccess ?? ACCESS) };
    this.ledger = new Ledger(this.sides, this.queues, (text) => this.note(text));
    this.wcs = new V.WcBatch(this.p, { capacity: 64 });
    if (setup.srq !== undefined && setup.transport !== 'XRC') {
      this.srq = this.p.createSrq(this.b.pd, { maxWr: setup.srq, maxSge: 2 }).handle;
    }
    if (setup.transport === 'XRC') {
      this.xrcd = this.p.openXrcd(this.b.context);
      const { handle, srqNum } = xrcSrq(this.b, this.xrcd);
      this.srq = handle;
      this.srqNum = srqNum;
    }
    for (let i = 0; i < (setup.pairs ?? 1); i++) this.addPair(i);
    const { recvs = 8 } = setup;
    if (this.srq !== 0) this.recv('srq', recvs);
    else if (setup.unconnected !== true)
      for (let i = 0; i < (setup.pairs ?? 1); i++) this.recv(`b${i}`, recvs);
  }

  get a() {
    return this.sides.a.end;
  }

  get b() {
    return this.sides.b.end;
  }

  private openSide(name: SideName, which: 0 | 1, access: number): Side {
    const end = openEnd(this.ground, which, access, MEMORY_BYTES);
    const { channels, cqOptions, cqe } = this.setup;
    if (channels) {
      const channel = this.p.createCompChannel(end.context);
      this.channels[name] = channel;
      this.p.destroyCq(end.cq);
      end.cq = this.p.createCq(end.context, cqe ?? 256, channel, cqOptions).handle;
    } else if (cqOptions !== undefined || cqe !== undefined) replaceCq(end, cqOptions ?? {}, cqe);
    this.p.watchAsyncEvents(end.context, (event, element) => {
      const who = this.byHandle.get(element)?.name ?? (element === this.srq ? 'srq' : name);
      this.trace.events.push(`${who} ${V.asyncEventName(event)}`);
    });
    return { end, memory: new Memory(end.bytes, which + 1) };
  }

  private addPair(i: number, managed?: boolean): void {
    const infos = { a: createQp(this.a, initOf(this.setup, 'a', this, managed)), b: this.createAtB() };
    const ahs = { a: 0, b: 0 };
    if (this.setup.transport === 'UD') {
      ahs.a = addressHandle(this.a, this.b);
      ahs.b = addressHandle(this.b, this.a);
      this.undo.push(() => {
        this.p.destroyAh(ahs.a);
        this.p.destroyAh(ahs.b);
      });
    }
    for (const side of ['a', 'b'] as const) {
      const other = side === 'a' ? 'b' : 'a';
      const route = {
        from: this.sides[side],
        to: this.sides[other],
        peerQpNum: infos[other].qpNum,
        ah: ahs[side],
        qkey: QKEY,
        srqNum: side === 'a' ? this.srqNum : 0,
      };
      this.enlist(
        `${side}${i}`,
        side,
        infos[side],
        initOf(this.setup, side, this).qpType ?? V.IBV_QPT_RC,
        route,
      );
    }
    if (this.setup.unconnected !== true) this.connect(i);
  }

  private createAtB(): V.QpInfo {
    const init = initOf(this.setup, 'b', this);
    if (this.setup.transport !== 'XRC') return createQp(this.b, init);
    return this.p.createQp(0, { sqSigAll: false, ...init } as V.QpInitAttr);
  }

  private enlist(name: string, side: SideName, info: V.QpInfo, type: number, route: Route): void {
    const queue = { name, side, info, type, route, sends: [], mail: [], failed: false, isOpen: true };
    this.queues.set(name, queue);
    this.byHandle.set(info.handle, queue);
  }

  /** RESET -> RTS of both queue pairs of a pair. */
  connect(i = 0): void {
    // An emulated machine may stall for longer than a device's timeout.
    const isSimulated = this.ground.fabric !== null;
    const { qpAccess = ACCESS, retryCnt = isSimulated ? 3 : 6, mtu } = this.setup;
    // In virtual time, unlimited retries would never end.
    const rnrRetry = Math.min(this.setup.rnrRetry ?? 2, isSimulated ? 6 : 7);
    const { timeout = this.ground.timeout ?? (isSimulated ? 12 : 16) } = this.setup;
    const [a, b] = [this.queue(`a${i}`), this.queue(`b${i}`)];
    const common = { retryCnt, rnrRetry, timeout, mtu };
    connect(this.a, a.info.handle, this.b, b.info.qpNum, { ...common, qpType: a.type });
    connect(this.b, b.info.handle, this.a, a.info.qpNum, { ...common, qpType: b.type, access: qpAccess });
    for (const queue of [a, b]) queue.failed = false;
  }

  queue(name: string): Queue {
    const queue = this.queues.get(name.length === 1 ? `${name}0` : name);
    if (queue === undefined) throw new Error(`the case names no queue pair: ${name}`);
    return queue;
  }

  qp(name: string): number {
    return this.queue(name).info.handle;
  }

  /** Posts, and records the result if not all requests are taken. Returns how many were. */
  post(name: string, ...ops: Op[]): number {
    const queue = this.queue(name);
    const sges = Math.max(2, ...ops.map((op) => op.sges.length));
    const inlineBytes = Math.max(...ops.map((op) => (op.inline ? op.sges[0] : 0)));
    const batch = new V.SendBatch(this.p, { capacity: ops.length, sges, inlineBytes });
    const all = ops.map((op) => {
      const imm = Number(this.nextId) + 1000;
      const posted = plan(op, op.id ?? this.nextId, imm, queue.route);
      this.nextId++;
      add(batch, posted, queue.route);
      return posted;
    });
    const n = this.p.postSend(queue.info.handle, batch.ring, 0, ops.length);
    if (n < ops.length) {
      const why = `${batch.errno} ${V.REASON_TEXT[batch.reason].split(/[;,(]/)[0].trim()}`;
      this.trace.calls.push(`${queue.name} takes ${n} of ${ops.length}: ${why}`);
    }
    // The application may reuse the memory of its requests at once.
    batch.words.fill(0xffffffff, V.HEADER_WORDS);
    batch.close();
    for (const posted of all.slice(0, n)) {
      this.ledger.posted(queue, posted);
    }
    return n;
  }

  /** Posts `count` receives at a queue pair or at 'srq'. */
  recv(name: string, count = 1, options: { bytes?: number; lkey?: number; sges?: number[] } = {}): number {
    const side = name === 'srq' ? 'b' : this.queue(name).side;
    const { end, memory } = this.sides[side];
    const { bytes = RECV_BYTES, lkey = end.mr.lkey, sges = [bytes] } = options;
    if (count === 0) return 0;
    const batch = new V.RecvBatch(this.p, { capacity: count, sges: Math.max(2, sges.length) });
    for (let i = 0; i < count; i++) {
      const ranges = sges.map((length): Range => [memory.take(length), length]);
      const id = this.nextRecv++;
      batch.recv(id, 0, 0, 0);
      for (const [at, length] of ranges) batch.sge(i, end.mr.addr + at, length, lkey);
      this.ledger.willReceive(side, id, ranges);
    }
    const n =
      name === 'srq'
        ? this.p.postSrqRecv(this.srq, batch.ring, 0, count)
        : this.p.postRecv(this.qp(name), batch.ring, 0, count);
    if (n < count) {
      const why = `${batch.errno} ${V.REASON_TEXT[batch.reason].split(/[;,(]/)[0].trim()}`;
      this.trace.calls.push(`${name} takes ${n} of ${count} receives: ${why}`);
    }
    batch.close();
    return n;
  }

  /** Calls a verb, and records its error's code or its success under a name. */
  attempt<T>(what: string, call: () => T): T | undefined {
    try {
      const answer = call();
      this.trace.calls.push(`${what}: ok`);
      return answer;
    } catch (error) {
      if (!(error instanceof V.IsoverbsError)) throw error;
      this.trace.calls.push(`${what}: ${error.code}`);
      return undefined;
    }
  }

  note(text: string): void {
    this.trace.calls.push(text);
  }

  modify(name: string, attr: V.QpAttr): void {
    const { side, info } = this.queue(name);
    modify(this.sides[side].end, info.handle, attr);
    const queue = this.queue(name);
    if (attr.qpState === V.IBV_QPS_ERR || attr.qpState === V.IBV_QPS_RESET) queue.failed = true;
    if (attr.qpState !== V.IBV_QPS_RESET) return;
    this.ledger.lost(queue);
    queue.mail = [];
  }

  /** The outcome of requests is unknown when their queue pair was destroyed or reset. */
  forget(): void {
    this.ledger.doubtReceives();
  }

  state(name: string): string {
    return V.stateName(this.p.queryQp(this.qp(name)).attr.qpState ?? -1);
  }

  destroy(name: string): void {
    const queue = this.queue(name);
    this.p.destroyQp(queue.info.handle);
    queue.isOpen = false;
    this.ledger.lost(queue);
  }

  /** Logs completion events of this side. */
  listen(side: SideName): void {
    this.p.watchCompChannel(this.channels[side] ?? 0, () =>
      this.trace.events.push(`${side} completion event`),
    );
  }

  arm(side: SideName, solicitedOnly = false): void {
    this.p.reqNotifyCq(this.sides[side].end.cq, solicitedOnly);
  }

  createCq(side: SideName, cqe = 64): number {
    const { handle } = this.p.createCq(this.sides[side].end.context, cqe, 0);
    this.extraCqs.push({ cq: handle, side });
    this.undo.push(() => this.p.destroyCq(handle));
    return handle;
  }

  /** Runs at the end, after the queue pairs were destroyed, in reverse order. */
  later(action: () => void): void {
    this.undo.push(action);
  }

  /** Windows are freed before the queue pairs to which they are bound. */
  windowsFirst(action: () => void): void {
    this.windows.push(action);
  }

  /** Nothing orders completions or events of different ends. */
  sortEvents(): void {
    this.trace.events.sort();
  }

  /** Adds a pair of unmanaged queue pairs; returns the name of the one at a. */
  plainPair(): string {
    const i = this.queues.size >> 1;
    this.addPair(i, false);
    return `a${i}`;
  }

  /** Up to `max` completions of one side, now. */
  poll(side: SideName, max = 64): number {
    return this.pollOne(this.sides[side].end.cq, max);
  }

  private pollOne(cq: number, max: number): number {
    const n = this.p.pollCq(cq, this.wcs.ring, 0, max);
    for (let i = 0; i < n; i++) this.completed(i);
    return n;
  }

  private pollAll(): number {
    let n = this.pollOne(this.a.cq, 64) + this.pollOne(this.b.cq, 64);
    for (const { cq } of this.extraCqs) n += this.pollOne(cq, 64);
    return n;
  }

  /** Lets all pending events happen, without polling. */
  async pass(): Promise<void> {
    if (this.ground.fabric !== null) {
      for (let i = 0; i < 3; i++) await this.ground.fabric.run();
      return;
    }
    const turns = this.planned === null ? PASS_TURNS : SHIMMED_PASS_TURNS;
    for (let i = 0; i < turns; i++) await this.ground.turn();
  }

  /** Lets some time pass, so that many requests are still in flight. */
  async nap(): Promise<void> {
    if (this.ground.fabric !== null) await this.ground.fabric.advance(20_000);
    else await this.ground.turn();
  }

  /**
   * Polls one side continuously, in steps shorter than a packet's transit, until this many completions have arrived.
   */
  async watch(side: SideName, count: number): Promise<void> {
    for (let n = 0, tries = 0; n < count && tries < 2000; tries++) {
      n += this.poll(side, 1);
      if (this.ground.fabric !== null) await this.ground.fabric.advance(50);
      else await this.ground.turn();
    }
  }

  /** Polls all queues until no more completions arrive. */
  async settle(): Promise<void> {
    const { fabric } = this.ground;
    const wanted = this.planned?.[this.counts.length];
    let count = 0;
    if (wanted !== undefined && fabric === null) {
      const giveUp = performance.now() + PATIENCE_MS;
      while (count < wanted && performance.now() < giveUp) {
        count += this.pollAll();
        if (count < wanted) await this.ground.turn();
      }
    }
    const quiet = fabric !== null ? 2 : wanted === undefined ? QUIET_TURNS : PLANNED_QUIET_TURNS;
    for (let idle = 0; idle <= quiet; ) {
      if (fabric !== null) await fabric.run();
      else for (let i = 0; i < 3; i++) await this.ground.turn();
      const n = this.pollAll();
      count += n;
      idle = n === 0 ? idle + 1 : 0;
    }
    this.counts.push(count);
  }

  private completed(i: number): void {
    const { wcs } = this;
    const queue = this.byHandle.get(wcs.qp(i));
    if (queue === undefined) {
      this.trace.calls.push(`a completion of an unknown queue pair ${wcs.qp(i)}`);
      return;
    }
    // Nothing orders the two queues of a queue pair.
    const list = wcs.isRecv(i) ? `${queue.name} recv` : queue.name;
    this.trace[list] ??= [];
    this.trace[list].push(describe(wcs, i, queue.type));
    if (wcs.isRecv(i)) this.ledger.received(queue, wcs, i);
    else this.ledger.sent(queue, wcs, i);
  }

  /** Ends the case: checks memory, and closes all objects. */
  async finish(): Promise<Trace> {
    this.ledger.close();
    const giveUp = performance.now() + PATIENCE_MS;
    let faults = this.faults();
    // An unsignaled request arrives without any notice.
    while (this.ground.fabric === null && faults.length > 0 && performance.now() < giveUp) {
      await this.ground.turn();
      faults = this.faults();
    }
    this.trace.data = faults;
    this.close();
    return this.trace;
  }

  private faults(): string[] {
    const faults = Object.entries(this.sides).map(([name, { memory }]) => [name, memory.fault()]);
    return faults.filter(([, fault]) => fault !== '').map(([name, fault]) => `${name}: ${fault}`);
  }

  private close(): void {
    const { p } = this;
    this.wcs.close();
    for (const action of this.windows) action();
    for (const { isOpen, info } of this.queues.values()) if (isOpen) p.destroyQp(info.handle);
    for (const action of this.undo.reverse()) action();
    if (this.srq !== 0) p.destroySrq(this.srq);
    if (this.xrcd !== 0) p.closeXrcd(this.xrcd);
    for (const name of ['a', 'b'] as const) {
      const { end } = this.sides[name];
      p.watchAsyncEvents(end.context, null);
      const channel = this.channels[name];
      if (channel === undefined) {
        closeEnd(end);
        continue;
      }
      p.destroyCq(end.cq);
      p.destroyCompChannel(channel);
      p.deregMr(end.mr.handle);
      p.deallocPd(end.pd);
      p.closeDevice(end.context);
    }
  }
}
