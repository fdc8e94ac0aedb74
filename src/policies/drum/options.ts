import { z } from 'zod';
import { ProblemError } from '../../verbs/errors.ts';
import { fairOptions } from '../fair/options.ts';
import { type DrumProblem, MOST_ALPHA, requireProblem } from './solver/problem.ts';

const { pieceBytes, windowBytes, passBytes } = fairOptions.shape;
const perS = z.coerce.number().positive().max(1e12).optional();

/** The utilities and capacities that the options of drum choose, without the applications. */
type Choice = Pick<DrumProblem, 'alpha' | 'beta' | 'capacity'>;

/**
 * The problem of one host with one-sided requests. Rates have the unit of an equal share of the request rate.
 * @param completionShare the completion rate, as a multiple of the request rate
 */
export function problemOf(choice: Choice, weights: Float64Array, completionShare: number): DrumProblem {
  const { length } = weights;
  return {
    hosts: 1,
    start: Int32Array.of(0, length),
    app: Int32Array.from({ length }, (_, j) => j),
    alpha: choice.alpha,
    beta: choice.beta,
    capacity: choice.capacity,
    weights,
    completions: new Float64Array(length).fill(1),
    requestRate: Float64Array.of(length),
    completionRate: Float64Array.of(length * completionShare),
  };
}

/** Why two equal applications could not be served under these options; null: they can. */
function refusal(choice: Choice): string | null {
  try {
    requireProblem(problemOf(choice, Float64Array.of(1, 1), 1));
    return null;
  } catch (error) {
    if (error instanceof ProblemError) return error.message;
    throw error;
  }
}

/** The options of drum. None is required. */
export const drumOptions = z
  .strictObject({
    alpha: z.coerce
      .number()
      .positive()
      .max(MOST_ALPHA)
      .default(1)
      .describe(
        'fairness of request rates: 0.5 favours throughput, 1 makes rates proportional to weights, 2 favours short delays; larger values approach equal rates',
      ),
    beta: z.coerce
      .number()
      .min(0)
      .max(1e9)
      .default(0)
      .describe(
        'weight of fast completions, for rates in units of an equal share; above 0, rates become more alike than weights',
      ),
    capacity: z
      .enum(['linear', 'logsum', 'logdomain'])
      .default('linear')
      .describe(
        'how rates fit the device: their sum (linear), or their product as in the paper, iterated in rates (logsum) or in their logarithms (logdomain)',
      ),
    requestsPerS: perS.describe(
      'requests of the shortest length per second that the device serves; default: as reported',
    ),
    completionsPerS: perS.describe(
      'the most completions per second that all applications together receive; default: no limit',
    ),
    topK: z.coerce
      .number()
      .int()
      .min(1)
      .max(2 ** 20)
      .optional()
      .describe(
        'the most applications that are served at a time, in rotation; the paper has 20; default: no limit',
      ),
    select: z
      .enum(['fifo', 'weight', 'smallest'])
      .default('fifo')
      .describe(
        'with topK, which applications are served next: those waiting for the longest time (fifo), those with the largest product of weight and waiting time (weight), or those with the fewest requests that wait (smallest)',
      ),
    epochUs: z.coerce
      .number()
      .min(10)
      .max(1e6)
      .default(1000)
      .describe(
        'time in us for which a selection is kept, and after which an application without requests is idle',
      ),
    connectionsPerQp: z.coerce
      .number()
      .int()
      .min(4)
      .max(10)
      .optional()
      .describe(
        'the most connections of one protection domain to one peer that share a queue pair, once the device has more queue pairs than its cache has room for; default: none do',
      ),
    agents: z
      .stringbool()
      .or(z.boolean())
      .default(false)
      .describe(
        'whether agents solve for the rates of all hosts together, so that requests also fit the completion rates of the hosts to which they go',
      ),
    pieceBytes,
    windowBytes,
    passBytes,
  })
  .superRefine((options, context) => {
    // A wrong alpha or beta has its own issue.
    const reason = context.issues.length === 0 ? refusal(options) : null;
    if (reason !== null) context.addIssue({ code: 'custom', message: reason, path: ['capacity'] });
    if (options.agents && options.capacity !== 'linear') {
      const message = `agents require capacity 'linear', got '${options.capacity}'`;
      context.addIssue({ code: 'custom', message, path: ['agents'] });
    }
  });

/** The options of drum after parsing, with defaults filled in. */
export type DrumOptions = z.infer<typeof drumOptions>;

/** Options that cannot change while the policy runs. */
export const FIXED = ['topK', 'connectionsPerQp', 'completionsPerS', 'agents'] as const;
