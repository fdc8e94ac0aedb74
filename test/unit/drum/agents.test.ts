// The agents of drum reach the rates of the central solver. A failure prints the seed.
// @module-tag wide
import { describe, expect, test } from 'vitest';
import type { TermRules } from '../../../src/policies/drum/agent/terms.ts';
import { solve } from '../../../src/policies/drum/solver/solve.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';
import { AgentNetwork, type Treatment } from './agent-network.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 1);
const MS = 1e6;
const MOPS = 1e6;

const terms = (more: Partial<TermRules> = {}): TermRules => ({
  ...{ alpha: 1, beta: 0, requestsPerS: 100 * MOPS, completionsPerS: 100 * MOPS },
  ...more,
});

test('an application that sends to another host has the rate at which that host polls', () => {
  const network = new AgentNetwork([terms(), terms({ completionsPerS: 30 * MOPS })], SEED);
  const [a, b] = network.hosts;
  const app = a.add('x', 1, { 1: 1 });
  network.advance(20 * MS);
  expect(a.rateOf(app)).toBeCloseTo(30, 1);
  expect(a.rates.get(app.page.row)!.isHeldBack).toBe(true);
  const { sent } = network;
  network.advance(100 * MS);
  expect(network.sent, 'agents rest while nothing changes').toBe(sent);
  const other = b.add('x', 1);
  network.advance(20 * MS);
  expect([a.rateOf(app), b.rateOf(other)]).toEqual([expect.closeTo(15, 1), expect.closeTo(15, 1)]);
  b.leave(other);
  network.advance(20 * MS);
  expect(a.rateOf(app)).toBeCloseTo(30, 1);
});

/** Hosts with random capacities, and applications that send to two of them. */
function mesh(seed: number, hosts: number, apps: number, alpha: number, beta: number) {
  const random = new RandomStream(seed, 'mesh');
  const rules = Array.from({ length: hosts }, () =>
    terms({
      ...{ alpha, beta },
      requestsPerS: (20 + 80 * random.next()) * MOPS,
      completionsPerS: (15 + 35 * random.next()) * MOPS,
    }),
  );
  const variables = Array.from({ length: hosts * apps }, (_, v) => {
    const host = Math.floor(v / apps);
    const near = (host + 1 + Math.floor(random.next() * (hosts - 1))) % hosts;
    const far = (host + 1 + Math.floor(random.next() * (hosts - 1))) % hosts;
    const part = 0.1 + 0.4 * random.next();
    const to: Record<number, number> = near === far ? { [near]: 1 } : { [near]: part, [far]: 1 - part };
    return { host, app: v % apps, weight: 0.5 + 1.5 * random.next(), to };
  });
  return { rules, variables };
}

type Mesh = ReturnType<typeof mesh>;

/** The rates of the central solver, in millions per second. */
function centralRates({ rules, variables }: Mesh): number[] {
  const perHost = variables.length / rules.length;
  const entries = variables.map(({ to }) => Object.entries(to));
  const start = [0];
  for (const one of entries) start.push(start.at(-1)! + one.length);
  const { rates, converged } = solve(
    {
      hosts: rules.length,
      start: Int32Array.from({ length: rules.length + 1 }, (_, i) => i * perHost),
      app: Int32Array.from(variables, ({ app }) => app),
      ...{ alpha: rules[0].alpha, beta: rules[0].beta, capacity: 'linear' },
      weights: Float64Array.from(variables, ({ weight }) => weight),
      completions: new Float64Array(variables.length).fill(1),
      requestRate: Float64Array.from(rules, ({ requestsPerS }) => requestsPerS / MOPS),
      completionRate: Float64Array.from(rules, ({ completionsPerS }) => completionsPerS / MOPS),
      traffic: {
        start: Int32Array.from(start),
        host: Int32Array.from(entries.flatMap((one) => one.map(([to]) => Number(to)))),
        perRequest: Float64Array.from(entries.flatMap((one) => one.map(([, per]) => per))),
      },
    },
    { tolerance: 1e-9, mostIterations: 20_000 },
  );
  expect(converged).toBe(true);
  return [...rates];
}

const farthest = (rates: readonly number[], expected: readonly number[]) =>
  Math.max(...rates.map((rate, i) => Math.abs(rate / expected[i] - 1)));

describe('agents of several hosts reach the rates of the central solver within 1 %', () => {
  const CASES: [string, Partial<Treatment>, number][] = [
    ['without loss', {}, 50],
    ['with 1 % of the messages lost', { lossPart: 0.01 }, 200],
    ['with 10 % of the messages lost', { lossPart: 0.1 }, 500],
    ['with messages that overtake each other', { jitterNs: 10_000 }, 50],
    ['with messages that take longer than a window', { jitterNs: 2 * MS }, 3000],
    ['with all of this', { jitterNs: 10_000, lossPart: 0.1 }, 500],
  ];
  const SEEDS = Array.from({ length: 6 }, (_, i) => SEED + i);

  test.each(CASES)('%s', (_, treatment, ms) => {
    for (const seed of SEEDS) {
      const [alpha, beta] = [[0.5, 1, 2][seed % 3], seed % 2 === 0 ? 0 : 100];
      const given = mesh(seed, 4, 3, alpha, beta);
      const network = new AgentNetwork(given.rules, seed);
      Object.assign(network.treatment, treatment);
      const apps = given.variables.map(({ host, app, weight, to }) =>
        network.hosts[host].add(`app ${app}`, weight, to),
      );
      network.advance(ms * MS);
      const rates = apps.map((app, v) => network.hosts[given.variables[v].host].rateOf(app));
      const far = farthest(rates, centralRates(given));
      expect(far, `seed ${seed}`).toBeLessThan(0.01);
    }
  });
});
