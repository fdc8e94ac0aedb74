// @ts-nocheck
// A hostile program: connects to the daemon and does what the mode says, until the stream ends or its work is
// done. hostile.mjs MODE SOCKET SEED COUNT

import { positionIn } from '../../../dist/coordinator/layout.js';
import { HEARTBEAT } from '../../../dist/coordinator/member-table.js';
import { connect } from '../../../dist/daemon/client/connection.js';
import { connectUnix, createWake } from '../../../dist/daemon/ipc/index.js';
import { frame, VERSION } from '../../../dist/daemon/protocol.js';
import { shares } from '../../../dist/policies/token-bucket/shares.js';
import { Random } from '../../fuzz/random.mjs';

/** The first column that the ruler of shares reads. */
const ratedQpsOf = ({ welcome }) => positionIn(welcome.layout, shares).reportsAt;

const [mode, path, seed, count] = [
  process.argv[2],
  process.argv[3],
  Number(process.argv[4]),
  Number(process.argv[5]),
];
const random = new Random(seed);
const hello = { type: 'hello', version: VERSION, role: 'tool' };
const turn = () => new Promise((done) => setImmediate(done));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** A socket that reads no answers; null if the daemon is too busy to accept it. */
function open() {
  try {
    return connectUnix(path);
  } catch {
    return null;
  }
}

/** Returns the number of bytes sent, or -1 if the daemon closed the connection. */
function send(socket, bytes) {
  try {
    return socket.send(bytes);
  } catch {
    return -1;
  }
}

/** Joins as a shim does. */
function shim(say = {}) {
  return new Promise((done, fail) => {
    connect(
      path,
      { role: 'shim', ...say },
      { connected: done, received() {}, signalled() {}, ended: fail },
      true,
    );
  });
}

const bytesOf = (length) => Uint8Array.from({ length }, () => random.below(256));

/** Complete frames without content, partial frames, wrong lengths, wrong types, wrong versions. */
function garbage() {
  const kind = random.below(6);
  if (kind === 0) return bytesOf(1 + random.below(300));
  if (kind === 1) return frame({ ...hello, version: random.below(1000) + VERSION + 1 });
  const whole = frame({ ...hello, tenant: 'x'.repeat(random.below(100)) });
  if (kind === 2) return whole.subarray(0, 1 + random.below(whole.length - 1));
  if (kind === 3) whole.writeUInt32LE(random.below(2 ** 32));
  else if (kind === 4) whole[4 + random.below(whole.length - 4)] = random.below(256);
  else return Buffer.concat([whole, bytesOf(1 + random.below(300))]);
  return whole;
}

const modes = {
  async garbage() {
    for (let i = 0; i < count; i++) {
      const socket = open();
      if (socket !== null) {
        send(socket, garbage());
        if (random.below(2) === 0) await turn();
        socket.close();
      }
      await turn();
    }
  },
  /** Sends as many messages as possible. */
  async messages() {
    const many = Buffer.concat(
      Array.from({ length: 500 }, () => frame({ type: 'leave', slot: random.below(200) })),
    );
    const end = performance.now() + count;
    let sent = 0;
    while (performance.now() < end) {
      const socket = open();
      if (socket !== null && send(socket, frame({ ...hello, role: 'shim' })) > 0) {
        let went = 0;
        while (went >= 0 && performance.now() < end) {
          went = send(socket, many);
          if (went > 0) sent += went / (many.length / 500);
          await turn();
        }
      }
      socket?.close();
      await turn();
    }
    console.log(Math.round(sent));
  },
  /** Sends signals, with changed counters each time. */
  async rings() {
    const connection = await shim();
    connection.send({ type: 'join', slot: 0, device: 'sim0', tenant: '' });
    const end = performance.now() + count;
    for (let i = 0; performance.now() < end; i++) {
      for (let k = 0; k < 100; k++) {
        connection.pages.counters[ratedQpsOf(connection)] = (i + k) % 2 === 0 ? 1 : 3;
        connection.signal();
      }
      await turn();
    }
    process.exit();
  },
  /** Sends a message that never ends, one byte at a time. */
  async loris() {
    const sockets = Array.from({ length: count }, open).filter((one) => one !== null);
    const text = frame({ ...hello, tenant: 'slow' });
    for (let i = 0; i < text.length - 1; i++) {
      for (const socket of sockets) send(socket, text.subarray(i, i + 1));
      await pause(20);
    }
  },
  /** Opens connections that send a hello and stay, in waves, and closes all of them at once at the end. */
  async crowd() {
    const sockets = [];
    for (let i = 0; i < count; i++) {
      const socket = open();
      if (socket !== null) {
        send(socket, frame({ ...hello, role: i % 2 === 0 ? 'shim' : 'tool' }));
        sockets.push(socket);
      }
      if (sockets.length >= 2500) for (const one of sockets.splice(0, 2000)) one.close();
      if (i % 50 === 0) await turn();
    }
    console.log('full');
    await pause(60_000);
  },
  /** Writes random bytes into its own page. */
  async page() {
    const connection = await shim({ tenant: 'storage', weight: 1e6, traffic: 'latency' });
    for (let slot = 0; slot < 4; slot++) connection.send({ type: 'join', slot, device: 'sim0', tenant: '' });
    await pause(100);
    const bytes = new Uint8Array(connection.pages.counters.buffer);
    for (let i = 0; i < count; i++) {
      // Most writes go to its own seats.
      const from = random.below(10) === 0 ? random.below(bytes.length) : random.below(4 * 128);
      const to = Math.min(bytes.length, from + 1 + random.below(64));
      for (let at = from; at < to; at++) bytes[at] = random.below(256);
      if (random.below(4) === 0) connection.pages.counters[random.below(64)] = special();
      if (i % 20 === 0) connection.signal();
      if (i % 200 === 0) await turn();
    }
    console.log('written');
    process.exit();
  },
  /** Claims to be another tenant, and stays connected. */
  async claim() {
    const connection = await shim({ tenant: 'storage', weight: 1000, traffic: 'latency' });
    connection.send({ type: 'join', slot: 0, device: 'sim0', tenant: 'storage' });
    connection.pages.counters[ratedQpsOf(connection)] = 1;
    connection.signal();
    // Sends signs of life, because otherwise the daemon would soon stop counting it.
    setInterval(() => connection.pages.counters[HEARTBEAT]++, 10);
    console.log(connection.welcome.tenant);
    connection.send({ type: 'set', tenant: 'honest', weight: 0.001 });
    await pause(60_000);
  },
};

function special() {
  return random.pick([Number.NaN, Number.POSITIVE_INFINITY, -1, 1e308, 5e-324, 2 ** 53, -0, 1, 3]);
}

// The addon is loaded while its file may still be read.
for (const end of createWake()) end.close();
if (process.setuid !== undefined && process.getuid() === 0 && process.env.ISOVERBS_UID) {
  process.setgroups([]);
  process.setgid(Number(process.env.ISOVERBS_UID));
  process.setuid(Number(process.env.ISOVERBS_UID));
}
await modes[mode]();
