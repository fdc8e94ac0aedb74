/** Weights and rates in configuration files. */
import { z } from 'zod';
import { isGroupName, MAX_GROUPS } from '../verbs/groups.ts';
import { isWeight } from '../verbs/labels.ts';
import { MAX_RATES, RATE_TARGETS, rateTarget } from '../verbs/rate-targets.ts';

/** A weight of a tenant, a group or a queue pair. */
export const weight = z.custom<number>(isWeight, { error: 'must be a number from 1e-6 to 1e6' });

/** Weights of a tenant's groups, by name. */
export const groupWeights = z
  .record(z.string(), weight)
  .refine((groups) => Object.keys(groups).every(isGroupName), {
    error: 'must have names of 1 to 64 printable characters',
  })
  .refine((groups) => Object.keys(groups).length <= MAX_GROUPS, {
    error: `must have at most ${MAX_GROUPS} groups`,
  });

/** Rates of a tenant's groups and queue pairs in Gbit/s, by target. The result has targets as `rateTarget` writes them. */
export const ratesByTarget = <Gbps extends z.ZodType>(gbps: Gbps) =>
  z
    .record(z.string(), gbps)
    .refine((rates) => Object.keys(rates).every((one) => rateTarget(one) !== null), {
      error: `must have keys that are ${RATE_TARGETS}`,
    })
    .refine((rates) => Object.keys(rates).length <= MAX_RATES, {
      error: `must have at most ${MAX_RATES} rates`,
    })
    .transform(
      (rates) =>
        Object.fromEntries(Object.entries(rates).map(([one, value]) => [rateTarget(one), value])) as Record<
          string,
          z.output<Gbps>
        >,
    );
