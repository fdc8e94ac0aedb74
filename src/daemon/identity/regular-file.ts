/** Reads files of which only the path is given: a FIFO would block the process, and a device may never end. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { ConfigError } from '../../verbs/errors.ts';

/** More than a file of a million rules has. */
const MAX_BYTES = 256 << 20;

/** The text of a regular file. @throws ConfigError for any other file, and if it cannot be read */
export function readRegularFile(path: string): string {
  let fd: number | undefined;
  try {
    // A FIFO without a writer would block, and so would some devices.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const stats = fstatSync(fd);
    if (!stats.isFile() && !stats.isDirectory()) {
      throw new ConfigError('it is not a regular file; copy its contents into one');
    }
    if (stats.size > MAX_BYTES) throw new ConfigError(`it has more than ${MAX_BYTES >> 20} MiB`);
    return readFileSync(fd, 'utf8');
  } catch (error) {
    throw new ConfigError(`${path} cannot be read: ${(error as Error).message}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
