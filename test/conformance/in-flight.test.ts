/**
 * ERR, RESET and destroy at any moment, with requests held, cut and in flight. How many requests complete depends on
 * timing, so runs are not compared; each must keep the guarantees of verbs.
 */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, modify } from '../sim/helpers.ts';
import { chains, tagsOfWay } from './chains.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 60);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);
const DEPTH = 8;
const REGION = 1 << 17;

type Step =
  | { do: 'post'; sizes: { bytes: number; signaled: boolean; fault: boolean }[] }
  | { do: 'advance'; ns: number }
  | { do: 'poll'; max: number }
  | { do: 'error' | 'reset' | 'renew' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('post' as const),
      sizes: fc.array(
        fc.record({
          bytes: fc.oneof(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 60_000 })),
          signaled: fc.boolean(),
          fault: fc.integer({ min: 0, max: 19 }).map((n) => n === 0),
        }),
        { minLength: 1, maxLength: 10 },
      ),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ns: fc.integer({ min: 0, max: 30_000 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('poll' as const), max: fc.integer({ min: 1, max: 5 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('error', 'reset', 'renew') }) },
);

const scenario = fc.record({
  sigAll: fc.boolean(),
  event: fc.boolean(),
  steps: fc.array(step, { minLength: 1, maxLength: 30 }),
});

type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never;

interface Posted {
  id: number;
  signaled: boolean;
}

class InFlight {
  readonly fabric;
  private readonly a: End;
  private b: End;
  private readonly sigAll: boolean;
  /** Posted to the current queue pair since its last RESET, and not known to be complete. */
  private outstanding: Posted[] = [];
  private nextId = 1;
  private failed = false;

  constructor(chain: Interceptor[], wait: boolean, { sigAll, event }: Scenario) {
    this.fabric = createFabric({ hosts: 2, seed: 1, wait, autoAdvance: false });
    const f = { ...this.fabric, provider: compose(this.fabric.provider, chain) };
    this.sigAll = sigAll;
    this.a = makeEnd(f, 0, { bytes: REGION, event, sqSigAll: sigAll, cqe: DEPTH, cap: { maxSendWr: DEPTH } });
    this.b = makeEnd(this.fabric, 1, { bytes: REGION });
    for (let i = 0; i < REGION; i++) this.a.bytes[i] = (i * 31 + (i >> 8)) & 255;
    connect(this.a, this.b);
  }

  async step(s: Step): Promise<void> {
    if (s.do === 'post') this.post(s.sizes);
    else if (s.do === 'advance') await this.fabric.advance(s.ns);
    else if (s.do === 'poll') this.poll(s.max);
    else if (s.do === 'error') modify(this.a, { qpState: V.IBV_QPS_ERR });
    else if (s.do === 'reset') this.reset();
    else this.renew();
  }

  private post(sizes: Extract<Step, { do: 'post' }>['sizes']): void {
    const { a, b } = this;
    a.send.clear();
    const first = this.nextId;
    for (const { bytes, signaled, fault } of sizes) {
      const rkey = fault ? 0xdead : b.mr.rkey;
      const flags = signaled ? V.IBV_SEND_SIGNALED : 0;
      a.send.write(this.nextId++, flags, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, rkey);
    }
    const n = a.v.postSend(a.qp, a.send.ring, 0, sizes.length);
    if (n < sizes.length) expect(a.send.errno).toBe(V.ENOMEM);
    expect(n).toBeLessThanOrEqual(DEPTH);
    for (let i = 0; i < n; i++) {
      this.outstanding.push({ id: first + i, signaled: sizes[i].signaled || this.sigAll });
    }
    expect(this.outstanding.length).toBeLessThanOrEqual(DEPTH);
  }

  /** Completions are in order, at most once, not from before a RESET, and flushed after a failure. */
  private poll(max: number): number {
    const { a } = this;
    const n = a.v.pollCq(a.sendCq, a.wc.ring, 0, max);
    for (let i = 0; i < n; i++) {
      expect(a.wc.qp(i)).toBe(a.qp);
      const id = a.wc.wrId(i);
      const at = this.outstanding.findIndex((posted) => posted.id === id);
      expect([id, at >= 0]).toEqual([id, true]);
      const ok = a.wc.status(i) === V.IBV_WC_SUCCESS;
      if (ok) expect([this.failed, this.outstanding[at].signaled]).toEqual([false, true]);
      if (this.failed) expect(a.wc.status(i)).toBe(V.IBV_WC_WR_FLUSH_ERR);
      // Skipped requests have completed without a completion: unsignaled, and before any failure.
      for (const silent of this.outstanding.splice(0, at + 1).slice(0, -1)) {
        expect([id, silent.id, silent.signaled, this.failed]).toEqual([id, silent.id, false, false]);
      }
      if (!ok) this.failed = true;
    }
    return n;
  }

  private reset(): void {
    for (const end of [this.a, this.b]) modify(end, { qpState: V.IBV_QPS_RESET });
    this.fresh();
    connect(this.a, this.b);
  }

  /** Another queue pair on the same completion queues. */
  private renew(): void {
    for (const name of ['a', 'b'] as const) {
      const end = this[name];
      end.v.destroyQp(end.qp);
      const cap = { maxSendWr: DEPTH, maxRecvWr: 8, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 0 };
      const { sendCq, recvCq } = end;
      const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: this.sigAll };
      const { handle, qpNum } = end.v.createQp(end.pd, attr);
      Object.assign(end, { qp: handle, qpNum });
    }
    this.fresh();
    connect(this.a, this.b);
  }

  private fresh(): void {
    this.outstanding = [];
    this.failed = false;
  }

  async settle(): Promise<void> {
    for (let idle = 0; idle < 4; ) {
      await this.fabric.run();
      idle = this.poll(3) === 0 ? idle + 1 : 0;
    }
  }

  /** Checks that no signaled request is outstanding, and that a queue pair in RTS moves bytes correctly. */
  async finish(): Promise<void> {
    await this.settle();
    const late = this.outstanding.filter((posted) => posted.signaled || this.failed);
    expect(late).toEqual([]);
    this.reset();
    this.b.bytes.fill(0);
    this.post([{ bytes: REGION - 1, signaled: true, fault: false }]);
    await this.settle();
    expect([this.outstanding, this.failed]).toEqual([[], false]);
    expect(Buffer.compare(this.a.bytes.subarray(0, -1), this.b.bytes.subarray(0, -1))).toBe(0);
    this.close();
  }

  private close(): void {
    const { v, qp, sendCq, recvCq, mr, pd, channel, context, send, recv, wc } = this.a;
    v.destroyQp(qp);
    v.destroyCq(sendCq);
    v.destroyCq(recvCq);
    v.deregMr(mr.handle);
    v.deallocPd(pd);
    if (channel !== 0) v.destroyCompChannel(channel);
    for (const batch of [send, recv, wc]) batch.close();
    v.closeDevice(context);
  }
}

const all: typeof chains = { bare: { chain: () => [] }, ...chains };

for (const [name, { chain, wait = true, share = 1 }] of Object.entries(all)) {
  test(`ERR, RESET and destroy with work in flight: ${name}`, { tags: tagsOfWay(name) }, async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async (s) => {
        const run = new InFlight(chain(), wait, s);
        for (const one of s.steps) await run.step(one);
        await run.finish();
      }),
      { numRuns: Math.ceil(RUNS * share), seed: SEED, interruptAfterTimeLimit: 60_000 },
    );
  });
}
