/** Kinds of expectation. Each is an interval that must contain the measured value, and its text for the report. */

/** The source of the expected value. Each kind has a default tolerance. */
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
  /** Both texts as the report prints them. */
  readonly expected: string;
  readonly tolerance: string;
  /** Bounds, both inclusive. */
  readonly min: number;
  readonly max: number;
}

const percent = (share: number) => `${Number((share * 100).toPrecision(3))} %`;
/** Four significant digits; whole numbers are unchanged. */
export const short = (value: number) => `${Number.isInteger(value) ? value : Number(value.toPrecision(4))}`;

function near(kind: ExpectationKind, value: number, tolerance: number): Expectation {
  const [min, max] = [value * (1 - tolerance), value * (1 + tolerance)];
  return { kind, expected: short(value), tolerance: percent(tolerance), min, max };
}

/** The result of a formula, within 1 %. */
export function closedForm(value: number, tolerance = 0.01): Expectation {
  return near('closed form', value, tolerance);
}

/** A factor measured by a paper, within 25 %. */
export function ratio(value: number, tolerance = 0.25): Expectation {
  return near('ratio', value, tolerance);
}

/** A ratio of two equal values. The tolerance has no default. */
export function equal(tolerance: number): Expectation {
  return near('equal', 1, tolerance);
}

/** From min to max, extended by `slack` on both sides, in the unit of the measured value. */
export function range(min: number, max: number, slack = 0): Expectation {
  const tolerance = slack === 0 ? '-' : `+-${short(slack)}`;
  const expected = min === max ? short(min) : `${short(min)} to ${short(max)}`;
  return { kind: 'range', expected, tolerance, min: min - slack, max: max + slack };
}

/** This value or more. */
export function atLeast(min: number): Expectation {
  return { kind: 'bound', expected: `>= ${short(min)}`, tolerance: '-', min, max: Number.POSITIVE_INFINITY };
}

/** This value or less. */
export function atMost(max: number): Expectation {
  return { kind: 'bound', expected: `<= ${short(max)}`, tolerance: '-', min: Number.NEGATIVE_INFINITY, max };
}

/** A ratio of after to before that rises to at least `least`. */
export function rises(least = 1.2): Expectation {
  return {
    kind: 'direction',
    expected: `>= ${short(least)}`,
    tolerance: '-',
    min: least,
    max: Number.POSITIVE_INFINITY,
  };
}

/** A ratio of after to before that falls to at most 1/least. */
export function falls(least = 1.2): Expectation {
  return { kind: 'direction', expected: `<= ${short(1 / least)}`, tolerance: '-', min: 0, max: 1 / least };
}

/** Any smaller value, for claims that give a direction but no size. */
export function below(value: number): Expectation {
  return {
    kind: 'direction',
    expected: `< ${short(value)}`,
    tolerance: '-',
    min: Number.NEGATIVE_INFINITY,
    max: value * (1 - Number.EPSILON),
  };
}

/** No verdict: the report shows the source's statement next to the measured value. The claim's note says why. */
export function reported(expected: number | string): Expectation {
  return {
    kind: 'reported',
    expected: typeof expected === 'number' ? short(expected) : expected,
    tolerance: 'none',
    min: Number.NEGATIVE_INFINITY,
    max: Number.POSITIVE_INFINITY,
  };
}

/** Distance from the best value: 0 at it, 1 at the edge of the interval, more beyond; infinite for values that are not finite. */
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
