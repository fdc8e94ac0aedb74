/**
 * Logs of what an application does (posts, polls, time passing, ERR, RESET, destroys), recorded from seeded
 * random programs and replayed to the same policy under each driver. The requests issued on each queue pair, in order,
 * the application's completions, and the refusals must be the same. After each post all posted requests are handed
 * over, so that steps happen at the same time under every driver. ISOVERBS_EVENTS: the minimum number of events (`npm
 * run test:replay`: 100000).
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type DriverName, type PolicySpec, policyInterceptors } from '../../src/drivers/index.ts';
import { ShimCpu } from '../../src/mix/shim-cpu.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { SHIM_COSTS, type ShimCosts } from '../../src/sim/profile/params.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, modify } from '../sim/helpers.ts';
import { tagsIf } from '../support/variants.ts';

const EVENTS = Number(process.env.ISOVERBS_EVENTS ?? 2000);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_125);
const DEPTH = 16;
const REGION = 1 << 17;
const STEPS = 400;

type Step =
  | { do: 'post'; sizes: number[]; signaled: number; fault: boolean }
  | { do: 'advance'; ns: number }
  | { do: 'poll' | 'error' | 'reset' | 'renew' };

/** One program's log. */
function record(seed: number): Step[] {
  const random = new RandomStream(seed, 'log', 0);
  const below = (n: number) => Math.floor(random.next() * n);
  return Array.from({ length: STEPS }, (): Step => {
    const kind = below(100);
    if (kind < 45) {
      const sizes = Array.from({ length: 1 + below(6) }, () => below(below(3) === 0 ? 40_000 : 600));
      return { do: 'post', sizes, signaled: below(64), fault: below(30) === 0 };
    }
    if (kind < 70) return { do: 'advance', ns: below(20_000) };
    if (kind < 94) return { do: 'poll' };
    return { do: (['error', 'reset', 'renew'] as const)[below(3)] };
  });
}

/** The result of a log: for each queue pair the issued requests, the application's completions, and the refusals. */
class Run {
  readonly issued: string[][] = [];
  readonly given: string[] = [];
  events = 0;
  /** Requests that were split; completions without success; queue pairs that were reset or created anew. */
  pieces = 0;
  failures = 0;
  ends = 0;
  /** The durations for which the policy's timers sleep. */
  timers = 0;
  private readonly fabric: Fabric;
  private readonly a: End;
  private readonly b: End;
  private nextId = 1;
  private lastId = -1;

  constructor(interceptors: (fabric: Fabric) => Interceptor[]) {
    this.fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
    const chain = [...interceptors(this.fabric), this.watch()];
    const f = { ...this.fabric, provider: compose(this.fabric.provider, chain) } as Fabric;
    this.a = makeEnd(f, 0, { bytes: REGION, cqe: 4 * DEPTH, cap: { maxSendWr: DEPTH } });
    this.b = makeEnd(this.fabric, 1, { bytes: REGION });
    connect(this.a, this.b);
  }

  /**
   * The innermost interceptor, which records what reaches the device. Ring handles may differ between drivers, but not
   * their slots.
   */
  private watch(): Interceptor {
    const words = new Map<number, Uint32Array>();
    return {
      name: 'watch',
      wrap: (next) => ({
        createWrRing: (...args) => {
          const info = next.createWrRing(...args);
          words.set(info.handle, new Uint32Array(info.memory));
          return info;
        },
        postSend: (qp, ring, start, count) => {
          const n = next.postSend(qp, ring, start, count);
          this.issued[qp & 0xffff] ??= [];
          const log = this.issued[qp & 0xffff];
          const all = words.get(ring) as Uint32Array;
          for (let i = 0; i < n; i++) {
            const at = V.slotAt(start + i);
            if (log.length > 0 && all[at + V.WR_ID_LO] === this.lastId) this.pieces++;
            this.lastId = all[at + V.WR_ID_LO];
            log.push(slotText(all, at));
          }
          this.events += n;
          return n;
        },
        sleep: (...args) => {
          this.timers++;
          return next.sleep(...args);
        },
      }),
    };
  }

  async play(log: readonly Step[]): Promise<this> {
    for (const step of log) {
      this.events++;
      if (step.do === 'post') this.post(step);
      else if (step.do === 'advance') await this.fabric.advance(step.ns);
      else if (step.do === 'poll') this.poll();
      else if (step.do === 'error') modify(this.a, { qpState: V.IBV_QPS_ERR });
      else this.again(step.do === 'renew');
    }
    for (let idle = 0; idle < 3; ) {
      await this.fabric.run();
      idle = this.poll() === 0 ? idle + 1 : 0;
    }
    return this;
  }

  close(): void {
    const { v, qp, sendCq, recvCq, mr, pd, context } = this.a;
    v.destroyQp(qp);
    v.destroyCq(sendCq);
    v.destroyCq(recvCq);
    v.deregMr(mr.handle);
    v.deallocPd(pd);
    v.closeDevice(context);
  }

  private post({ sizes, signaled, fault }: Extract<Step, { do: 'post' }>): void {
    const { a, b } = this;
    a.send.clear();
    sizes.forEach((bytes, i) => {
      const flags = (signaled >> i) & 1 ? V.IBV_SEND_SIGNALED : 0;
      const rkey = fault && i === 0 ? 0xdead : b.mr.rkey;
      a.send.write(this.nextId++, flags, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, rkey);
    });
    const n = a.v.postSend(a.qp, a.send.ring, 0, sizes.length);
    this.given.push(n === sizes.length ? 'taken' : `refused at ${n}: ${a.send.errno}`);
    a.v.queryQp(a.qp);
    // A worker never learns of a post that is refused as a whole, whereas inline it is a call, in which due timers
    // fire.
    if (n === 0) a.v.pollCq(a.recvCq, a.wc.ring, 0, 1);
  }

  private poll(): number {
    const { a } = this;
    const n = a.v.pollCq(a.sendCq, a.wc.ring, 0, 16);
    for (let i = 0; i < n; i++) {
      if (a.wc.status(i) !== V.IBV_WC_SUCCESS) this.failures++;
      this.given.push(`${a.wc.wrId(i)} ${V.wcStatusName(a.wc.status(i))}`);
    }
    this.events += n;
    return n;
  }

  /** RESET of both ends, or another queue pair on the same CQs. */
  private again(isNew: boolean): void {
    this.ends++;
    for (const end of [this.a, this.b]) {
      if (!isNew) {
        modify(end, { qpState: V.IBV_QPS_RESET });
        continue;
      }
      end.v.destroyQp(end.qp);
      const cap = { maxSendWr: DEPTH, maxRecvWr: 8, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 0 };
      const { sendCq, recvCq } = end;
      const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false };
      const { handle, qpNum } = end.v.createQp(end.pd, attr);
      Object.assign(end, { qp: handle, qpNum });
    }
    connect(this.a, this.b);
  }
}

/** A slot without the fields that its opcode leaves undefined. */
function slotText(words: Uint32Array, at: number): string {
  const sges = words[at + V.WR_OP] >>> 16;
  return words.subarray(at, at + (sges === 0 ? 8 : 12)).join();
}

const policies = {
  // A policy that adapts to observed rates depends on when it samples, which differs between drivers.
  perf: {
    name: 'perf',
    options: { isolation: 'always', waits: 'fixed', subMsgSizeBytes: 1024, zeroWaitUnitBytes: 512 },
  },
  'a pacer, with timers': {
    name: join(import.meta.dirname, '../../examples/policies/token-pacer.mjs'),
    options: { rateBytesPerS: 4e9, burstBytes: 8192 },
  },
};

type Below = (fabric: Fabric) => Interceptor[];

/** In virtual time, requests that a policy issues are sent after a core has spent the time that this takes. */
const onCore =
  (costs: ShimCosts): Below =>
  (fabric) => [new ShimCpu(fabric.simulation.world, 'worker', costs).interceptors(null).below];

const FREE: ShimCosts = { shimPostNs: 0, shimWrNs: 0, handoverNs: 0 };

/** The part of a result that must be the same under every driver. If steps cost time, all times differ. */
const legs: Record<string, Record<string, [DriverName, Below]>> = {
  'at no cost': {
    inline: ['inline', () => []],
    worker: ['worker', () => []],
    'virtual time': ['inline', onCore(FREE)],
  },
  'at its cost': {
    'virtual time': ['inline', onCore(SHIM_COSTS)],
    'worker, virtual time': ['worker', onCore(SHIM_COSTS)],
  },
};

/** Replays one log under every driver and returns the first result of each. */
async function compareLog(spec: PolicySpec, seed: number): Promise<Run[]> {
  const log = record(seed);
  const firsts: Run[] = [];
  for (const [costs, drivers] of Object.entries(legs)) {
    let first: Run | undefined;
    for (const [leg, [driver, below]] of Object.entries(drivers)) {
      const run = await new Run((fabric) => [...policyInterceptors(driver, [spec]), ...below(fabric)]).play(
        log,
      );
      run.close();
      first ??= run;
      const at = `log ${seed}, ${costs}, ${leg}`;
      expect(run.given, at).toEqual(first.given);
      expect(run.issued, at).toEqual(first.issued);
    }
    firsts.push(first as Run);
  }
  return firsts;
}

for (const [name, spec] of Object.entries(policies)) {
  const options = { tags: tagsIf(name !== 'perf'), timeout: 600_000 };
  test(`the same actions under every driver: ${name}, seed ${SEED}`, options, async () => {
    const seen = { events: 0, pieces: 0, failures: 0, ends: 0, timers: 0, delayed: 0 };
    for (let seed = SEED; seen.events < EVENTS / 2; seed++) {
      const [free, dear] = await compareLog(spec, seed);
      seen.events += free.events;
      seen.pieces += free.pieces;
      seen.failures += free.failures;
      seen.ends += free.ends;
      seen.timers += free.timers;
      if (dear.given.join() !== free.given.join()) seen.delayed++;
    }
    console.info(`${name}: ${JSON.stringify(seen)}`);
    const { timers, ...rest } = seen;
    for (const [what, n] of Object.entries(rest)) expect(n, what).toBeGreaterThan(0);
    // Only the pacer depends on its timers.
    if (name !== 'perf') expect(timers, 'timers').toBeGreaterThan(0);
  });
}
