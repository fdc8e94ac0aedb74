/** A scheduler by queue pair that is not part of the simulator: it plugs in as one object. */
import { expect, test } from 'vitest';
import type { QpScheduler } from '../../src/sim/egress/qp-scheduler.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import type { Qp, Sender } from '../../src/sim/transport/qp.ts';
import { Lab } from './apps.ts';

/** Weighted round robin by bytes: a sender keeps the head until it has sent its weight's worth. */
class WeightedRound implements QpScheduler {
  /** Two packets: what is admitted keeps its order. */
  readonly fifoBytes = 8356;
  private readonly ready: Sender[] = [];
  private readonly weightOf: (qp: Qp) => number;
  /** The sender of the current turn, and what it may still send. */
  private last: Sender | null = null;
  private leftBytes = 0;

  constructor(weightOf: (qp: Qp) => number) {
    this.weightOf = weightOf;
  }

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    if (this.last === sender) this.ready.unshift(sender);
    else this.ready.push(sender);
  }

  next(): Sender | null {
    return this.ready[0] ?? null;
  }

  charge(bytes: number): void {
    const sender = this.ready.shift()!;
    sender.queued = false;
    if (this.last !== sender) this.leftBytes = 4178 * this.weightOf(sender.qp);
    this.last = sender;
    this.leftBytes -= bytes;
    if (this.leftBytes <= 0) this.last = null;
  }

  ended(sender: Sender): void {
    const at = this.ready.indexOf(sender);
    if (at >= 0) this.ready.splice(at, 1);
  }
}

/** Lets one packet go each `gapNs`, whatever is ready. */
class Gate implements QpScheduler {
  wakeNs = Number.POSITIVE_INFINITY;
  readonly admittedNs: number[] = [];
  private readonly ready: Sender[] = [];
  private nowNs = 0;
  private openNs = 0;
  private readonly gapNs: number;

  constructor(gapNs: number) {
    this.gapNs = gapNs;
  }

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    this.ready.push(sender);
  }

  next([nowNs]: Float64Array): Sender | null {
    this.nowNs = nowNs;
    const isOpen = nowNs >= this.openNs;
    this.wakeNs = isOpen || this.ready.length === 0 ? Number.POSITIVE_INFINITY : this.openNs;
    return isOpen ? (this.ready[0] ?? null) : null;
  }

  charge(bytes: number): void {
    this.ready.shift()!.queued = false;
    if (bytes === 0) return;
    this.admittedNs.push(this.nowNs);
    this.openNs = this.nowNs + this.gapNs;
  }

  ended(): void {}
}

const PARAMS = override(PROFILES['cx6-100g'], { pcieJitter: 0 });
const LARGE = { size: 65536, depth: 8, batch: 1 };

test.each(['rr', 'ets'])('shares follow the weights within a class, %s', (scheduler) => {
  const lab: Lab = new Lab({
    params: override(PARAMS, { scheduler }),
    qpScheduler: () =>
      new WeightedRound((qp) => (qp === lab.sim.world.qps.find((first) => first !== undefined) ? 3 : 1)),
  });
  const apps = [lab.add(LARGE), lab.add(LARGE)];
  lab.run(2e6);
  const [a, b] = apps.map(({ gbps }) => gbps);
  expect(a / b).toBeCloseTo(3, 1);
  expect(a + b).toBeGreaterThan(95);
});

test('a scheduler that holds all senders back is asked again at wakeNs', () => {
  const gates: Gate[] = [];
  const lab = new Lab({
    params: PARAMS,
    qpScheduler: () => {
      gates.push(new Gate(10_000));
      return gates.at(-1)!;
    },
  });
  lab.add(LARGE);
  lab.add(LARGE);
  lab.run(1e6);
  const admittedNs = gates.flatMap((gate) => gate.admittedNs);
  expect(admittedNs.length).toBeGreaterThan(150);
  const gapsNs = admittedNs.slice(1).map((ns, i) => ns - admittedNs[i]);
  for (const gapNs of gapsNs) expect(gapNs).toBeCloseTo(10_000, 6);
});

test('a scheduler hears of work before its first packet, and of queue pairs that end', () => {
  const heard: string[] = [];
  class Listener extends WeightedRound {
    began(): void {
      if (heard.at(-1) !== 'began') heard.push('began');
    }
    override join(sender: Sender): void {
      if (heard.at(-1) === 'began') heard.push('join');
      super.join(sender);
    }
    override ended(sender: Sender): void {
      if (heard.at(-1) !== 'ended') heard.push('ended');
      super.ended(sender);
    }
  }
  const lab = new Lab({ params: PARAMS, qpScheduler: () => new Listener(() => 1) });
  lab.add({ ...LARGE, depth: 1 });
  lab.run(1e5);
  lab.sim.destroyQp(lab.sim.world.qps.find((qp) => qp !== undefined)!);
  expect(heard.slice(0, 2)).toEqual(['began', 'join']);
  expect(heard.at(-1)).toBe('ended');
});
