/** Paths of Unix sockets. */
import { ConfigError } from '../../verbs/errors.ts';

/** Stands in place of a path for: no daemon. */
export const NO_DAEMON = 'none';

/** The kernel's limit (man 7 unix), without the terminating zero. */
const MAX_PATH_BYTES = 107;

/** @param key where the path comes from. @throws ConfigError for a path that cannot be one of a socket */
export function requireSocketPath(path: string, key: string): void {
  const bytes = Buffer.byteLength(path);
  if (path === NO_DAEMON)
    throw new ConfigError(
      `${key}: '${NO_DAEMON}' turns the daemon off, so choose another path for the socket`,
    );
  if (path.includes('\0')) throw new ConfigError(`${key}: the path of a socket must not contain a null byte`);
  if (bytes <= MAX_PATH_BYTES) return;
  throw new ConfigError(
    `${key}: ${path} has ${bytes} bytes; the path of a socket has up to ${MAX_PATH_BYTES} bytes, so choose a shorter one`,
  );
}
