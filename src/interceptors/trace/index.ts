/** trace: logs requests, completions and control verbs, as a pcap file logs packets. */
import { z } from 'zod';
import type { Interceptor } from '../../shim/compose.ts';
import type { Provider } from '../../verbs/provider.ts';
import { VERB_NAMES, type Verbs } from '../../verbs/verbs.ts';
import { atExit, encodeHeader } from '../output.ts';
import { ChunkWriter } from './chunks.ts';
import * as F from './format.ts';
import { TraceLog } from './log.ts';

/** Options of `trace`. */
export const traceOptions = z.strictObject({
  file: z
    .string()
    .min(1)
    .default('isoverbs-{pid}-{thread}.trace')
    .describe('output file; {pid} and {thread} are replaced'),
  bufferBytes: z.coerce
    .number()
    .int()
    .min(65536)
    .max(2 ** 30)
    .default(8388608)
    .describe('memory for entries that are not in the file yet'),
  full: z
    .enum(['wait', 'drop', 'last'])
    .default('wait')
    .describe(
      'when the program is faster than the disk: wait, drop new entries, or write only the last at the end',
    ),
});

/** The options of `trace` as passed; an absent option has its default. */
export type TraceOptions = z.input<typeof traceOptions>;

/** A tracing interceptor. */
export interface TraceInterceptor extends Interceptor {
  /** Paths of the files, one for each wrapped provider. */
  readonly files: readonly string[];
  /** Completes and closes the files; later calls are not traced. Also happens at exit. */
  close(): void;
}

/** Verbs that are logged in a binary format or not logged. All others are logged as JSON. */
const NOT_AS_JSON = new Set<string>([
  'postSend',
  'postRecv',
  'postSrqRecv',
  'pollCq',
  'validateSend',
  'reqNotifyCq',
  'createWrRing',
  'createWcRing',
  'destroyRing',
  'watchCompChannel',
  'watchAsyncEvents',
]);

/** Creates a tracing interceptor. @throws FileError at compose time when the file cannot be written */
export function trace(options: TraceOptions = {}): TraceInterceptor {
  const { file, bufferBytes, full } = traceOptions.parse(options);
  const files: string[] = [];
  const closers: (() => void)[] = [];
  return {
    name: 'trace',
    files,
    close: () => {
      for (const close of closers.splice(0)) close();
    },
    wrap(next) {
      const details: F.TraceHeader = {
        provider: next.name,
        below: [...(next.specs ?? next.interceptors)],
        startedAt: new Date().toISOString(),
      };
      const header = encodeHeader(F.TRACE_MAGIC, F.TRACE_VERSION, details);
      const chunks = new ChunkWriter(file, header, bufferBytes, full);
      const log = new TraceLog(chunks, () => next.nowNs(0));
      next.watchUncut?.((request) => log.uncut(request));
      const finish = () => {
        for (const layer of next.counters?.() ?? []) log.treatment(layer);
        log.close();
      };
      files.push(chunks.path);
      const cancelAtExit = atExit(finish);
      closers.push(() => {
        cancelAtExit();
        finish();
      });
      return { ...controlVerbs(next, log), ...eventVerbs(next, log), ...dataVerbs(next, log) };
    },
  };
}

function controlVerbs(next: Provider, log: TraceLog): Partial<Verbs> {
  const verbs: Record<string, (...args: unknown[]) => unknown> = {};
  for (const verb of VERB_NAMES.filter((name) => !NOT_AS_JSON.has(name))) {
    const call = next[verb] as (...args: unknown[]) => unknown;
    verbs[verb] = (...args) => {
      try {
        const result = call(...args);
        log.control(verb, args, result, undefined);
        return result;
      } catch (error) {
        log.control(verb, args, undefined, error);
        throw error;
      }
    };
  }
  return verbs as Partial<Verbs>;
}

function eventVerbs(next: Provider, log: TraceLog): Partial<Verbs> {
  return {
    reqNotifyCq(cq, solicitedOnly) {
      next.reqNotifyCq(cq, solicitedOnly);
      log.mark(F.ARM, cq, solicitedOnly ? 1 : 0, 0);
    },
    watchCompChannel(channel, listener) {
      const wrapped = (cq: number) => {
        log.mark(F.COMP_EVENT, channel, cq, 0);
        listener?.(cq);
      };
      next.watchCompChannel(channel, typeof listener === 'function' ? wrapped : listener);
    },
    watchAsyncEvents(context, listener) {
      const wrapped = (event: number, element: number) => {
        log.mark(F.ASYNC_EVENT, context, event, element);
        listener?.(event, element);
      };
      next.watchAsyncEvents(context, typeof listener === 'function' ? wrapped : listener);
    },
  };
}

function dataVerbs(next: Provider, log: TraceLog): Partial<Verbs> {
  return {
    ...log.rings.verbs(next),
    postSend(qp, ring, start, count) {
      log.enter();
      const taken = next.postSend(qp, ring, start, count);
      log.posted(F.POST_SEND, qp, ring, start, count, taken);
      log.leave();
      return taken;
    },
    postRecv(qp, ring, start, count) {
      const taken = next.postRecv(qp, ring, start, count);
      log.posted(F.POST_RECV, qp, ring, start, count, taken);
      return taken;
    },
    postSrqRecv(srq, ring, start, count) {
      const taken = next.postSrqRecv(srq, ring, start, count);
      log.posted(F.POST_SRQ_RECV, srq, ring, start, count, taken);
      return taken;
    },
    pollCq(cq, ring, start, max) {
      log.enter();
      const n = next.pollCq(cq, ring, start, max);
      log.polled(cq, ring, start, n);
      log.leave();
      return n;
    },
  };
}
