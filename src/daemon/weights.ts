/** Weights in configuration files. */
import { z } from 'zod';
import { isGroupName, MAX_GROUPS } from '../verbs/groups.ts';
import { isWeight } from '../verbs/labels.ts';

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
