import { vi } from 'vitest';
import { run } from '../../src/cli/program.ts';

/** Runs the command in this process; what it prints is heard. */
export async function command(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const said = { out: '', err: '' };
  const hear = (to: 'out' | 'err') => (text: string | Uint8Array) => {
    said[to] += text;
    return true;
  };
  vi.spyOn(process.stdout, 'write').mockImplementation(hear('out'));
  vi.spyOn(process.stderr, 'write').mockImplementation(hear('err'));
  const code = await run(args);
  vi.restoreAllMocks();
  return { code, ...said };
}
