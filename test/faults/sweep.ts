/** Runs example programs with one injected fault each in a separate thread, and judges the results. */
import { Worker } from 'node:worker_threads';
import type { FaultOptions } from '../../src/interceptors/index.ts';

/** The examples that run on simulated devices, with arguments that keep them short. */
export const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  'async-events': [],
  atomics: [],
  'completion-events': [],
  'cq-timestamps': [],
  inline: [],
  'memory-window': [],
  multicast: [],
  'read-write': [],
  'sqd-drain': [],
  'srq-server': [],
  'ud-hello': [],
  xrc: [],
  'kv-store': ['--count', '5'],
  'file-transfer': ['--size', '64K'],
  'rdma-cm-echo': [],
};

/** A program that runs longer hangs, since all of them take milliseconds. */
const HANG_MS = 8000;

interface Told {
  code?: string;
  verb?: string;
  index?: number;
  posted?: number;
  status?: number;
  message: string;
}

/** The result of one run (worker.mjs). */
export interface Run {
  injected: { what: string; number: number }[];
  errors: Told[];
  afterwards: Told[];
  cleanup: Told[];
  output: string;
  leftOpen: number;
  leaked: string[];
  calls: Record<string, number>;
  completions: number;
  /** The largest number of failed completions, other than flushes, on any queue pair. */
  failures: number;
  wrong: string[];
}

/** A thread that runs examples. If one hangs, the thread is terminated and replaced. */
export class Stage {
  private worker: Worker | null = null;

  /** The result; null if the program hangs. */
  run(example: string, options: FaultOptions | null): Promise<Run | null> {
    this.worker ??= new Worker(new URL('worker.mjs', import.meta.url));
    const { worker } = this;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.close();
        resolve(null);
      }, HANG_MS);
      worker.removeAllListeners().once('error', (error) => {
        clearTimeout(timer);
        this.close();
        reject(error);
      });
      worker.once('message', (run: Run) => {
        clearTimeout(timer);
        resolve(run);
      });
      worker.postMessage({ example, argv: EXAMPLES[example], options });
    });
  }

  close(): void {
    void this.worker?.terminate();
    this.worker = null;
  }
}

/** Numbers are masked, since the output contains times, which other tests verify. */
const withoutNumbers = (text: string) => text.replace(/[0-9.]+/g, '#');

/** Whether an error reports the injected fault, directly or as the peer sees it. */
function isOfFault(error: Told, options: FaultOptions): boolean {
  const { verb } = options;
  if (verb === undefined)
    return error.status !== undefined || /RETRY_EXC_ERR|WR_FLUSH_ERR|ERR ->/.test(error.message);
  // rdma_cm does not report why the other end failed.
  if (/REJECTED: the server rejected the request/.test(error.message)) return true;
  if (error.verb === verb) return /made to fail|was rejected/.test(error.message);
  return error.message.includes(`${verb}: call`) || error.message.includes(`${verb} on`);
}

/** Pending promises reject with this when everything is closed. */
const isOfClosing = (error: Told) => error.code === 'ISO_ERR_HANDLE' && /closed/.test(error.message);

/** Describes what is wrong with a run: the program must report the fault once and release everything. */
export function problems(run: Run | null, options: FaultOptions, base: Run): string[] {
  if (run === null) return ['it hangs'];
  const found = [...run.wrong];
  const { errors, output } = run;
  const told =
    withoutNumbers(output) !== withoutNumbers(base.output) && /ISO_ERR_|Error|FLUSH|RETRY/.test(output);
  const passed = run.injected.length === 0;
  if (errors.length > 1 && !options.persistent) found.push(`${errors.length} errors`);
  if (passed && errors.length > 0) found.push(`nothing was made to fail, but: ${errors[0].message}`);
  if (errors.length === 0 && !told && withoutNumbers(output) !== withoutNumbers(base.output)) {
    found.push(`it told of nothing, and said ${JSON.stringify(output)}`);
  }
  if (errors.length === 0 && !told && run.leftOpen > 0)
    found.push(`it ended well, and left ${run.leftOpen} open`);
  for (const error of passed ? [] : errors) {
    if (!isOfFault(error, options)) found.push(`another error: ${error.message}`);
    if (error.verb?.startsWith('post') && error.index !== error.posted)
      found.push('the wrong request is named');
  }
  for (const error of run.afterwards) {
    if (!isOfFault(error, options) && !isOfClosing(error)) found.push(`afterwards: ${error.message}`);
  }
  if (run.failures > 1) found.push(`${run.failures} requests of one queue pair failed`);
  for (const error of run.cleanup) found.push(`close() failed: ${error.message}`);
  if (run.leaked.length > 0) found.push(`left behind: ${run.leaked.join(', ')}`);
  return found;
}
