/**
 * Measures how DRUM's solver converges at the largest size of the paper: 10,000 hosts with 5,000 applications each. Prints
 * JSON with the iterations to 99.5 % of the optimum for each seed, and their spread; the time of a seed, optimum included;
 * and the peak memory of the process. ISOVERBS_ROUNDS sets the number of seeds.
 */
import { convergence } from '#src/papers/drum/convergence.ts';
import { number } from '#src/papers/engine/values.ts';

const SIZE = { hosts: 10_000, apps: 5000 };
const ITERATIONS = 40;
const SEEDS = Number(process.env.ISOVERBS_ROUNDS ?? 3);
const GOALS = { iterations: 20, spread: 2, memoryGb: 8 };
const KB_PER_GB = 1e6;

interface Measured {
  readonly alpha: number;
  readonly iterations: readonly number[];
  readonly spread: number;
  readonly seconds: readonly number[];
}

function measure(sides: 'one' | 'two', alpha: number): Measured {
  const [iterations, seconds]: [number[], number[]] = [[], []];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const from = performance.now();
    const values = convergence({ ...SIZE, alpha, sides, iterations: ITERATIONS }, seed);
    iterations.push(number(values, 'enough'));
    seconds.push(Math.round((performance.now() - from) / 100) / 10);
    process.stderr.write(`${sides}-sided, alpha ${alpha}, seed ${seed}: ${iterations.at(-1)} iterations\n`);
  }
  return { alpha, iterations, spread: Math.max(...iterations) - Math.min(...iterations), seconds };
}

const oneSided = [0.5, 1, 2].map((alpha) => measure('one', alpha));
const twoSided = [1, 2].map((alpha) => measure('two', alpha));
const memoryGb = Math.round(process.resourceUsage().maxRSS / (KB_PER_GB / 100)) / 100;
console.log(
  JSON.stringify(
    { benchmark: 'drum-large', node: process.version, ...SIZE, goals: GOALS, oneSided, twoSided, memoryGb },
    null,
    2,
  ),
);
