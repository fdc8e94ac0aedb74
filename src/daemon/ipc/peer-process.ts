/**
 * What the system reports about the process at the other end of a connection: its cgroup and command line. The process may
 * have handed its socket over to another one and exited, and its number may now be another process's.
 */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import type { PeerCredentials } from './native.ts';
import type { UnixSocket } from './socket.ts';

/** The content of a file in /proc; '' if it is empty or the process is gone. */
export function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

/**
 * Limits how much of a command line is read. Command lines can have megabytes, and a program that connects
 * again and again must not make the daemon read them each time.
 */
const COMMAND_LINE = Buffer.alloc(16384);
const SPACE = 0x20;

/** The arguments joined by spaces; null if unknown. */
function commandOf(pid: number): string | null {
  let fd: number;
  try {
    fd = openSync(`/proc/${pid}/cmdline`, 'r');
  } catch {
    return null;
  }
  try {
    let length = 0;
    for (let readBytes = 1; readBytes > 0; length += readBytes)
      readBytes = readSync(fd, COMMAND_LINE, length, COMMAND_LINE.length - length, null);
    for (let i = 0; i < length; i++) if (COMMAND_LINE[i] === 0) COMMAND_LINE[i] = SPACE;
    return COMMAND_LINE.toString('utf8', 0, length).trim();
  } catch {
    return null;
  } finally {
    closeSync(fd);
  }
}

/**
 * The path in the unified hierarchy, or in the first one listed if there is no unified hierarchy; '' on a system without
 * cgroups, null if unknown.
 */
function cgroupOf(pid: number): string | null {
  try {
    const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n');
    const line = lines.find((one) => one.startsWith('0::')) ?? lines[0];
    return line.split(':').slice(2).join(':');
  } catch {
    return null;
  }
}

/** Whether the process with this number belongs to the user. */
function isProcessOf(pid: number, uid: number): boolean {
  const line = /^Uid:(.*)$/m.exec(procFile(pid, 'status'))?.[1] ?? '';
  return line.split('\t').includes(String(uid));
}

/** When the process with this number started, in ticks since the system did; '' if unknown. */
function startOf(pid: number): string {
  const stat = procFile(pid, 'stat');
  // The command's name, in parentheses, may contain any character.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[START_TICKS] ?? '';
}

/** The position in that file after the command's name (`man proc_pid_stat`). */
const START_TICKS = 19;

export class PeerProcess {
  private readonly credentials: PeerCredentials;
  private readonly raw: UnixSocket;
  /** Of the process that had the number when the connection was accepted; '' where the kernel knows better. */
  private readonly startTicks: string;
  /** Read when the connection is accepted. Null if it cannot be read. */
  readonly cgroup: string | null;
  private knownCommand: string | null = null;

  /** The socket need not be open later, but only while it is can more be read. */
  constructor(raw: UnixSocket, credentials: PeerCredentials) {
    [this.raw, this.credentials] = [raw, credentials];
    this.startTicks = raw.isPeerAlive() === null ? startOf(credentials.pid) : '';
    this.cgroup = this.ifSame(cgroupOf(credentials.pid));
  }

  /**
   * Read when it is first asked for, because it is stored in the process's own memory: a process that holds that memory's
   * lock (FUSE) stalls every reader. Null if it cannot be read.
   */
  get command(): string | null {
    this.knownCommand ??= this.ifSame(commandOf(this.credentials.pid));
    return this.knownCommand;
  }

  /** What has just been read, if the process that connected still had its number then. */
  private ifSame(text: string | null): string | null {
    const { raw, startTicks } = this;
    const { pid, uid } = this.credentials;
    if (text === null || pid === 0 || raw.closed) return null;
    // Before Linux 6.5, only a number that is used again between connect and accept goes unnoticed.
    const isSame = raw.isPeerAlive() ?? (startOf(pid) === startTicks && isProcessOf(pid, uid));
    return isSame ? text : null;
  }
}
