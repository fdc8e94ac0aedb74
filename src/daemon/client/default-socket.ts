import { userInfo } from 'node:os';

/** The socket of this user's daemon, or of the system's daemon for root. */
export function defaultSocket(env: NodeJS.ProcessEnv = process.env): string {
  const { uid } = userInfo();
  if (uid === 0) return '/run/isoverbs/daemon.sock';
  return `${env.XDG_RUNTIME_DIR ?? `/tmp/isoverbs-${uid}`}/isoverbs.sock`;
}
