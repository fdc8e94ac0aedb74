import { userInfo } from 'node:os';

/** Where the daemon of this user listens, or that of the system. */
export function defaultSocket(env: NodeJS.ProcessEnv = process.env): string {
  const { uid } = userInfo();
  if (uid === 0) return '/run/isoverbs/daemon.sock';
  return `${env.XDG_RUNTIME_DIR ?? `/tmp/isoverbs-${uid}`}/isoverbs.sock`;
}
