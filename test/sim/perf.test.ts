/**
 * The policy `perf` on the minimal NIC, through the whole seam: applications post and poll, and the shim cuts.
 * Expected values are those of a second, independent model of the same NIC (docs/policies/perf.md); they and
 * their tolerances were written down before the first run, and the NIC was fixed before the policy.
 */
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd } from './helpers.ts';

interface AppOptions {
  size: number;
  batch: number;
  depth: number;
}

const B: AppOptions = { size: 1 << 20, batch: 1, depth: 4 };
const M: AppOptions = { size: 16, batch: 32, depth: 128 };
const D: AppOptions = { size: 16, batch: 1, depth: 1 };
const WARMUP_NS = 0.5e6;
const DURATION_NS = 4e6;

/** A closed loop on one queue pair from host 0 to host 1; completions are awaited by event. */
class App {
  completed = 0;
  readonly latenciesNs: number[] = [];
  private readonly fabric: Fabric;
  private readonly end: End;
  private readonly peer: End;
  private readonly o: AppOptions;
  private postedNs = 0;
  private stopped = false;

  constructor(fabric: Fabric, provider: V.Provider, o: AppOptions) {
    const wrapped = { ...fabric, provider } as Fabric;
    this.fabric = fabric;
    this.o = o;
    const ends = [0, 1].map((host) =>
      makeEnd(wrapped, host, { bytes: Math.max(o.size, 4096), cap: { maxSendWr: o.depth }, event: true }),
    );
    [this.end, this.peer] = ends;
    connect(this.end, this.peer);
  }

  start(): void {
    const { v, channel } = this.end;
    v.watchCompChannel(channel, () => this.onEvent());
    for (let i = 0; i < this.o.depth; i += this.o.batch) this.post();
    v.reqNotifyCq(this.end.sendCq, false);
  }

  stop(): void {
    this.stopped = true;
  }

  private onEvent(): void {
    const { v, sendCq, wc } = this.end;
    v.reqNotifyCq(sendCq, false);
    for (let n = 1; n > 0; ) {
      n = v.pollCq(sendCq, wc.ring, 0, 64);
      for (let i = 0; i < n; i++) {
        expect(wc.status(i)).toBe(V.IBV_WC_SUCCESS);
        const { nowNs } = this.fabric;
        if (nowNs > WARMUP_NS && !this.stopped) {
          this.completed += this.o.batch;
          if (this.o.depth === 1) this.latenciesNs.push(nowNs - this.postedNs);
        }
        if (!this.stopped) this.post();
      }
    }
  }

  private post(): void {
    const { v, qp, send, mr } = this.end;
    const { batch, size } = this.o;
    send.clear();
    for (let i = 0; i < batch; i++) {
      const flags = i === batch - 1 ? V.IBV_SEND_SIGNALED : 0;
      send.write(i, flags, mr.addr, size, mr.lkey, this.peer.mr.addr, this.peer.mr.rkey);
    }
    this.postedNs = this.fabric.nowNs;
    expect(v.postSend(qp, send.ring, 0, batch)).toBe(batch);
  }
}

async function run(policy: string | null, apps: Record<string, AppOptions>) {
  const fabric = createFabric({ seed: 1, autoAdvance: false });
  const provider = compose(fabric.provider, policy === null ? [] : [createPolicy(policy)]);
  const running = Object.fromEntries(
    Object.entries(apps).map(([name, o]) => [name, new App(fabric, provider, o)]),
  );
  for (const app of Object.values(running)) app.start();
  await fabric.advance(WARMUP_NS + DURATION_NS);
  for (const app of Object.values(running)) app.stop();
  await fabric.run();
  expect(fabric.brokenInvariants()).toEqual([]);
  const of = (name: string) => {
    const { completed, latenciesNs } = running[name];
    return {
      gbps: (completed * apps[name].size * 8) / DURATION_NS,
      mmps: (completed * 1000) / DURATION_NS,
      meanNs: latenciesNs.reduce((sum, ns) => sum + ns, 0) / latenciesNs.length,
    };
  };
  return Object.fromEntries(Object.keys(apps).map((name) => [name, of(name)]));
}

test('B + D: B keeps 95.6 Gbps, D waits 60 % less than bare', async () => {
  const bare = await run(null, { B, D });
  const perf = await run('perf', { B, D });
  expect(perf.B.gbps).toBeGreaterThan(95.6 * 0.98);
  expect(perf.D.meanNs).toBeLessThan(bare.D.meanNs * 0.4);
});

test('B + M: B keeps 87 Gbps, M has 9 M messages/s instead of 2.9', async () => {
  const bare = await run(null, { B, M });
  const perf = await run('perf', { B, M });
  expect(bare.M.mmps).toBeLessThan(3.1);
  expect(perf.B.gbps).toBeGreaterThan(87);
  expect(perf.M.mmps).toBeGreaterThan(9);
});

test('D alone behaves as without a policy', async () => {
  const bare = await run(null, { D });
  const perf = await run('perf', { D });
  expect(perf.D).toEqual(bare.D);
});
