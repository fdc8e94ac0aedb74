// @ts-nocheck
// A key-value store over RDMA. GET is one RDMA_READ of the server's table, without the server's CPU.
// PUT is a SEND, answered by a SEND.
//
//   node examples/kv-store.mjs                          both ends in this process
//   node examples/kv-store.mjs --listen 7471            the server
//   node examples/kv-store.mjs --connect HOST:7471      the client
import { connect, expectSuccess, IBV_SEND_SIGNALED, listen } from 'isoverbs';
import { interruption, isProgram, limits, quantile, run } from './cli.mjs';

// A record (table entry or PUT message): version u32, two lengths u8, key at 8, value at 40, version at 124.
const RECORD_BYTES = 128;
const KEY_MAX = 32;
const VALUE_MAX = 84;
const DEPTH = 16; // outstanding PUTs per client

function encode(record, key, value) {
  const bytes = Buffer.from(key);
  if (bytes.length > KEY_MAX || value.length > VALUE_MAX) throw new RangeError('key or value too long');
  record.set([bytes.length, value.length], 4);
  record.set(bytes, 8);
  record.set(value, 8 + KEY_MAX);
}

const keyIn = (record) => Buffer.from(record.subarray(8, 8 + record[4])).toString();
const valueIn = (record) => Buffer.from(record.subarray(8 + KEY_MAX, 8 + KEY_MAX + record[5]));

/** FNV-1a: the first entry to try for a key; on a collision, the next ones follow. */
function hash(key) {
  let h = 0x811c9dc5;
  for (const byte of Buffer.from(key)) h = Math.imul(h ^ byte, 0x01000193) >>> 0;
  return h;
}

/** Puts a record into the table; returns false when it is full. */
function store(table, entries, record) {
  const key = keyIn(record);
  for (let probe = 0; probe < entries; probe++) {
    const entry = Buffer.from(table.buffer, ((hash(key) + probe) % entries) * RECORD_BYTES, RECORD_BYTES);
    if (entry[4] !== 0 && keyIn(entry) !== key) continue;
    const version = (entry.readUInt32LE(0) + 1) >>> 0;
    entry.writeUInt32LE(version, RECORD_BYTES - 4); // a reader that sees two different versions retries
    entry.set(record.subarray(4, RECORD_BYTES - 4), 4);
    entry.writeUInt32LE(version, 0);
    return true;
  }
  return false;
}

/** Answers PUTs until the queue is closed. The receives of a client that left are flushed. */
async function answer(cq, table, entries, clients) {
  for await (const { status, isRecv, wrId, qp } of cq) {
    const client = clients.get(qp);
    // Closing the connection informs the client, which would otherwise wait for its answer.
    if (status !== 0) qp?.close();
    if (status !== 0 || !isRecv || client === undefined) continue;
    const i = Number(wrId);
    client.replies.bytes[i] = store(
      table,
      entries,
      client.requests.bytes.subarray(i * RECORD_BYTES, (i + 1) * RECORD_BYTES),
    );
    qp.receive({ wrId, sgList: [{ mr: client.requests, offset: i * RECORD_BYTES, length: RECORD_BYTES }] });
    qp.post({ opcode: 'SEND', sgList: [{ mr: client.replies, offset: i, length: 1 }] });
  }
}

/** Serves a table of `entries` keys; returns the listener. */
export async function server(context, { port = 0, host, timeout, entries = 4096 } = {}) {
  const pd = context.allocPd();
  const cq = context.createCq({ cqe: 4096 });
  const table = pd.allocate(entries * RECORD_BYTES, { access: { remoteRead: true } });
  const clients = new Map();

  function prepare(qp) {
    const client = { requests: pd.allocate(DEPTH * RECORD_BYTES), replies: pd.allocate(DEPTH) };
    clients.set(qp, client);
    qp.onClose(() => {
      clients.delete(qp);
      for (const mr of Object.values(client)) mr.close();
    });
    for (let i = 0; i < DEPTH; i++) {
      qp.receive({
        wrId: i,
        sgList: [{ mr: client.requests, offset: i * RECORD_BYTES, length: RECORD_BYTES }],
      });
    }
  }
  answer(cq, table, entries, clients);
  const privateData = { entries, addr: table.addr, rkey: table.rkey };
  return listen(context, { port, host, timeout, pd, sendCq: cq, privateData, prepare }, (connection) => {
    connection.on('close', () => connection.close());
  });
}

/** Connects to a server; returns get, put and close. Only one request may be outstanding. */
export async function client(context, { port, host, timeout }) {
  const pd = context.allocPd();
  const cq = context.createCq();
  const mr = pd.allocate(3 * RECORD_BYTES); // the record read by GET, the record sent by PUT, the reply
  const batch = context.sendBatch({ capacity: 1 });
  const connection = await connect(context, { port, host, timeout, pd, sendCq: cq });
  const { qp } = connection;
  const { entries, addr, rkey } = connection.remote.privateData;

  async function get(key, probe = 0) {
    const from = addr + ((hash(key) + probe) % entries) * RECORD_BYTES;
    qp.postSend(batch.clear().read(0, IBV_SEND_SIGNALED, mr.addr, RECORD_BYTES, mr.lkey, from, rkey));
    expectSuccess(await cq.next());
    const entry = Buffer.from(mr.buffer, 0, RECORD_BYTES);
    if (entry.readUInt32LE(0) !== entry.readUInt32LE(RECORD_BYTES - 4)) return get(key, probe);
    if (entry[4] === 0 || probe === entries) return null;
    return keyIn(entry) === key ? valueIn(entry) : get(key, probe + 1);
  }

  async function put(key, value) {
    encode(mr.bytes.subarray(RECORD_BYTES, 2 * RECORD_BYTES), key, value);
    qp.receive({ sgList: [{ mr, offset: 2 * RECORD_BYTES, length: 1 }] });
    qp.post({ opcode: 'SEND', sgList: [{ mr, offset: RECORD_BYTES, length: RECORD_BYTES }] });
    for (const completion of await cq.drain(2)) expectSuccess(completion);
    if (mr.bytes[2 * RECORD_BYTES] !== 1) throw new Error('the table is full');
  }

  return { get, put, close: () => connection.close() };
}

/** Puts `keys` keys, then gets them in turn; returns each GET's latency in nanoseconds of the device's clock. */
export async function load(context, kv, options = {}) {
  const { count = 1000, seconds = Infinity, keys = 100, pause, isOver = () => false } = options;
  const expected = Array.from({ length: keys }, (_, i) => Buffer.from(`value ${i}`));
  for (let i = 0; i < keys; i++) await kv.put(`key ${i}`, expected[i]);
  const latenciesNs = [];
  const beganNs = context.nowNs();
  for (let n = 0; n < count && context.nowNs() < beganNs + seconds * 1e9 && !isOver(); n++) {
    await pause?.();
    const startNs = context.nowNs();
    const value = await kv.get(`key ${n % keys}`);
    latenciesNs.push(context.nowNs() - startNs);
    if (!value?.equals(expected[n % keys])) throw new Error(`key ${n % keys} has the wrong value: ${value}`);
  }
  return { latenciesNs, elapsedNs: context.nowNs() - beganNs };
}

if (isProgram(import.meta.url)) {
  await run({
    options: { count: { type: 'string' }, seconds: { type: 'string' } },
    server,
    async client(context, address, values) {
      const kv = await client(context, address);
      const isOver = interruption();
      const { latenciesNs, elapsedNs } = await load(context, kv, { ...limits(values, 1000), isOver });
      kv.close();
      const [p50, p99] = [0.5, 0.99].map((q) => (quantile(latenciesNs, q) / 1000).toFixed(2));
      const rate = Math.round(latenciesNs.length / (elapsedNs / 1e9));
      console.log(`${latenciesNs.length} GETs: p50 ${p50} us, p99 ${p99} us, ${rate} per second`);
    },
  });
}
