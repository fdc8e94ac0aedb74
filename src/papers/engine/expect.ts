/** Kinds of expectation. Each is an interval that the measured value must be in, and words for the report. */

/** How the expected value is known; each kind has its usual tolerance. */
export type ExpectationKind =
  | 'closed form'
  | 'ratio'
  | 'range'
  | 'bound'
  | 'direction'
  | 'equal'
  | 'reported';

export interface Expectation {
  readonly kind: ExpectationKind;
  /** As the report prints them. */
  readonly expected: string;
  readonly tolerance: string;
  /** Bounds, both inclusive. */
  readonly min: number;
  readonly max: number;
}

const percent = (share: number) => `${Number((share * 100).toPrecision(3))} %`;
/** Four digits, and whole numbers as they are. */
export const short = (value: number) => `${Number.isInteger(value) ? value : Number(value.toPrecision(4))}`;

function near(kind: ExpectationKind, value: number, tolerance: number): Expectation {
  const [min, max] = [value * (1 - tolerance), value * (1 + tolerance)];
  return { kind, expected: short(value), tolerance: percent(tolerance), min, max };
}

/** What a formula gives, within 1 %. */
export function closedForm(value: number, tolerance = 0.01): Expectation {
  return near('closed form', value, tolerance);
}

/** A factor that somebody measured, within 25 %. */
export function ratio(value: number, tolerance = 0.25): Expectation {
  return near('ratio', value, tolerance);
}

/** The two values whose ratio is measured are equal, within a share that has no default. */
export function equal(tolerance: number): Expectation {
  return near('equal', 1, tolerance);
}

/** From min to max, and `slack` beyond in the measured value's unit. */
export function range(min: number, max: number, slack = 0): Expectation {
  const tolerance = slack === 0 ? '-' : `+-${short(slack)}`;
  const expected = min === max ? short(min) : `${short(min)} to ${short(max)}`;
  return { kind: 'range', expected, tolerance, min: min - slack, max: max + slack };
}

/** No less than this. */
export function atLeast(min: number): Expectation {
  return { kind: 'bound', expected: `>= ${short(min)}`, tolerance: '-', min, max: Number.POSITIVE_INFINITY };
}

/** No more than this. */
export function atMost(max: number): Expectation {
  return { kind: 'bound', expected: `<= ${short(max)}`, tolerance: '-', min: Number.NEGATIVE_INFINITY, max };
}

/** A ratio of after to before: it rises by at least 20 %, or by as much as is said. */
export function rises(least = 1.2): Expectation {
  return {
    kind: 'direction',
    expected: `>= ${short(least)}`,
    tolerance: '-',
    min: least,
    max: Number.POSITIVE_INFINITY,
  };
}

/** A ratio of after to before: it falls at least to 1/1.2, or to one part in `least`. */
export function falls(least = 1.2): Expectation {
  return { kind: 'direction', expected: `<= ${short(1 / least)}`, tolerance: '-', min: 0, max: 1 / least };
}

/** Anything below; for what has a direction and no size. */
export function below(value: number): Expectation {
  return {
    kind: 'direction',
    expected: `< ${short(value)}`,
    tolerance: '-',
    min: Number.NEGATIVE_INFINITY,
    max: value * (1 - Number.EPSILON),
  };
}

/** No verdict: what a source says, and what is measured, side by side. The claim's note says why. */
export function reported(expected: number | string): Expectation {
  return {
    kind: 'reported',
    expected: typeof expected === 'number' ? short(expected) : expected,
    tolerance: 'none',
    min: Number.NEGATIVE_INFINITY,
    max: Number.POSITIVE_INFINITY,
  };
}

/** How far from the best value: 0 there, 1 at the edge of what is allowed, more beyond; what is no number is infinitely far. */
export function distance({ kind, min, max }: Expectation, measured: number): number {
  if (!Number.isFinite(measured)) return Number.POSITIVE_INFINITY;
  if (kind === 'reported') return 0;
  if (measured >= min && measured <= max && min === max) return 0;
  if (Number.isFinite(min) && Number.isFinite(max) && kind !== 'direction') {
    return Math.abs(measured - (min + max) / 2) / ((max - min) / 2);
  }
  if (max === Number.POSITIVE_INFINITY) return measured > 0 ? min / measured : Number.POSITIVE_INFINITY;
  return measured / max;
}
