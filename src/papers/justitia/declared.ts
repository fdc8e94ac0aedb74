/** The applications of Justitia's claims, which declare what they are, and checks of both rule sets. */
import type { MixResult } from '../../mix/result.ts';
import type { Check, Runs } from '../engine/claim.ts';
import { JUSTITIA, justitiaWith, type Policies } from '../engine/compared.ts';
import { type Expectation, reported } from '../engine/expect.ts';

/** A latency application; `keys` in the words of `isoverbs mix`. */
export const d = (keys = 'size=16,think=1us') => `D:${keys},kind=latency`;
/** A throughput application. */
export const m = (keys = 'size=16,batch=64') => `M:${keys},kind=throughput`;
/** A bandwidth application. */
export const b = (keys = 'size=1MB') => `B:${keys},kind=bandwidth`;

/** Four bandwidth applications that arrive one after the other, and a latency application: appendix D, fig. 39. */
export const ARRIVALS = [
  b('name=B.1,size=1MB'),
  ...[2, 3, 4].map((n) => b(`name=B.${n},size=1MB,start=${(n - 1) * 100}ms`)),
  d(),
];
export const ARRIVING = { duration: '550ms', warmup: '500ms', gauges: true };

/** Both rule sets, without the bare device. */
export const RULES: Policies = { justitia: JUSTITIA.justitia, paper: JUSTITIA.paper };

/** The same with these options of the policy. */
export function rulesWith(options: string): Policies {
  const { justitia, paper } = justitiaWith(options);
  return { justitia, paper };
}

/** MaxRate as a share of the measured maximum while a latency application exists. */
export const CAP = 0.97;

/**
 * Time in which SafeUtil falls from MaxRate to a guaranteed rate of half of it: seven decreases by a tenth, 200 samples
 * of 20 us apart, after the first 200 samples.
 */
export const SETTLED = { duration: '60ms', warmup: '40ms' };

/** A check without its measure. */
type What = Omit<Check, 'measure'>;
/** Measures what `word` names: a rule set in the names of mixtures. */
type Measure = (runs: Runs, word: 'justitia' | 'paper') => number;

/** The check of `justitia`; `justitia:paper` is only reported. */
export function judged(what: What, measure: Measure): Check[] {
  return ofBoth(what, measure, reported(what.expect.expected));
}

/** The check of both rule sets. `paper` replaces the expectation for `justitia:paper`. */
export function ofBoth(what: What, measure: Measure, paper: Expectation = what.expect): Check[] {
  return [
    { ...what, measure: (runs) => measure(runs, 'justitia') },
    {
      ...what,
      what: `${what.what}, rules as printed`,
      expect: paper,
      measure: (runs) => measure(runs, 'paper'),
    },
  ];
}

/** The payload rates of all bandwidth applications. */
export const ratesOfB = ({ apps }: MixResult) =>
  apps.filter(({ kind }) => kind === 'B').map(({ throughputGbps }) => throughputGbps);
