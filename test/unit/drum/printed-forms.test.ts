// The equations as the paper prints them are mutants: the tests of the correct forms must reject them.
import { describe, expect, test } from 'vitest';
import { OneSided } from '../../../src/policies/drum/solver/one-sided.ts';
import { logsumRoot, rateRoot } from '../../../src/policies/drum/solver/roots.ts';
import { TwoSided } from '../../../src/policies/drum/solver/two-sided.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';
import { interiorOptimum } from './interior-point.ts';
import { optimumOf } from './oracle.ts';
import { problemOf } from './problems.ts';

interface Step {
  alpha: number;
  w: number;
  rho: number;
  a: number;
  u: number;
  z: number;
  lambda: number;
}

/** The augmented Lagrangian of one x, with the capacity as lambda log x. */
const phi = ({ alpha, w, rho, a, u, z, lambda }: Step, x: number) =>
  (alpha === 1 ? -w * Math.log(x) : (-w * x ** (1 - alpha)) / (1 - alpha)) +
  u * (a * x - z) +
  (rho / 2) * (a * x - z) ** 2 +
  lambda * Math.log(x);

/** The derivative by finite differences, relative to the size of its parts. */
function slope(step: Step, x: number): number {
  const h = 1e-6 * x;
  const { rho, a, u, z, w, alpha, lambda } = step;
  const size = rho * a * (a * x + z) + Math.abs(a * u) + w * x ** -alpha + lambda / x;
  return Math.abs(phi(step, x + h) - phi(step, x - h)) / (2 * h) / size;
}

function steps(seed: number, alpha: number): Step[] {
  const random = new RandomStream(seed, 'printed');
  const one = () => 0.2 + 2 * random.next();
  return Array.from({ length: 200 }, () => {
    const [w, rho, a, z] = [one(), 5 * one(), one(), 1 + one()];
    return { alpha, w, rho, a, z, u: random.next() - 0.5, lambda: 0.2 * random.next() };
  });
}

const root = ({ alpha, w, rho, a, u, z, lambda }: Step) =>
  logsumRoot(alpha, w, rho * a * a, a * (u - rho * z), lambda, z / a, 1e-12);

/** Coefficients of theorem 2 as printed. */
const printed = ({ rho, a, u, z, lambda }: Step) => ({ b: -rho * a * a, c: rho * a * z + a * u, d: lambda });

/** How many of the points are stationary. */
const stationary = (all: readonly Step[], point: (step: Step) => number) =>
  all.filter((step) => {
    const x = point(step);
    return x > 0 && slope(step, x) < 1e-6;
  }).length;

describe('theorem 2, the x-step with a bound on the sum of logarithms', () => {
  test('the roots of the solver are stationary', () => {
    for (const alpha of [1, 2, 3]) expect(stationary(steps(1, alpha), root), `alpha ${alpha}`).toBe(200);
  });

  test('case 1 as printed, for applications without utility, is not stationary', () => {
    const idle = steps(2, 1).map((step) => ({ ...step, w: 0 }));
    expect(stationary(idle, root)).toBe(200);
    const point = (step: Step) => {
      const { b, c, d } = printed(step);
      return -c / 2 + Math.sqrt(c * c - 4 * b * d) / b;
    };
    expect(stationary(idle, point)).toBe(0);
  });

  test('case 3 as printed is not stationary', () => {
    for (const alpha of [1, 2]) {
      const point = (step: Step) => {
        const { b, c, d } = printed(step);
        let x = step.z / step.a;
        for (let i = 0; i < 500; i++) x = Math.cbrt(b * x * x - c * x - d);
        return x;
      };
      expect(stationary(steps(3, alpha), point)).toBe(0);
    }
  });

  test('case 2 as printed is not stationary, the same quartic with the signs of c and d corrected and squared is', () => {
    const all = steps(4, 0.5).map((step) => ({ ...step, w: 1, lambda: 0 }));
    const quartic = (b: number, c: number, d: number) => {
      let [low, high] = [1e-9, 1e3];
      for (let i = 0; i < 200; i++) {
        const t = (low + high) / 2;
        if (b * t ** 4 + c * t ** 2 + t + d > 0) low = t;
        else high = t;
      }
      return low;
    };
    const asPrinted = (step: Step) => {
      const { b, c, d } = printed(step);
      return Math.sqrt(quartic(b, c, d));
    };
    const corrected = ({ rho, a, u, z, lambda }: Step) =>
      quartic(-rho * a * a, rho * a * z - a * u, -lambda) ** 2;
    expect(stationary(all, asPrinted)).toBe(0);
    expect(stationary(all, corrected)).toBe(200);
    for (const step of all) {
      const { w, rho, a, u, z } = step;
      const x = rateRoot(0.5, w, rho * a * a, a * (u - rho * z), 1);
      expect(Math.abs(x / corrected(step) - 1)).toBeLessThan(1e-9);
    }
  });
});

test('theorem 3, the z-step: the root of the solver is stationary, the printed equation is not', () => {
  const random = new RandomStream(5, 'z-step');
  for (let i = 0; i < 200; i++) {
    const [rho, beta, ax, u] = [1 + 5 * random.next(), 0.5, 1 + random.next(), random.next() - 0.5];
    const of = (z: number) => beta / (z * z) + u * (ax - z) + (rho / 2) * (ax - z) ** 2;
    const slopeAt = (z: number) => Math.abs(of(z + 1e-6) - of(z - 1e-6)) / 2e-6;
    expect(slopeAt(rateRoot(3, 2 * beta, rho, -(u + rho * ax), 1))).toBeLessThan(1e-6);
    // With lambda = 0: (rho + u) z - 2 z^-3 - rho a x = 0.
    expect(slopeAt(rateRoot(3, 2, rho + u, -rho * ax, 1))).toBeGreaterThan(1e-4);
  }
});

test('equation (9), u + rho (F(x) + z), diverges', () => {
  const problem = problemOf(1, { hosts: 1, apps: 4, capacity: 'linear', alpha: 1, beta: 1, destinations: 0 });
  const optimum = optimumOf(problem);
  class Printed extends OneSided {
    override step(): void {
      const before = this.u.slice();
      super.step();
      const { completions } = this.problem;
      for (let v = 0; v < before.length; v++)
        this.u[v] = before[v] + this.rho[v] * (completions[v] * this.x[v] + this.z[v]);
    }
  }
  const far = (iteration: OneSided) => {
    for (let k = 0; k < 60; k++) iteration.step();
    const rates = iteration.rates(new Float64Array(4));
    return Math.max(...rates.map((rate, v) => Math.abs(rate / optimum[v] - 1)));
  };
  expect(far(new OneSided(problem))).toBeLessThan(1e-6);
  expect(far(new Printed(problem))).toBeGreaterThan(0.1);
});

test('equation (21) with one destination: the residual falls, and the point is wrong', () => {
  const problem = problemOf(6, { hosts: 4, apps: 3, capacity: 'linear', alpha: 1, beta: 1, destinations: 3 });
  const optimum = interiorOptimum(problem);
  const far = (iteration: TwoSided) => {
    for (let k = 0; k < 1500; k++) iteration.step();
    const rates = iteration.rates(new Float64Array(12));
    return Math.max(...rates.map((rate, v) => Math.abs(rate / optimum[v] - 1)));
  };
  /** Rows of other hosts ask for nothing: their terms are missing from the x-step. */
  class Printed extends TwoSided {
    override step(): void {
      const { sent, asked } = this as unknown as Record<'sent' | 'asked', Float64Array>;
      asked.set(sent);
      super.step((round) => round % 2 === 1);
    }
  }
  expect(far(new TwoSided(problem))).toBeLessThan(1e-6);
  expect(far(new Printed(problem))).toBeGreaterThan(0.05);
});
