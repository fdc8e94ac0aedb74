/**
 * The owners of user IDs. /etc/subuid (man subuid) gives ranges of subordinate IDs to users, each of whom can start
 * programs as any of them. A person is therefore the owner of the range, not the user that the kernel reports.
 */
import { spawnSync } from 'node:child_process';
import { type BigIntStats, readFileSync, statSync } from 'node:fs';
import { readRegularFile } from './regular-file.ts';

const DEFAULT_FILE = '/etc/subuid';
const ROOT = 0;
/** The file is checked for changes this often, if anything connects. */
const CHECK_NS = 1e9;
/** User databases in a network may be slow, or down. */
const LOOK_UP_MS = 2000;
const MAX_LOOK_UPS = 1000;

interface Line {
  readonly name: string;
  readonly first: number;
  readonly last: number;
}

export interface OwnersOptions {
  /** Default: /etc/subuid, which may be absent. */
  readonly file?: string;
  nowNs(): number;
  /** A changed file cannot be read; the ranges of before stay in force. */
  failed(error: Error): void;
}

/** Lines of a file in the format of /etc/subuid; others are ignored, as by newuidmap. */
function linesOf(text: string): Line[] {
  return text.split('\n').flatMap((line) => {
    const [, name, start, count] = /^([^:#\s][^:]*):(\d{1,10}):(\d{1,10})\s*$/.exec(line) ?? [];
    const first = Number(start);
    const last = first + Number(count) - 1;
    return last >= first ? [{ name, first, last }] : [];
  });
}

/** Adds the users of lines in the format of /etc/passwd. */
function addUsers(ids: Map<string, number>, passwd: string): void {
  for (const line of passwd.split('\n')) {
    const [name, , uid] = line.split(':');
    if (/^\d+$/.test(uid ?? '') && !ids.has(name)) ids.set(name, Number(uid));
  }
}

/** The IDs of users by name, from /etc/passwd and, for names that it lacks, from the system's other user databases. */
function idsOf(names: Iterable<string>): Map<string, number> {
  const ids = new Map<string, number>();
  try {
    addUsers(ids, readFileSync('/etc/passwd', 'utf8'));
  } catch {
    // Some containers have none.
  }
  const unknown = [...new Set(names)].filter((name) => !/^\d+$/.test(name) && !ids.has(name));
  if (unknown.length > 0) {
    const args = ['passwd', '--', ...unknown.slice(0, MAX_LOOK_UPS)];
    addUsers(ids, spawnSync('getent', args, { encoding: 'utf8', timeout: LOOK_UP_MS }).stdout ?? '');
  }
  return ids;
}

export class Owners {
  private readonly options: OwnersOptions;
  private readonly file: string;
  private ranges: readonly (Line & { readonly owner: number })[] = [];
  private checkedNs: number;
  private version = '';

  /** @throws ConfigError if the file was named and cannot be read */
  constructor(options: OwnersOptions) {
    this.options = options;
    this.file = options.file ?? DEFAULT_FILE;
    this.checkedNs = options.nowNs();
    const stats = this.stat();
    if (stats !== undefined || options.file !== undefined) this.read(stats);
  }

  /** The user to whom a user ID belongs: the owner of its range, or the user itself. */
  of(uid: number): number {
    this.refresh();
    if (uid === ROOT) return ROOT;
    return this.ranges.find(({ first, last }) => uid >= first && uid <= last)?.owner ?? uid;
  }

  /** Users are added while the daemon runs. */
  private refresh(): void {
    const nowNs = this.options.nowNs();
    if (nowNs - this.checkedNs < CHECK_NS) return;
    this.checkedNs = nowNs;
    const stats = this.stat();
    if (stats === undefined || versionOf(stats) === this.version) return;
    try {
      this.read(stats);
    } catch (error) {
      // Reported once for each version of the file.
      this.version = versionOf(stats);
      this.options.failed(error as Error);
    }
  }

  private stat(): BigIntStats | undefined {
    return statSync(this.file, { bigint: true, throwIfNoEntry: false });
  }

  private read(stats: BigIntStats | undefined): void {
    const lines = linesOf(readRegularFile(this.file));
    const ids = idsOf(lines.map(({ name }) => name));
    this.ranges = lines.map((line) => {
      const owner = /^\d+$/.test(line.name) ? Number(line.name) : ids.get(line.name);
      // A range of root is not root: its IDs run containers, which must not use up what operators need. Such a range, and one
      // of an unknown user, is a user of its own, which has the first ID of the range.
      return { ...line, owner: owner === undefined || owner === ROOT ? line.first : owner };
    });
    this.version = stats === undefined ? '' : versionOf(stats);
  }
}

const versionOf = ({ ino, size, mtimeNs, ctimeNs }: BigIntStats) => `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
