import { z } from 'zod';
import { IBV_WC_RETRY_EXC_ERR } from '../../verbs/constants.ts';
import { ERRORS, type ErrorCode } from '../../verbs/errors.ts';
import { FAILABLE_VERBS } from './verbs.ts';

const count = (max = 0x7fffffff) => z.coerce.number().int().min(1).max(max);
const codes = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]];

/** What `fault` does: any of a failing verb, faulty completions and a killed queue pair. */
export const faultOptions = z
  .strictObject({
    verb: z
      .enum(['*', ...FAILABLE_VERBS])
      .optional()
      .describe("verb that fails; '*': all that can, pollCq excepted"),
    call: count().default(1).describe('which of its calls fails'),
    persistent: z.stringbool().or(z.boolean()).default(false).describe('whether all later ones fail too'),
    code: z.enum(codes).optional().describe('code of the error; by default what the verb would give'),
    errno: count(4095).optional().describe('errno of the error; by default what the verb would give'),
    reason: count(16).optional().describe('of postSend, postRecv and postSrqRecv: REASON_*'),
    taken: z.coerce.number().int().min(0).default(0).describe('requests of a failing post that are taken'),
    completion: z
      .enum(['error', 'drop', 'delay', 'reorder'])
      .optional()
      .describe('what happens to completions: those that nth or probability chooses'),
    nth: count().optional().describe('which completion; default 1 without a probability'),
    probability: z.coerce.number().min(0).max(1).optional().describe('of each completion'),
    status: count(22).default(IBV_WC_RETRY_EXC_ERR).describe('ibv_wc_status of completion=error'),
    delayNs: count().default(10_000).describe('of completion=delay, in time of the device'),
    killAt: count().optional().describe('number of the send request after which its queue pair goes to ERR'),
    seed: z.coerce.number().int().default(1).describe('of the probability'),
  })
  .refine((o) => o.verb !== undefined || o.completion !== undefined || o.killAt !== undefined, {
    message: 'needs verb, completion or killAt: otherwise nothing would fail',
  })
  .refine((o) => o.completion !== undefined || (o.nth === undefined && o.probability === undefined), {
    path: ['completion'],
    message: 'must say what happens to the completions that nth or probability chooses',
  });

/** As given; what is absent has a default. */
export type FaultOptions = z.input<typeof faultOptions>;

/** As used. */
export type FaultPlan = z.output<typeof faultOptions>;
