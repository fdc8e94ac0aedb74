/**
 * Rates for a random mixture, for policies that hold applications to rates. They have random numbers of their own: the
 * mixture itself is the same with and without them.
 */
import { specOf } from '../mix/jobs.ts';
import { type Mix, type MixApp, mixApp, withKeys } from '../mix/mixture.ts';
import { parsePolicy } from '../mix/parse.ts';
import { appsOf, paramsOf } from '../mix/resolve.ts';
import { policies } from '../policies/index.ts';
import { RandomStream } from '../sim/kernel/random.ts';
import { Draw } from './draw.ts';

/** The share of applications with a rate. */
const RATED = 0.6;
/** The lowest rate, as a part of the link. The highest is the whole link, so that some mixtures exceed it. */
const LOWEST: readonly number[] = [0.005, 0.005, 0.1];
/** What has a rate: each queue pair of the application, its tenant, or its group. */
type Holder = 'qp' | 'tenant' | 'group';
const HOLDERS: readonly (readonly Holder[])[] = [['qp'], ['tenant'], ['tenant'], ['group'], ['qp', 'tenant']];
const DIGITS = 3;

/** One rate of an application. */
export interface Limit {
  readonly holder: Holder;
  /** Of all queue pairs of the application together. */
  readonly gbps: number;
  /** How many take turns: one, or each queue pair for itself. */
  readonly holders: number;
}

/** A mixture in which some applications have rates. */
export interface RatedMix {
  readonly mix: Mix;
  /** By application; without any limit, it shares what the others leave. */
  readonly limits: readonly (readonly Limit[])[];
}

/** Whether mixtures under this policy, as `--policy` takes it, can have random rates: it limits rates, and has none yet. */
export function takesRates(policy: string): boolean {
  const { policy: name, policyOptions, inner } = parsePolicy(policy);
  if (inner !== undefined || !Object.hasOwn(policies, name)) return false;
  return policies[name].limitsRates === true && !Object.keys(policyOptions).some((key) => /gbps$/i.test(key));
}

/**
 * The mixture with rates for some of its applications, and with details in its results. The same mixture, seed and index
 * always give the same rates.
 */
export function withRates(mix: Mix, seed: number, index: number): RatedMix {
  const spec = specOf(mix, seed);
  const params = paramsOf(spec);
  const draw = new Draw(new RandomStream(seed, 'rates', index));
  const lowest = draw.oneOf(LOWEST) * params.linkGbps;
  const tenants: string[] = [];
  const groups: string[] = [];
  const limits: Limit[][] = [];
  const apps = appsOf(spec, params).map(({ name, qps }, i): MixApp => {
    const holders = draw.chance(RATED) ? draw.oneOf(HOLDERS) : [];
    const rates = holders.map(() => Number(draw.factor(lowest, params.linkGbps).toPrecision(DIGITS)));
    let app = mix.apps[i];
    // A program can only set rates that its device could have limiters for.
    const given = holders.map((holder) => (holder === 'qp' && params.rateLimiters === 0 ? 'tenant' : holder));
    limits.push(
      [...new Set(given)].map((holder, at) => {
        const each = Number((rates[at] / (holder === 'qp' ? qps : 1)).toPrecision(DIGITS));
        if (holder === 'tenant') tenants.push(`${name}:${each}`);
        else if (holder === 'group') {
          groups.push(`g${i}:${each}`);
          app = withKeys(app, { group: `g${i}` });
        } else app = mixApp(`${app.words},rate=${each}Gbps`);
        return { holder, gbps: holder === 'qp' ? each * qps : each, holders: holder === 'qp' ? qps : 1 };
      }),
    );
    return app;
  });
  const options = [
    ...(tenants.length > 0 ? [`ratesGbps=${tenants.join('/')}`] : []),
    ...(groups.length > 0 ? [`groupRatesGbps=${groups.join('/')}`] : []),
  ].join(',');
  const { policy = '' } = mix;
  const joint = policy.includes(':') ? ',' : ':';
  const rated = options === '' ? policy : `${policy}${joint}${options}`;
  return { mix: { ...mix, policy: rated, apps, details: true }, limits };
}
