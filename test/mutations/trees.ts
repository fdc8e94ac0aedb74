/** Copies of the tree in which a fault may be put, and the tests that run there. */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const PARTS = ['src', 'test', 'examples', 'dist', 'package.json', 'tsconfig.json', 'vitest.config.ts'];
const TIMEOUT_MS = Number(process.env.ISOVERBS_TIMEOUT_S ?? 180) * 1000;
/** A fault in the shim needs neither many random programs to be found nor the addon. */
const ENV = { ISOVERBS_RUNS: '10', ISOVERBS_NO_ADDON: '1', ISOVERBS_DRIVERS: 'inline' };

/** How a run of tests ended. */
export interface Ending {
  readonly killed: boolean;
  /** The first test that failed, or what happened instead. */
  readonly how: string;
  readonly failed: readonly string[];
}

export class Tree {
  readonly path = mkdtempSync(join(tmpdir(), 'isoverbs-mutants-'));

  private readonly origin: string;

  /** A copy of the working tree, or of one that stays as it was when the working tree is worked on. */
  constructor(origin = root) {
    this.origin = origin;
    for (const part of PARTS) cpSync(join(origin, part), join(this.path, part), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(this.path, 'node_modules'));
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  /** Runs tests with some files changed. */
  async withChanges<T>(changes: ReadonlyMap<string, string>, run: () => Promise<T>): Promise<T> {
    for (const [file, text] of changes) writeFileSync(join(this.path, file), text);
    try {
      return await run();
    } finally {
      for (const file of changes.keys()) cpSync(join(this.origin, file), join(this.path, file));
    }
  }

  runTests(files: readonly string[], options: readonly string[] = []): Promise<Ending> {
    const report = join(this.path, 'report.json');
    rmSync(report, { force: true });
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--reporter=json', `--outputFile.json=${report}`, ...options, ...files];
    const env = Object.entries({ ...process.env, ...ENV }).filter(([name]) => !name.startsWith('VITEST'));
    const child = spawn(process.execPath, args, {
      cwd: this.path,
      env: Object.fromEntries(env),
      stdio: 'ignore',
      // A worker that spins does not end with its parent.
      detached: true,
    });
    return new Promise((done) => {
      let isLate = false;
      const timer = setTimeout(() => {
        isLate = true;
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      }, TIMEOUT_MS);
      child.on('exit', (code) => {
        clearTimeout(timer);
        if (isLate) return done({ killed: true, how: 'does not end', failed: [] });
        const failed = code === 0 ? [] : failures(report);
        done({ killed: code !== 0, how: failed[0] ?? `exit code ${code}`, failed });
      });
    });
  }
}

interface Report {
  testResults: { assertionResults: { status: string; fullName: string }[] }[];
}

function failures(report: string): string[] {
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
    const all = testResults.flatMap(({ assertionResults }) => assertionResults);
    return all.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName);
  } catch {
    return [];
  }
}
