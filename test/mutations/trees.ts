/** Copies of the working tree for faults, and the tests that run there. */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { LIMIT_MS, type Stage } from './order.ts';

const root = resolve(import.meta.dirname, '../..');
const PARTS = [
  'src',
  'test',
  'examples',
  'docs',
  'dist',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
];
const CONFIG = 'test/mutations/tests.config.ts';

/** How a run of tests ended. */
export interface Ending {
  readonly killed: boolean;
  /** The first test that failed, or another reason for the end. */
  readonly how: string;
  readonly failed: readonly string[];
  /** The longest time during which no test ended. */
  readonly silenceMs: number;
}

const { compilerOptions } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile).config;
const { options } = ts.convertCompilerOptionsFromJson(compilerOptions, root);
/** For a single file, the compiler cannot know that its package consists of ES modules. */
const compiling = { ...options, module: ts.ModuleKind.ESNext };

/** A source file and its compiled file in `dist`, which worker threads and programs load. */
function built(file: string, text: string): [string, string][] {
  const { outputText } = ts.transpileModule(text, { compilerOptions: compiling, fileName: file });
  return [
    [file, text],
    [file.replace(/^src\//, 'dist/').replace(/\.ts$/, '.js'), outputText],
  ];
}

export class Tree {
  readonly path = mkdtempSync(join(tmpdir(), 'isoverbs-mutants-'));

  private readonly origin: string;

  /** Copies the working tree, or another copy, which does not change when the working tree does. */
  constructor(origin = root) {
    this.origin = origin;
    for (const part of PARTS) cpSync(join(origin, part), join(this.path, part), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(this.path, 'node_modules'));
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  /** Runs tests with some source files changed. */
  async withChanges<T>(changes: ReadonlyMap<string, string>, run: () => Promise<T>): Promise<T> {
    const all = [...changes].flatMap(([file, text]) => built(file, text));
    for (const [file, text] of all) writeFileSync(join(this.path, file), text);
    try {
      return await run();
    } finally {
      for (const [file] of all) cpSync(join(this.origin, file), join(this.path, file));
    }
  }

  /** Kills the tests when none of them has ended for LIMIT_MS. */
  runTests(stage: Stage, options: readonly string[] = []): Promise<Ending> {
    const report = join(this.path, 'report.json');
    rmSync(report, { force: true });
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const reporters = ['--reporter=verbose', '--reporter=json', `--outputFile.json=${report}`];
    const args = [vitest, 'run', '--config', CONFIG, ...reporters, ...options, ...stage.files];
    // ISOVERBS_SEED applies to the mutants; the tests use the seeds of `npm test`.
    const { ISOVERBS_SEED: _, ...inherited } = process.env;
    const env = Object.entries({ ...inherited, ISOVERBS_NO_ADDON: '1', ...stage.env });
    const child = spawn(process.execPath, args, {
      cwd: this.path,
      env: Object.fromEntries(env.filter(([name]) => !name.startsWith('VITEST'))),
      stdio: ['ignore', 'pipe', 'ignore'],
      // A worker that spins does not end with its parent.
      detached: true,
    });
    return new Promise((done) => {
      let isLate = false;
      let silenceMs = 0;
      let heardMs = performance.now();
      const end = () => {
        isLate = true;
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      };
      let timer = setTimeout(end, LIMIT_MS);
      const hear = () => {
        clearTimeout(timer);
        const nowMs = performance.now();
        silenceMs = Math.max(silenceMs, nowMs - heardMs);
        heardMs = nowMs;
        timer = setTimeout(end, LIMIT_MS);
      };
      child.stdout.on('data', hear);
      child.on('exit', (code) => {
        hear();
        clearTimeout(timer);
        if (isLate) return done({ killed: true, how: 'does not end', failed: [], silenceMs });
        const failures = code === 0 ? [] : failuresOf(report);
        const [first] = failures;
        const how = first ? `${first.fullName}: ${first.failureMessages[0]}` : `exit code ${code}`;
        const failed = failures.map(({ fullName }) => fullName);
        done({ killed: code !== 0, how: how.split('\n', 1)[0], failed, silenceMs });
      });
    });
  }
}

interface Assertion {
  status: string;
  fullName: string;
  failureMessages: string[];
}

interface Report {
  testResults: { assertionResults: Assertion[] }[];
}

function failuresOf(report: string): Assertion[] {
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
    const all = testResults.flatMap(({ assertionResults }) => assertionResults);
    return all.filter(({ status }) => status === 'failed');
  } catch {
    return [];
  }
}
