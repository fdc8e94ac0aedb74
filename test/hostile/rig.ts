/** Hostile programs of another user, in Python, because Node.js cannot send descriptors. */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { VERSION } from '../../src/daemon/protocol.ts';
import { hasPython, newPath, reason as noAddon } from '../daemon/rig.ts';
import { until, World } from '../daemon/world.ts';

export const isRoot = process.getuid?.() === 0;
/** The user that hostile programs run as, if this process may start programs as that user. */
export const EVIL_UID = isRoot ? 54321 : process.getuid!();
/** Why the tests cannot run here; empty if they can. */
export const reason = noAddon || (hasPython ? '' : 'hostile programs require python3');
/** Why the tests that require another user cannot run here; empty if they can. */
export const noOtherUser = reason || (isRoot ? '' : 'only root can start programs as another user');
if (reason === '' && noOtherUser !== '') console.warn(`skipped: ${noOtherUser}`);

export interface Evil {
  readonly child: ChildProcess;
  /** The lines printed so far. */
  readonly lines: () => string[];
  /** Resolves when this process has ended; its children may still run. */
  readonly exited: Promise<void>;
}

/** Starts a program of test/hostile/children as another user. It ends when its input does. */
export function evil(file: string, ...args: string[]): Evil {
  const child = spawn('python3', [join(import.meta.dirname, 'children', file), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, PROTOCOL_VERSION: `${VERSION}` },
    ...(isRoot && { uid: EVIL_UID, gid: EVIL_UID }),
  });
  let printed = '';
  child.stdout.on('data', (text) => {
    printed += text;
  });
  child.stdin.on('error', () => {});
  const exited = new Promise<void>((done) => child.once('exit', () => done()));
  return { child, lines: () => printed.split('\n').slice(0, -1), exited };
}

/** A daemon that programs of other users can reach. */
export class HostileWorld extends World {
  constructor(config?: string) {
    super(config);
    chmodSync(this.folder, 0o755);
  }

  /** Gives the daemon other rules. */
  async reload(config: string): Promise<void> {
    writeFileSync(this.config, config);
    this.log = '';
    this.daemon!.kill('SIGHUP');
    await until('the daemon has reloaded its configuration', () => this.log.includes('reloaded the rules'));
  }
}

/** A new folder that other users can reach, in which they may do what its permissions allow. */
export function folder(mode = 0o755): string {
  const path = newPath();
  mkdirSync(path);
  chmodSync(dirname(path), 0o755);
  chmodSync(path, mode);
  return path;
}
