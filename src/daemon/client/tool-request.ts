/** One question to the daemon: what tools ask, who join nothing. */
import { HandshakeError } from '../../verbs/errors.ts';
import type { TenantRow, ToDaemon } from '../protocol.ts';
import { type Answer, type Connection, connect } from './connection.ts';

/** A daemon that is stopped does not keep who asks it waiting. */
const ANSWER_MS = 5000;

/**
 * Asks, and hangs up.
 * @returns its answers: of a list that comes in pieces, all of them
 * @throws HandshakeError when no daemon answers
 */
export function ask(socket: string, question: ToDaemon): Promise<readonly Answer[]> {
  return new Promise((resolve, reject) => {
    let connection: Connection | null = null;
    const answers: Answer[] = [];
    const timer = setTimeout(() => {
      connection?.close();
      reject(new HandshakeError(`${socket}: the daemon does not answer`));
    }, ANSWER_MS);
    const on = {
      answered(one: Connection) {
        connection = one;
        one.say(question);
      },
      heard(answer: Answer) {
        answers.push(answer);
        if (answer.type === 'tenants' && answer.more) return;
        clearTimeout(timer);
        connection?.close();
        resolve(answers);
      },
      rang() {},
      ended(error: Error) {
        clearTimeout(timer);
        reject(new HandshakeError(`${socket}: ${error.message}; is \`isoverbs daemon\` running?`));
      },
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

/** The tenants of each device. @throws HandshakeError */
export async function askTenants(socket: string): Promise<TenantRow[]> {
  return (await ask(socket, { type: 'tenants' })).flatMap((answer) => {
    if (answer.type !== 'tenants') throw new HandshakeError(`the daemon answered '${answer.type}'`);
    return answer.rows;
  });
}
