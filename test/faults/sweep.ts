/** Example programs, each with one thing going wrong: run in a thread of their own, and judged. */
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

/** A program that has not ended by then hangs: all of them take milliseconds. */
const HANG_MS = 8000;

interface Told {
  code?: string;
  verb?: string;
  index?: number;
  posted?: number;
  status?: number;
  message: string;
}

/** What came of one run (worker.mjs). */
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
  /** Most of one queue pair that failed and were not flushed. */
  failures: number;
  wrong: string[];
}

/** A thread that runs examples; one that hangs is ended, and the next begins anew. */
export class Stage {
  private worker: Worker | null = null;

  /** null: it hangs. */
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

/** Times are in the output; what they are, other tests say. */
const withoutNumbers = (text: string) => text.replace(/[0-9.]+/g, '#');

/** Whether an error tells of what was made to fail, at first hand or from the peer. */
function isOfFault(error: Told, options: FaultOptions): boolean {
  const { verb } = options;
  if (verb === undefined)
    return error.status !== undefined || /RETRY_EXC_ERR|WR_FLUSH_ERR|ERR ->/.test(error.message);
  // What the other end was refused, rdma_cm does not tell.
  if (/REJECTED: the server rejected the request/.test(error.message)) return true;
  if (error.verb === verb) return /made to fail|was rejected/.test(error.message);
  return error.message.includes(`${verb}: call`) || error.message.includes(`${verb} on`);
}

/** Everything was closed under those who still waited. */
const isOfClosing = (error: Told) => error.code === 'ISO_ERR_HANDLE' && /closed/.test(error.message);

/** What is wrong with a run, in words; nothing is wrong when the program told of the fault once and let everything go. */
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
