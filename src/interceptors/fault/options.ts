import { z } from 'zod';
import { IBV_WC_RETRY_EXC_ERR } from '../../verbs/constants.ts';
import { ERRORS, type ErrorCode } from '../../verbs/errors.ts';
import { FAILABLE_VERBS } from './verbs.ts';

const count = (max = 0x7fffffff) => z.coerce.number().int().min(1).max(max);
const codes = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]];

/** Options of `fault`: a failing verb, faulty completions, a killed queue pair, or several of these. */
export const faultOptions = z
  .strictObject({
    verb: z
      .enum(['*', ...FAILABLE_VERBS])
      .optional()
      .describe("verb that fails; '*': every verb that can fail, except pollCq"),
    call: count().default(1).describe('number of the call that fails, from 1'),
    persistent: z.stringbool().or(z.boolean()).default(false).describe('whether all later calls fail too'),
    code: z.enum(codes).optional().describe('code of the error (default: the usual code for the errno)'),
    errno: count(4095).optional().describe('errno of the error (default: the usual errno of the verb)'),
    reason: count(16).optional().describe('REASON_* of a failing postSend, postRecv or postSrqRecv'),
    taken: z.coerce.number().int().min(0).default(0).describe('requests that a failing post still accepts'),
    completion: z
      .enum(['error', 'drop', 'delay', 'reorder'])
      .optional()
      .describe('what happens to the completions that nth or probability chooses'),
    nth: count().optional().describe('number of the completion (default: 1, unless probability is given)'),
    probability: z.coerce
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe('probability of the fault for each completion'),
    status: count(22).default(IBV_WC_RETRY_EXC_ERR).describe('ibv_wc_status with completion=error'),
    delayNs: count().default(10_000).describe('delay with completion=delay, in device time'),
    killAt: count().optional().describe('number of the send request after which its queue pair goes to ERR'),
    seed: z.coerce.number().int().default(1).describe('seed for probability'),
  })
  .refine((o) => o.verb !== undefined || o.completion !== undefined || o.killAt !== undefined, {
    message: 'requires verb, completion or killAt; without them nothing would fail',
  })
  .refine((o) => o.completion !== undefined || (o.nth === undefined && o.probability === undefined), {
    path: ['completion'],
    message: 'is required with nth and probability: error, drop, delay or reorder',
  });

/** The options of `fault` as passed; an absent option has its default. */
export type FaultOptions = z.input<typeof faultOptions>;

/** Validated options, with defaults filled in. */
export type FaultPlan = z.output<typeof faultOptions>;

/** A fault that was injected. */
export interface Injection {
  /** The name of the failed verb, 'completion' or 'kill'. */
  what: string;
  /** Number of the call, completion or request, from 1. */
  number: number;
}

/** Called for each injected fault, as it happens. */
export type InjectionListener = (injection: Injection) => void;
