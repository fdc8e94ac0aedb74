/** A single request of a tool to the daemon, and where the daemon listens. */
import { constants, userInfo } from 'node:os';
import { ConfigError, HandshakeError, NoDaemonError } from '../../verbs/errors.ts';
import { NO_DAEMON } from '../ipc/socket-path.ts';
import type { DeviceRow, TenantRow, ToDaemon } from '../protocol.ts';
import { type Answer, type Connection, connect, UNANSWERED } from './connection.ts';

/** Limits the wait for a daemon that is stopped. */
const ANSWER_MS = 5000;

const ACCESS = constants.errno.EACCES;

/**
 * The error of a tool without a connection to the daemon. Its message begins with the way out.
 * @param reason why the connection ended or was not made, without the path of the socket
 */
export function unreachable(socket: string, reason: Error): NoDaemonError | HandshakeError {
  const { message, errno } = reason as Error & { errno?: number };
  const details = { errno, cause: reason };
  if (message === UNANSWERED) {
    const way = 'check whether the daemon is stopped or overloaded';
    return new NoDaemonError(`${way}: the daemon at ${socket} does not answer`, details);
  }
  // Something answered: the message says what is wrong with it.
  if (reason instanceof HandshakeError) return new HandshakeError(`${socket}: ${message}`, details);
  const way = errno === ACCESS ? 'use an account that may open the socket' : 'start `isoverbs daemon`';
  return new NoDaemonError(
    `${way}, or name another socket with --socket or ISOVERBS_DAEMON: no daemon answers at ${socket}: ${message}`,
    details,
  );
}

/**
 * Sends a request, waits for the answer and disconnects.
 * @returns the answers; a list that arrives in pieces has several
 * @throws NoDaemonError if no daemon answers; HandshakeError if it refuses the tool, or speaks another protocol
 */
export function request(socket: string, message: ToDaemon): Promise<readonly Answer[]> {
  return new Promise((resolve, reject) => {
    let connection: Connection | null = null;
    const answers: Answer[] = [];
    const timer = setTimeout(() => {
      connection?.close();
      reject(unreachable(socket, new HandshakeError(UNANSWERED)));
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
        reject(unreachable(socket, error));
      },
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

/** What the daemon lists. */
export interface TenantListing {
  readonly rows: readonly TenantRow[];
  /** The devices of the host, and the daemon's default policy; '' for none. An older daemon reports neither. */
  readonly devices?: readonly DeviceRow[];
  readonly policy?: string;
}

/** The tenants of each device. @throws NoDaemonError, HandshakeError */
export async function requestTenants(socket: string): Promise<TenantRow[]> {
  return [...(await requestListing(socket)).rows];
}

/** The tenants of each device, the devices, and the daemon's policy. @throws NoDaemonError, HandshakeError */
export async function requestListing(socket: string): Promise<TenantListing> {
  const parts = (await request(socket, { type: 'tenants' })).map((answer) => {
    if (answer.type !== 'tenants') throw new HandshakeError(`the daemon answered '${answer.type}'`);
    return answer;
  });
  const [{ devices, policy }] = parts;
  return { rows: parts.flatMap(({ rows }) => rows), devices, policy };
}

/**
 * The socket that programs in this environment use: that in ISOVERBS_DAEMON, or the default one.
 * @throws ConfigError if they use no daemon
 */
export function socketOf(env: NodeJS.ProcessEnv = process.env): string {
  if (env.ISOVERBS_DAEMON !== NO_DAEMON) return env.ISOVERBS_DAEMON || defaultSocket(env);
  throw new ConfigError(
    `ISOVERBS_DAEMON=${NO_DAEMON} turns the daemon off: unset the variable, or name a socket with --socket`,
  );
}

/** The socket of this user's daemon, or of the system's daemon for root. */
function defaultSocket(env: NodeJS.ProcessEnv = process.env): string {
  const { uid } = userInfo();
  if (uid === 0) return '/run/isoverbs/daemon.sock';
  return `${env.XDG_RUNTIME_DIR ?? `/tmp/isoverbs-${uid}`}/isoverbs.sock`;
}
