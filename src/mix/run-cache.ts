/** Keeps results of runs in a folder, so that an interrupted report continues where it stopped. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders } from '../interceptors/folders.ts';
import { ConfigError } from '../verbs/errors.ts';
import type { MixResult } from './result.ts';

/** The folder of the running code: dist, or src. */
const CODE = new URL('../', import.meta.url);
/** Code on which no result depends. The mixtures of claims and figures are part of each job's key. */
const IGNORED = ['papers/', 'compare/', 'cli/', 'daemon/'];

/** Hash of all code on which a run may depend. @param more folders of IGNORED on which it does depend */
export function buildHash(more: readonly string[] = []): string {
  const ignored = IGNORED.filter((folder) => !more.includes(folder));
  const hash = createHash('sha256');
  const files = readdirSync(CODE, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /(?<!\.d)\.[jt]s$/.test(file) && !ignored.some((folder) => file.startsWith(folder)));
  for (const file of files.sort()) hash.update(`${file}\n`).update(readFileSync(new URL(file, CODE)));
  return hash.digest('hex');
}

/** A job, by its content. */
interface Keyed {
  readonly key: string;
}

/** One file per run, named by a hash of the build and of the job's content. */
export class RunCache<R = MixResult> {
  private readonly folder: string;
  private readonly build: string;

  /**
   * @param build results of other builds are ignored
   * @throws ConfigError for a folder that cannot be written, instead of an error at the end of the first run
   */
  constructor(folder: string, build: string) {
    this.folder = folder;
    this.build = build;
    const probe = join(folder, `probe.${process.pid}`);
    try {
      makeFolders(folder);
      writeFileSync(probe, '');
      rmSync(probe);
    } catch (cause) {
      throw new ConfigError(
        `--keep: ${folder} cannot be written: ${(cause as Error).message}; choose another folder`,
        { cause },
      );
    }
  }

  get(job: Keyed): R | undefined {
    const file = this.fileOf(job);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  }

  /** Writes to a temporary file first: an interrupted process leaves no partial result. */
  put(job: Keyed, result: R): void {
    const file = this.fileOf(job);
    writeFileSync(`${file}.${process.pid}`, JSON.stringify(result));
    renameSync(`${file}.${process.pid}`, file);
  }

  private fileOf({ key }: Keyed): string {
    const name = createHash('sha256').update(`${this.build}\n${key}`).digest('hex');
    return join(this.folder, `${name}.json`);
  }
}
