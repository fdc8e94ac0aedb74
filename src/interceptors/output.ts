/** Output files of interceptors. Two writers never share a file. */
import { closeSync, openSync, readSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import { threadId } from 'node:worker_threads';
import { FileError } from '../verbs/errors.ts';

/** Every file begins with 8 bytes of magic, the version, the length of the JSON header, and that header. */
export const MAGIC_BYTES = 8;
const FIXED_BYTES = 16;
const MAX_HEADER_BYTES = 65536;

/** The process and thread that wrote a file. */
export interface WriterInfo {
  pid: number;
  thread: number;
}

/** A file that is open for writing. */
export interface OutputFile {
  fd: number;
  path: string;
}

const openPaths = new Set<string>();

/**
 * Opens a file for writing. `{pid}` and `{thread}` in the name are replaced. An old file is overwritten, but if another
 * writer has it open, the name gets a number. Its folder must exist: a misspelt path would otherwise make folders.
 * @throws FileError
 */
export function openOutput(name: string): OutputFile {
  const wanted = resolve(
    name.replaceAll('{pid}', String(process.pid)).replaceAll('{thread}', String(threadId)),
  );
  const suffix = extname(wanted);
  const stem = wanted.slice(0, wanted.length - suffix.length);
  for (let n = 1; ; n++) {
    const path = n === 1 ? wanted : `${stem}-${n}${suffix}`;
    if (openPaths.has(path) || isTaken(path)) continue;
    try {
      const fd = openSync(path, 'w');
      openPaths.add(path);
      return { fd, path };
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const hint = code === 'ENOENT' ? `; create the folder ${dirname(path)}, or choose another` : '';
      throw new FileError(`${path}: cannot be written: ${message}${hint}`, { cause });
    }
  }
}

/** Frees the name of a closed file for reuse. */
export function releaseOutput(path: string): void {
  openPaths.delete(path);
}

/** Encodes a file header: the fields of all formats, then `details`. */
export function encodeHeader(magic: string, version: number, details: object): Buffer {
  const writer: WriterInfo = { pid: process.pid, thread: threadId };
  let json = JSON.stringify({ ...writer, ...details });
  json = json.padEnd((Buffer.byteLength(json) + 3) & ~3);
  const head = Buffer.alloc(FIXED_BYTES);
  head.write(magic, 'latin1');
  head.writeUInt32LE(version, 8);
  head.writeUInt32LE(Buffer.byteLength(json), 12);
  return Buffer.concat([head, Buffer.from(json)]);
}

/**
 * Reads the header that encodeHeader wrote.
 * @param kind name of the file type, for error messages
 * @throws FileError for a file of another kind or version
 */
export function readHeader<T extends object>(
  fd: number,
  path: string,
  kind: string,
  magic: string,
  version: number,
) {
  const head = Buffer.alloc(FIXED_BYTES);
  const got = readSync(fd, head, 0, FIXED_BYTES, 0);
  if (got < FIXED_BYTES || head.toString('latin1', 0, MAGIC_BYTES) !== magic) {
    throw new FileError(`${path}: not a ${kind}`);
  }
  const found = head.readUInt32LE(8);
  if (found !== version) {
    throw new FileError(`${path}: has version ${found}; this isoverbs reads version ${version}`);
  }
  const bytes = head.readUInt32LE(12);
  const json = Buffer.alloc(Math.min(bytes, MAX_HEADER_BYTES));
  if (bytes > MAX_HEADER_BYTES || readSync(fd, json, 0, bytes, FIXED_BYTES) < bytes) {
    throw new FileError(`${path}: ends inside its header`);
  }
  try {
    return { header: JSON.parse(json.toString()) as T & WriterInfo, endBytes: FIXED_BYTES + bytes };
  } catch (cause) {
    throw new FileError(`${path}: its header is damaged`, { cause });
  }
}

/** Opens a file for reading. @throws FileError */
export function openInput(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (cause) {
    throw new FileError(`${path}: cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** Whether, according to the header, another live process or thread is writing this file. */
function isTaken(path: string): boolean {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch {
    return false;
  }
  try {
    const head = Buffer.alloc(FIXED_BYTES + 256);
    const got = readSync(fd, head, 0, head.length, 0);
    const match = /^.{16}\{"pid":(\d+),"thread":(\d+)/s.exec(head.toString('latin1', 0, got));
    if (match === null) return false;
    const pid = Number(match[1]);
    if (pid === process.pid) return Number(match[2]) !== threadId;
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  } finally {
    closeSync(fd);
  }
}

/** Actions at the end of the process or worker, behind a single `exit` listener. */
const exitActions = new Set<() => void>();

function runExitActions(): void {
  for (const action of [...exitActions]) action();
}

/** Registers `action` for the exit. The returned function cancels it. */
export function atExit(action: () => void): () => void {
  if (exitActions.size === 0) process.on('exit', runExitActions);
  exitActions.add(action);
  return () => {
    exitActions.delete(action);
    if (exitActions.size === 0) process.off('exit', runExitActions);
  };
}
