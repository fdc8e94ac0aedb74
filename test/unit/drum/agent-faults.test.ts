// The agents of drum among peers that die, are cut off or lie, and what arrives from programs. A failure prints the seed.
import { describe, expect, test } from 'vitest';
import { ANSWERS, REPORTS } from '../../../src/policies/drum/agent/messages.ts';
import type { TermRules } from '../../../src/policies/drum/agent/terms.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';
import { AgentNetwork, type App } from './agent-network.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 1);
const MS = 1e6;
const MOPS = 1e6;
const HEADER = 5;

/** Two senders and a receiver that polls 30 Mops. */
function ground(more: Partial<TermRules> = {}, seed = SEED) {
  const rules = { alpha: 1, beta: 0, requestsPerS: 100 * MOPS, completionsPerS: 100 * MOPS, ...more };
  const network = new AgentNetwork([rules, rules, { ...rules, completionsPerS: 30 * MOPS }], seed);
  const [a, b, c] = network.hosts;
  return { network, a, b, c };
}

const near = (value: number) => expect.closeTo(value, 1);

describe('an agent that dies between two steps', () => {
  test.each([0, 1, 2])(
    'on host %d: the others go on without it, and with it after it has restarted',
    (dead) => {
      // A step takes 2 us.
      for (let afterNs = 500; afterNs < 40_000; afterNs += 2300) {
        const { network, a, b } = ground();
        const apps = [a.add('x', 1, { 2: 1 }), b.add('y', 2, { 2: 1 })];
        const rates = () =>
          apps.map(
            (app, host) => network.hosts[host].rates.has(app.page.row) && network.hosts[host].rateOf(app),
          );
        network.advance(afterNs);
        network.hosts[dead].die();
        network.advance(100 * MS);
        const alone = dead === 2 ? [100, 100] : [30, 30];
        const context = `after ${afterNs} ns`;
        expect(rates(), context).toEqual([0, 1].map((host) => (host === dead ? false : near(alone[host]))));
        network.hosts[dead].restart();
        if (dead < 2) network.hosts[dead].tell(apps[dead]);
        network.advance(300 * MS);
        expect(rates(), context).toEqual([near(10), near(20)]);
        const { sent } = network;
        network.advance(100 * MS);
        expect(network.sent, context).toBe(sent);
      }
    },
  );

  test('an agent that restarts before peers have noticed is heard at once', () => {
    const { network, a, b } = ground();
    const apps = [a.add('x', 1, { 2: 1 }), b.add('y', 2, { 2: 1 })];
    network.advance(10 * MS);
    a.die();
    network.advance(MS);
    a.restart();
    a.tell(apps[0]);
    network.advance(30 * MS);
    expect([a.rateOf(apps[0]), b.rateOf(apps[1])]).toEqual([near(10), near(20)]);
  });
});

test('hosts that cannot reach each other share with those that they reach, and with all once they can', () => {
  const { network, a, b, c } = ground();
  const apps = [a.add('x', 1, { 2: 1 }), b.add('y', 2, { 2: 1 }), c.add('z', 3)];
  const rates = () => apps.map((app, host) => network.hosts[host].rateOf(app));
  network.advance(20 * MS);
  expect(rates()).toEqual([near(5), near(10), near(15)]);
  network.reaches = (from, to) => (from === 0) === (to === 0);
  network.advance(100 * MS);
  expect(rates()).toEqual([near(100), near(12), near(18)]);
  network.reaches = () => true;
  network.advance(200 * MS);
  expect(rates()).toEqual([near(5), near(10), near(15)]);
});

test('an application that no longer sends to a host leaves its share, even if messages are lost', () => {
  for (let seed = SEED; seed < SEED + 10; seed++) {
    const { network, a, b } = ground({}, seed);
    network.treatment.lossPart = 0.1;
    const [x, y] = [a.add('x', 1, { 2: 1 }), b.add('y', 2, { 2: 1 })];
    network.advance(200 * MS);
    expect(b.rateOf(y), `seed ${seed}`).toBeCloseTo(20, 1);
    x.to = new Map();
    a.tell(x);
    network.advance(200 * MS);
    expect([a.rateOf(x), b.rateOf(y)], `seed ${seed}`).toEqual([near(100), near(30)]);
  }
});

describe('a host that reports more completions than its applications cause', () => {
  /** Rewrites the entries of host 1's reports. */
  const lie = (change: (entry: Float64Array) => void) => (from: number, _to: number, words: Float64Array) => {
    const copy = words.slice();
    if (from === 1 && copy[0] === REPORTS)
      for (let i = HEADER; i < copy.length; i += 5) change(copy.subarray(i, i + 5));
    return copy;
  };

  for (const [alpha, beta] of [
    [1, 0],
    [2, 0],
    [0.5, 0],
    [1, 50],
  ]) {
    test.each([25, 40, 1000, 1e6])(
      `%d Mops, alpha ${alpha}, beta ${beta}: the other host keeps the share of its weight`,
      (mops) => {
        const fair = (() => {
          const { network, a, b } = ground({ alpha, beta });
          const x = a.add('x', 1, { 2: 1 });
          b.add('y', 2, { 2: 1 });
          network.advance(100 * MS);
          return a.rateOf(x);
        })();
        const { network, a, b } = ground({ alpha, beta });
        network.rewrite = lie((entry) => {
          entry[1] = mops;
        });
        const x = a.add('x', 1, { 2: 1 });
        b.add('y', 2, { 2: 1 });
        network.advance(3000 * MS);
        // With beta, the bound allows for what fast completions elsewhere may be worth.
        expect(a.rateOf(x)).toBeGreaterThan(fair * (beta > 0 ? 0.6 : 0.99));
      },
    );
  }

  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, 1e300])('is ignored with %d in any word', (value) => {
    for (let word = 0; word < 5; word++) {
      const { network, a, b } = ground();
      network.rewrite = lie((entry) => {
        entry[word] = value;
      });
      const x = a.add('x', 1, { 2: 1 });
      b.add('y', 2, { 2: 1 });
      network.advance(200 * MS);
      expect(a.rateOf(x), `word ${word}`).toBeCloseTo(30, 1);
    }
  });

  test('a receiver with arbitrary answers holds back only what is sent to it', () => {
    for (const [asked, rho] of [
      [-1e6, 1e30],
      [1e6, 1e30],
      [0, 1e-30],
    ]) {
      const { network, a } = ground();
      network.rewrite = (from, _to, words) => {
        const copy = words.slice();
        if (from === 2 && copy[0] === ANSWERS)
          for (let i = HEADER; i < copy.length; i += 4) [copy[i + 1], copy[i + 2]] = [asked, rho];
        return copy;
      };
      const [x, y] = [a.add('x', 1, { 2: 1 }), a.add('y', 1, { 1: 1 })];
      network.advance(3000 * MS);
      expect(a.rateOf(x)).toBeGreaterThanOrEqual(0);
      expect(a.rateOf(x)).toBeLessThanOrEqual(100.1);
      // It never gets less than with an honest receiver that polls at any rate.
      if (asked < 1e6) expect(a.rateOf(y)).toBeGreaterThan(49);
    }
  });
});

test('whatever programs and peers send, agents do not fail, and rates fit the host', () => {
  for (let seed = SEED; seed < SEED + 20; seed++) {
    const random = new RandomStream(seed, 'words');
    const { network, a, b } = ground({}, seed);
    const values = [0, 1, -1, 2, 5, 1e6, 1e300, Number.NaN, Number.POSITIVE_INFINITY, 0.5, 2 ** 53];
    const any = () =>
      random.next() < 0.3 ? random.next() * 100 : values[Math.floor(random.next() * values.length)];
    const words = () => Float64Array.from({ length: Math.floor(random.next() * 101) }, any);
    const x: App = a.add('x', 1, { 2: 1 });
    b.add('y', 2, { 2: 1 });
    const other = a.coordinator.join('other')!;
    for (let i = 0; i < 400; i++) {
      a.agent.onTold(other.row, words(), a.out);
      const forged = words();
      if (forged.length > 4) forged.set([1 + (i % 2), i, i % 2, 0, 1]);
      a.agent.onMessage(1 + (i % 2), forged, a.out);
      network.advance(random.next() * 0.2 * MS);
    }
    network.advance(100 * MS);
    const rate = a.rateOf(x);
    expect(rate > 0 && rate <= 100.1, `seed ${seed}: ${rate}`).toBe(true);
  }
});

test('in a daemon, a program that reports without pause makes the agents solve only now and then', () => {
  const sentIn = (isRemote: boolean) => {
    const rules = { alpha: 1, beta: 0, requestsPerS: 100 * MOPS, completionsPerS: 100 * MOPS };
    const network = new AgentNetwork([rules, { ...rules, completionsPerS: 30 * MOPS }], SEED, isRemote);
    const [a] = network.hosts;
    const apps = Array.from({ length: 100 }, (_, i) => a.add(`app ${i}`, 1, { 1: 1 }));
    network.advance(50 * MS);
    expect(a.rateOf(apps[0])).toBeCloseTo(0.3, 3);
    const before = network.sent;
    for (let i = 0; i < 40; i++) {
      a.tell(apps[0], i % 2 === 0);
      network.advance(0.5 * MS);
    }
    const sent = network.sent - before;
    network.advance(50 * MS);
    expect(a.rateOf(apps[1])).toBeCloseTo(30 / 99, 3);
    return sent;
  };
  expect(sentIn(true)).toBeLessThan(sentIn(false) / 4);
});
