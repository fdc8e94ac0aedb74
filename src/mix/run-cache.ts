/** Results of runs that are kept in a folder: a report that was interrupted goes on where it was. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MixResult } from './result.ts';

/** dist, or src. */
const CODE = new URL('../', import.meta.url);
/** What no result depends on. The mixtures of claims and figures are in the commands of their runs. */
const BESIDE = ['papers/', 'compare/', 'cli/', 'daemon/'];

/** Hash of all code that a run may depend on. */
export function buildHash(): string {
  const hash = createHash('sha256');
  const files = readdirSync(CODE, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /(?<!\.d)\.[jt]s$/.test(file) && !BESIDE.some((folder) => file.startsWith(folder)));
  for (const file of files.sort()) hash.update(`${file}\n`).update(readFileSync(new URL(file, CODE)));
  return hash.digest('hex');
}

/** One file for each run, named by the code and by the command. */
export class Kept {
  private readonly folder: string;
  private readonly build: string;

  /** @param build results of any other are not seen */
  constructor(folder: string, build: string) {
    this.folder = folder;
    this.build = build;
    mkdirSync(folder, { recursive: true });
  }

  get(command: string): MixResult | undefined {
    const file = this.fileOf(command);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  }

  /** Whoever is stopped meanwhile leaves no half of a file. */
  put(command: string, result: MixResult): void {
    const file = this.fileOf(command);
    writeFileSync(`${file}.${process.pid}`, JSON.stringify(result));
    renameSync(`${file}.${process.pid}`, file);
  }

  private fileOf(command: string): string {
    const name = createHash('sha256').update(`${this.build}\n${command}`).digest('hex');
    return join(this.folder, `${name}.json`);
  }
}
