import { vi } from 'vitest';
import { run } from '../../src/cli/program.ts';

/** Runs the command in this process, and captures what it prints. */
export async function command(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const output = { out: '', err: '' };
  const capture = (to: 'out' | 'err') => (text: string | Uint8Array) => {
    output[to] += text;
    return true;
  };
  vi.spyOn(process.stdout, 'write').mockImplementation(capture('out'));
  vi.spyOn(process.stderr, 'write').mockImplementation(capture('err'));
  const code = await run(args);
  vi.restoreAllMocks();
  return { code, ...output };
}
