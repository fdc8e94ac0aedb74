// Seeded problems.
import type { Capacity, DrumProblem, Traffic } from '../../../src/policies/drum/solver/problem.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';

export interface Shape {
  hosts: number;
  apps: number;
  capacity: Capacity;
  alpha: number;
  beta: number;
  /** Destinations per application; 0: one-sided. */
  destinations: number;
}

const between = (random: RandomStream, low: number, high: number) => low * (high / low) ** random.next();

/** Weights of 1/2 to 2, 1 to 10 requests per completion, and the rates of the paper, in Mops. */
export function problemOf(seed: number, { hosts, apps, destinations, ...rest }: Shape): DrumProblem {
  const random = new RandomStream(seed, 'drum');
  const size = hosts * apps;
  const column = (length: number, low: number, high: number) =>
    Float64Array.from({ length }, () => between(random, low, high));
  const completions = column(size, 0.1, 1);
  return {
    hosts,
    start: Int32Array.from({ length: hosts + 1 }, (_, i) => i * apps),
    app: Int32Array.from({ length: size }, (_, v) => v % apps),
    weights: column(size, 0.5, 2),
    completions,
    requestRate: column(hosts, 20, 100),
    completionRate: column(hosts, 15, 50),
    ...(destinations > 0 && { traffic: trafficOf(random, hosts, apps, destinations, completions) }),
    ...rest,
  };
}

/** Distinct destinations with random shares, under the completions per request of the receiver. */
function trafficOf(
  random: RandomStream,
  hosts: number,
  apps: number,
  destinations: number,
  completions: Float64Array,
): Traffic {
  const [host, perRequest]: [number[], number[]] = [[], []];
  const start = [0];
  for (let v = 0; v < hosts * apps; v++) {
    const many = Math.min(1 + Math.floor(random.next() * destinations), hosts);
    const chosen = new Set<number>();
    while (chosen.size < many) chosen.add(Math.floor(random.next() * hosts));
    const parts = [...chosen].map(() => 0.2 + random.next());
    const whole = parts.reduce((a, b) => a + b, 0);
    for (const [k, one] of [...chosen].entries()) {
      host.push(one);
      perRequest.push((completions[one * apps + (v % apps)] * parts[k]) / whole);
    }
    start.push(host.length);
  }
  return {
    start: Int32Array.from(start),
    host: Int32Array.from(host),
    perRequest: Float64Array.from(perRequest),
  };
}
