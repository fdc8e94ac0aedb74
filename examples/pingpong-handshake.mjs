// @ts-nocheck
// The TCP handshake of rdma-core's pingpong programs (ibv_rc_pingpong and others). Each end sends the addresses of its
// queue pairs, the client first. The server is ready to receive before it answers.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { ConnectionError, gidToBytes, gidToString } from 'isoverbs';

const ADDRESS_BYTES = 'LLLL:QQQQQQ:PPPPPP:'.length + 32 + 1;
const DONE = 'done\0';

/** Encodes lid:qpn:psn:gid in hexadecimal, with a trailing zero byte. */
function encode({ lid, qpNum, psn, gid }) {
  const hex = (number, digits) => number.toString(16).padStart(digits, '0');
  const wireGid = Buffer.from(gid === '' ? new Uint8Array(16) : gidToBytes(gid)).toString('hex');
  return Buffer.from(`${hex(lid, 4)}:${hex(qpNum, 6)}:${hex(psn, 6)}:${wireGid}\0`);
}

function decode(bytes) {
  const match = /^([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\0$/.exec(bytes.toString('latin1'));
  if (match === null)
    throw new Error(`the peer sent an invalid address: ${JSON.stringify(bytes.toString('latin1'))}`);
  const [lid, qpNum, psn] = match.slice(1, 4).map((hex) => Number.parseInt(hex, 16));
  return { lid, qpNum, psn, gid: gidToString(Buffer.from(match[4], 'hex')) };
}

/** Returns a function that reads exactly `length` bytes from a socket. */
function reader(socket) {
  const chunks = socket[Symbol.asyncIterator]();
  let held = Buffer.alloc(0);
  return async (length) => {
    while (held.length < length) {
      const { value, done } = await chunks.next();
      if (done) throw new Error('the peer closed the connection during the handshake');
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
 * Sends the peer the list of endpoints `mine`, and returns as many of the peer's. `connectQps(theirs)` runs when they
 * are known. With `host` this end is the client. Without it, it is the server, and `listening(port)` runs when it
 * listens.
 */
export async function exchange({ host, port, mine, connectQps, listening = (_port) => {} }) {
  const addresses = Buffer.concat(mine.map(encode));
  if (host !== undefined) {
    const socket = connect(port, host);
    await once(socket, 'connect').catch(({ message }) => {
      throw new ConnectionError(`no pingpong server answers at ${host}, port ${port}: ${message}`);
    });
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
