/** A single request of a tool to the daemon, and where the daemon listens. */
import { userInfo } from 'node:os';
import { HandshakeError } from '../../verbs/errors.ts';
import type { TenantRow, ToDaemon } from '../protocol.ts';
import { type Answer, type Connection, connect } from './connection.ts';

/** Limits the wait for a daemon that is stopped. */
const ANSWER_MS = 5000;

/**
 * Sends a request, waits for the answer and disconnects.
 * @returns the answers; a list that arrives in pieces has several
 * @throws HandshakeError if no daemon answers
 */
export function request(socket: string, message: ToDaemon): Promise<readonly Answer[]> {
  return new Promise((resolve, reject) => {
    let connection: Connection | null = null;
    const answers: Answer[] = [];
    const timer = setTimeout(() => {
      connection?.close();
      reject(new HandshakeError(`${socket}: the daemon does not answer`));
    }, ANSWER_MS);
    const on = {
      connected(established: Connection) {
        connection = established;
        established.send(message);
      },
      received(answer: Answer) {
        answers.push(answer);
        if (answer.type === 'tenants' && answer.more) return;
        clearTimeout(timer);
        connection?.close();
        resolve(answers);
      },
      signalled() {},
      ended(error: Error) {
        clearTimeout(timer);
        reject(new HandshakeError(`${socket}: ${error.message}; is \`isoverbs daemon\` running?`));
      },
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

/** The tenants of each device. @throws HandshakeError */
export async function requestTenants(socket: string): Promise<TenantRow[]> {
  return (await request(socket, { type: 'tenants' })).flatMap((answer) => {
    if (answer.type !== 'tenants') throw new HandshakeError(`the daemon answered '${answer.type}'`);
    return answer.rows;
  });
}

/** The socket that programs in this environment use: that in ISOVERBS_DAEMON, or the default one. */
export function socketOf(env: NodeJS.ProcessEnv = process.env): string {
  return env.ISOVERBS_DAEMON || defaultSocket(env);
}

/** The socket of this user's daemon, or of the system's daemon for root. */
export function defaultSocket(env: NodeJS.ProcessEnv = process.env): string {
  const { uid } = userInfo();
  if (uid === 0) return '/run/isoverbs/daemon.sock';
  return `${env.XDG_RUNTIME_DIR ?? `/tmp/isoverbs-${uid}`}/isoverbs.sock`;
}
