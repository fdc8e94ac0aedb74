/** Random networks as in section III-E: the paper gives ranges, but no distributions; where it gives nothing, see below. */
import type { DrumProblem } from '../../policies/drum/solver/problem.ts';
import { RandomStream } from '../../sim/kernel/random.ts';

/** The size and the utilities of a network. */
export interface NetworkOptions {
  readonly hosts: number;
  readonly apps: number;
  readonly alpha: number;
  /** Whether requests cause completions on up to two other hosts. */
  readonly isTwoSided: boolean;
}

const [LEAST_SELECTED, MOST_SELECTED] = [20, 50];
const DESTINATIONS = 2;

/**
 * From the paper: request rates of 20 to 100 Mops, completion rates of 15 to 50 Mops, 20 to 50 selected applications per
 * host. Assumed: uniform distributions, weights of 1 to 4, batches of 1 to 5 requests per completion, and beta = 1.
 */
export function networkOf({ hosts, apps, alpha, isTwoSided }: NetworkOptions, seed: number): DrumProblem {
  const random = new RandomStream(seed, 'drum-network');
  const between = (low: number, high: number) => low + (high - low) * random.next();
  const start = new Int32Array(hosts + 1);
  const app: number[] = [];
  const weights: number[] = [];
  const requestRate = new Float64Array(hosts);
  const completionRate = new Float64Array(hosts);
  const all = new Float64Array(apps);
  const order = Int32Array.from({ length: apps }, (_, j) => j);
  for (let host = 0; host < hosts; host++) {
    for (let j = 0; j < apps; j++) all[j] = between(1, 4);
    const many = Math.min(apps, Math.floor(between(LEAST_SELECTED, MOST_SELECTED + 1)));
    // The largest weights, as the selector ranks applications that have not waited.
    const least = all.slice().sort()[apps - many];
    for (const j of order) {
      if (all[j] < least) continue;
      app.push(j);
      weights.push(all[j]);
    }
    start[host + 1] = app.length;
    requestRate[host] = between(20, 100);
    completionRate[host] = between(15, 50);
  }
  const completions = Float64Array.from(app, () => 1 / Math.floor(between(1, 6)));
  return {
    hosts,
    start,
    app: Int32Array.from(app),
    alpha,
    beta: 1,
    capacity: 'linear',
    weights: Float64Array.from(weights),
    completions,
    requestRate,
    completionRate,
    ...(isTwoSided && { traffic: trafficOf(hosts, completions, between) }),
  };
}

/** Half of the requests of each application to each of two hosts, with the sender's completions per request. */
function trafficOf(hosts: number, completions: Float64Array, between: (low: number, high: number) => number) {
  const variables = completions.length;
  const host = new Int32Array(variables * DESTINATIONS);
  const perRequest = new Float64Array(variables * DESTINATIONS);
  for (let v = 0; v < variables; v++) {
    const first = Math.floor(between(0, hosts));
    host[DESTINATIONS * v] = first;
    host[DESTINATIONS * v + 1] = (first + 1 + Math.floor(between(0, hosts - 1))) % hosts;
    perRequest.fill(completions[v] / DESTINATIONS, DESTINATIONS * v, DESTINATIONS * (v + 1));
  }
  return { start: Int32Array.from({ length: variables + 1 }, (_, v) => v * DESTINATIONS), host, perRequest };
}
