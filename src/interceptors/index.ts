/** The built-in interceptors by name, with their options. */
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
export type { SafeVerb } from './fault/verbs.ts';
export type { WriterInfo } from './output.ts';
export { type RecordInterceptor, type RecordOptions, record } from './record/index.ts';
export { createReplay, type Replay } from './replay/index.ts';
export type { TraceHeader } from './trace/format.ts';
export { type TraceInterceptor, type TraceOptions, trace } from './trace/index.ts';
export { type OpenTrace, readTrace } from './trace/read.ts';
export type { TraceRecord } from './trace/records.ts';

/** A built-in interceptor. */
export type InterceptorEntry = NamedEntry;

/** The built-in interceptors, by name. */
export const interceptors: Readonly<Record<string, InterceptorEntry>> = {
  count: {
    summary: 'counts requests and completions',
    options: z.strictObject({}),
    create: () => count(),
  },
  check: {
    summary: 'checks the program against the verbs contract, and reports each mistake in words',
    options: checkOptions,
    create: (options) => check(checkOptions.parse(options)),
  },
  fault: {
    summary: 'injects faults: failing verbs, lost, late or failed completions, a queue pair that goes to ERR',
    options: faultOptions,
    create: (options) => fault(faultOptions.parse(options)),
  },
  record: {
    summary:
      'writes every call and its results to a file; ISOVERBS_REPLAY=FILE runs the program from that file',
    options: recordOptions,
    create: (options) => record(options as RecordOptions),
  },
  trace: {
    summary: 'logs requests, completions and control verbs to a file; `isoverbs trace FILE` prints it',
    options: traceOptions,
    create: (options) => trace(options as TraceOptions),
  },
};

/**
 * Creates an interceptor by name.
 * @throws ConfigError that lists the known interceptors, or names the wrong option and what it accepts
 */
export function createInterceptor(name: string, options: Record<string, unknown> = {}): Interceptor {
  return createNamed('interceptor', interceptors, name, options);
}
