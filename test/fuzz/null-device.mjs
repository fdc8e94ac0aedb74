// @ts-nocheck
/** Builds the null device of native/bench, on which the addon is fuzzed. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const SOURCES = join(ROOT, 'native/bench');
const LIBRARY = join(ROOT, 'out/fuzz/libnull.so');

/** The path of the library, or the reason why it cannot be built. */
export function buildNullDevice() {
  const sources = readdirSync(SOURCES)
    .filter((name) => /^null_.*\.(cc|h)$/.test(name))
    .map((name) => join(SOURCES, name));
  const newest = Math.max(...sources.map((file) => statSync(file).mtimeMs));
  if (existsSync(LIBRARY) && statSync(LIBRARY).mtimeMs > newest) return { library: LIBRARY, reason: '' };
  mkdirSync(join(ROOT, 'out/fuzz'), { recursive: true });
  // A preloaded sanitizer must not check the compiler.
  const { LD_PRELOAD: _, CXX = 'c++', CXXFLAGS = '', ...env } = process.env;
  const flags = [
    '-std=c++20',
    '-O1',
    '-g',
    '-fPIC',
    '-shared',
    '-pthread',
    ...CXXFLAGS.split(' ').filter(Boolean),
  ];
  const scratch = `${LIBRARY}.${process.pid}`;
  const files = sources.filter((file) => file.endsWith('.cc'));
  const { status, stderr, error } = spawnSync(CXX, [...flags, ...files, '-o', scratch], {
    env,
    encoding: 'utf8',
  });
  if (status === 0) {
    renameSync(scratch, LIBRARY);
    return { library: LIBRARY, reason: '' };
  }
  const why =
    error?.message ?? stderr.split('\n').find((line) => line.includes('error')) ?? 'the compiler failed';
  return { library: '', reason: `the null device cannot be built: ${why}` };
}
