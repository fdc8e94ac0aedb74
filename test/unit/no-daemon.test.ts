// What tools say when no daemon answers: the way out first, then the path, once.
import { constants } from 'node:os';
import { expect, test } from 'vitest';
import { UNANSWERED } from '../../src/daemon/client/connection.ts';
import { unreachable } from '../../src/daemon/client/tool-request.ts';
import { ConnectionError, HandshakeError } from '../../src/verbs/errors.ts';

const { EACCES, ECONNREFUSED } = constants.errno;
const OTHER = 'or name another socket with --socket or ISOVERBS_DAEMON: no daemon answers at /s';

test.each([
  [
    new ConnectionError('Connection refused (ECONNREFUSED)', { errno: ECONNREFUSED }),
    'ISO_ERR_NO_DAEMON',
    `start \`isoverbs daemon\`, ${OTHER}: Connection refused (ECONNREFUSED)`,
  ],
  [
    new ConnectionError('Permission denied (EACCES)', { errno: EACCES }),
    'ISO_ERR_NO_DAEMON',
    `use an account that may open the socket, ${OTHER}: Permission denied (EACCES)`,
  ],
  [
    new HandshakeError(UNANSWERED),
    'ISO_ERR_NO_DAEMON',
    'check whether the daemon is stopped or overloaded: the daemon at /s does not answer',
  ],
  [new HandshakeError('use the same version'), 'ISO_ERR_HANDSHAKE', '/s: use the same version'],
])('%s', (reason, code, message) => {
  expect(unreachable('/s', reason)).toMatchObject({ code, message, cause: reason });
});
