// @ts-nocheck
// The handshake of rdma-core's pingpong programs (ibv_rc_pingpong and its kin), over TCP: each end tells
// where its queue pairs are, the client first; the server is ready to receive before it answers.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { gidToBytes, gidToString } from 'isoverbs';

const ADDRESS_BYTES = 'LLLL:QQQQQQ:PPPPPP:'.length + 32 + 1;
const DONE = 'done\0';

/** lid:qpn:psn:gid in hexadecimal, and a zero byte. */
function encode({ lid, qpNum, psn, gid }) {
  const hex = (number, digits) => number.toString(16).padStart(digits, '0');
  const wireGid = Buffer.from(gid === '' ? new Uint8Array(16) : gidToBytes(gid)).toString('hex');
  return Buffer.from(`${hex(lid, 4)}:${hex(qpNum, 6)}:${hex(psn, 6)}:${wireGid}\0`);
}

function decode(bytes) {
  const match = /^([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\0$/.exec(bytes.toString('latin1'));
  if (match === null) throw new Error(`the peer sent ${JSON.stringify(bytes.toString('latin1'))}`);
  const [lid, qpNum, psn] = match.slice(1, 4).map((hex) => Number.parseInt(hex, 16));
  return { lid, qpNum, psn, gid: gidToString(Buffer.from(match[4], 'hex')) };
}

/** Takes exactly so many bytes of a socket at a time, however they come. */
function reader(socket) {
  const chunks = socket[Symbol.asyncIterator]();
  let held = Buffer.alloc(0);
  return async (length) => {
    while (held.length < length) {
      const { value, done } = await chunks.next();
      if (done) throw new Error('the peer went away during the handshake');
      held = Buffer.concat([held, value]);
    }
    const bytes = held.subarray(0, length);
    held = held.subarray(length);
    return bytes;
  };
}

async function readAddresses(read, count) {
  const bytes = await read(count * ADDRESS_BYTES);
  return Array.from({ length: count }, (_, i) => {
    return decode(bytes.subarray(i * ADDRESS_BYTES, (i + 1) * ADDRESS_BYTES));
  });
}

/**
 * Tells the peer `mine`, a list of endpoints, and returns as many of its own; `connectQps(theirs)` runs when they
 * are known. With `host` we are the client; without it the server, which says `listening(port)` when it is.
 */
export async function exchange({ host, port, mine, connectQps, listening = (_port) => {} }) {
  const addresses = Buffer.concat(mine.map(encode));
  if (host !== undefined) {
    const socket = connect(port, host);
    socket.write(addresses);
    const theirs = await readAddresses(reader(socket), mine.length);
    await new Promise((resolve) => socket.end(DONE, resolve));
    socket.destroy();
    connectQps(theirs);
    return theirs;
  }
  const server = createServer().listen(port);
  server.once('listening', () => listening(server.address().port));
  const [socket] = await once(server, 'connection');
  server.close();
  const read = reader(socket);
  const theirs = await readAddresses(read, mine.length);
  connectQps(theirs);
  socket.write(addresses);
  await read(DONE.length);
  socket.destroy();
  return theirs;
}
