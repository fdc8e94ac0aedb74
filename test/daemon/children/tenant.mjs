// @ts-nocheck
// Joins as a tenant would: receives the pages and the wake-up, answers each signal, ends with the stream.
import net from 'node:net';
import { connectUnix, openMemory, Wake } from '../../../dist/daemon/ipc/index.js';

const socket = connectUnix(process.argv[2]);
const buffer = new Uint8Array(64);
socket.watch(() => {
  const got = socket.receive(buffer, 3);
  if (got !== null) join(got);
});

function join({ bytes, fds }) {
  if (Buffer.from(buffer.subarray(0, bytes)).toString() !== 'welcome') throw new Error('not welcome');
  const counters = openMemory(fds[0], 4096, { writable: true });
  const grants = openMemory(fds[1], 4096);
  const wake = new Wake(fds[2]);
  const written = new Float64Array(counters.buffer);
  const granted = new Float64Array(grants.buffer);
  wake.watch(() => {
    written[0] = granted[0] + 1;
    wake.signal();
  });
  const stream = new net.Socket({ fd: socket.take(), readable: true, writable: true });
  stream.write('hello');
  let said = '';
  stream.on('data', (chunk) => {
    said += chunk;
  });
  stream.on('end', () => {
    for (const one of [counters, grants, wake]) one.close();
    console.log(said === 'end' ? 'pass' : said);
  });
}
