// @ts-nocheck
// Clients of several users in one process, which must run as root: the kernel reports the effective user at the time of
// the connection. many-users.mjs SOCKET CLIENTS CONTEXTS UID... opens CLIENTS clients as each user, with CONTEXTS contexts
// of DEVICE each, and prints `{ uid, tenant, joined, refused }` for each client. Then it keeps all of them alive.
// If LIES is set, their other counters change all the time, to values that are possible and values that are not.

import { positionIn } from '../../../dist/coordinator/layout.js';
import { HEARTBEAT } from '../../../dist/coordinator/member-table.js';
import { connect } from '../../../dist/daemon/client/connection.js';
import { createWake } from '../../../dist/daemon/ipc/index.js';
import { shares } from '../../../dist/policies/token-bucket/shares.js';

const [path, clients, contexts, ...uids] = process.argv.slice(2);
const { LIES, DEVICE = 'sim0' } = process.env;
const rows = [];

/** Resolves when all contexts have been answered, or the daemon refuses the client. */
function client(uid) {
  return new Promise((done) => {
    const said = { uid, tenant: '', joined: 0, refused: [] };
    const answered = () => {
      if (said.joined + said.refused.length === Number(contexts)) done(said);
    };
    process.seteuid(uid);
    connect(
      path,
      { role: 'shim' },
      {
        connected(connection) {
          said.tenant = connection.welcome.tenant;
          const at = positionIn(connection.welcome.layout, shares).reportsAt;
          for (let slot = 0; slot < Number(contexts); slot++) {
            const row = connection.rowAt(slot);
            row.counters[at] = 1;
            rows.push(row.counters);
            connection.send({ type: 'join', slot, device: DEVICE, tenant: '' });
          }
          connection.signal();
          answered();
        },
        received(message) {
          if (message.type === 'joined') said.joined++;
          else if (message.type === 'refused') said.refused.push(message.reason);
          answered();
        },
        signalled() {},
        ended(error) {
          said.refused.push(error.message);
          done(said);
        },
      },
      true,
    );
    process.seteuid(0);
  });
}

// The addon is loaded while its file may still be read.
for (const end of createWake()) end.close();
const FALSE_VALUES = [
  0,
  1,
  4096,
  2 ** 52,
  2 ** 53,
  -1,
  1e308,
  Number.MIN_VALUE,
  Number.NaN,
  Number.POSITIVE_INFINITY,
];
let turns = 0;

function lie(row) {
  for (let at = 0; at < row.length; at++) {
    if (at !== HEARTBEAT) row[at] = FALSE_VALUES[(turns + 7 * at) % FALSE_VALUES.length];
  }
}

setInterval(() => {
  turns++;
  for (const row of rows) {
    row[HEARTBEAT]++;
    if (LIES) lie(row);
  }
}, 10);
for (const uid of uids.map(Number)) {
  for (let i = 0; i < Number(clients); i++) console.log(JSON.stringify(await client(uid)));
}
console.log('all');
