/** The interceptors for people, by name, with their validated options. None of them is a policy. */
import { z } from 'zod';
import { createNamed, type NamedEntry } from '../policies/index.ts';
import type { Interceptor } from '../shim/compose.ts';
import { check, checkOptions } from './check/index.ts';
import { count } from './count.ts';
import { fault, faultOptions } from './fault/index.ts';
import { type RecordOptions, record, recordOptions } from './record/index.ts';
import { type TraceOptions, trace, traceOptions } from './trace/index.ts';

export {
  CHECKS,
  type CheckCode,
  type CheckInterceptor,
  type CheckOptions,
  check,
  type Finding,
  type FindingListener,
  type Severity,
} from './check/index.ts';
export { type CountInterceptor, type Counts, count } from './count.ts';
export {
  FAILABLE_VERBS,
  type FailableVerb,
  type FaultOptions,
  fault,
  type Injection,
  type InjectionListener,
} from './fault/index.ts';
export { type RecordInterceptor, type RecordOptions, record } from './record/index.ts';
export { createReplay, type Replay } from './replay/index.ts';
export { type TraceInterceptor, type TraceOptions, trace } from './trace/index.ts';
export { type OpenTrace, readTrace } from './trace/read.ts';
export type { TraceRecord } from './trace/records.ts';

/** An interceptor that is built in. */
export type InterceptorEntry = NamedEntry;

/** The interceptors that are built in, by name. */
export const interceptors: Readonly<Record<string, InterceptorEntry>> = {
  count: {
    summary: 'counts the requests and completions that pass',
    options: z.strictObject({}),
    create: () => count(),
  },
  check: {
    summary: 'holds the program to the verbs contract, and says in words what it did wrong',
    options: checkOptions,
    create: (options) => check(checkOptions.parse(options)),
  },
  fault: {
    summary: 'makes things go wrong: a verb fails, completions are lost, late or failed, a queue pair dies',
    options: faultOptions,
    create: (options) => fault(faultOptions.parse(options)),
  },
  record: {
    summary: 'every call with its results in a file; ISOVERBS_REPLAY=FILE answers the same program from it',
    options: recordOptions,
    create: (options) => record(options as RecordOptions),
  },
  trace: {
    summary: 'a log of requests, completions and control verbs in a file; `isoverbs trace FILE` prints it',
    options: traceOptions,
    create: (options) => trace(options as TraceOptions),
  },
};

/**
 * Makes an interceptor by name.
 * @throws ConfigError naming the interceptors there are, or the option that is wrong and what it takes
 */
export function createInterceptor(name: string, options: Record<string, unknown> = {}): Interceptor {
  return createNamed('interceptor', interceptors, name, options);
}
