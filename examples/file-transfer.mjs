// @ts-nocheck
// Bulk transfer: several outstanding 1 MiB RDMA_WRITEs into the receiver's memory, with a sha256 check at the end.
//
//   node examples/file-transfer.mjs --size 64M          both ends in this process
//   node examples/file-transfer.mjs --listen 7472       the receiver
//   node examples/file-transfer.mjs --connect HOST:7472 [--file PATH | --size 64M] [--seconds 5] [--progress]
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ConfigError, connect, expectSuccess, IBV_SEND_SIGNALED, listen } from 'isoverbs';
import { interruption, isProgram, run } from './cli.mjs';

const CHUNK_BYTES = 1 << 20;
const DIGEST_BYTES = 32;
const LIMIT_BYTES = 2 ** 31;

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();

/** Receives files; each sender announces the size of its file. Calls `onFile(bytes, whole)`. Returns the listener. */
export async function server(context, { port = 0, host, timeout, onFile = () => {} } = {}) {
  const pd = context.allocPd();
  const transfers = new Map();

  /** Creates a queue pair with its own completion queue. */
  function createQp({ privateData }) {
    const { sizeBytes } = privateData;
    if (!(sizeBytes > 0 && sizeBytes <= LIMIT_BYTES))
      throw new RangeError(`a file must have 1 to ${LIMIT_BYTES} bytes, got ${sizeBytes}`);
    const cq = context.createCq({ cqe: 16 });
    const qp = pd.createQp({ sendCq: cq });
    const file = pd.allocate(sizeBytes, { access: { remoteWrite: true } });
    const note = pd.allocate(DIGEST_BYTES + 1);
    transfers.set(qp, { cq, file, note });
    qp.onClose(() => {
      transfers.delete(qp);
      for (const closable of [cq, file, note]) closable.close();
    });
    return qp;
  }
  function prepare(qp) {
    qp.receive({ sgList: [{ mr: transfers.get(qp).note, length: DIGEST_BYTES }] });
  }
  function privateData(_remote, qp) {
    const { addr, rkey } = transfers.get(qp).file;
    return { addr, rkey };
  }
  async function finish(connection) {
    const { qp } = connection;
    const { cq, file, note } = transfers.get(qp);
    for await (const { status, isRecv } of cq) {
      if (status !== 0) break; // the sender left, or failed; closing the connection informs it
      if (!isRecv) continue; // the reply was sent
      const whole = sha256(file.bytes).equals(note.bytes.subarray(0, DIGEST_BYTES));
      onFile(file.bytes, whole);
      note.bytes[DIGEST_BYTES] = whole ? 1 : 0;
      qp.post({ opcode: 'SEND', sgList: [{ mr: note, offset: DIGEST_BYTES, length: 1 }] });
    }
    connection.close();
  }

  return listen(context, { port, host, timeout, createQp, prepare, privateData }, (connection) => {
    connection.on('close', () => connection.close());
    finish(connection);
  });
}

/**
 * Sends `data`, repeatedly if `seconds` is given, until that time has passed or `isOver` returns true. `outstanding` is
 * the number of WRITEs in flight. `onSample` receives each WRITE's time from post to completion. Returns bytes sent,
 * elapsed time, and all samples.
 */
export async function client(context, options) {
  const { port, host, timeout, data, seconds = 0, isOver = () => false, outstanding = 8, onSample } = options;
  const pd = context.allocPd();
  const cq = context.createCq();
  const file = pd.allocate(data.length);
  file.bytes.set(data);
  const note = pd.allocate(DIGEST_BYTES + 1);
  const batch = context.sendBatch({ capacity: 1 });
  const privateData = { sizeBytes: data.length };
  const connection = await connect(context, { port, host, timeout, pd, sendCq: cq, privateData });
  const { qp, remote } = connection;
  const { addr, rkey } = remote.privateData;

  const chunks = Math.ceil(data.length / CHUNK_BYTES);
  const postedNs = [];
  const latenciesNs = [];
  let sentBytes = 0;
  let done = 0;
  const beganNs = context.nowNs();
  const endNs = beganNs + seconds * 1e9;
  const goesOn = () => context.nowNs() < endNs && !isOver();
  const more = () => postedNs.length < chunks || postedNs.length % chunks !== 0 || goesOn();

  function post() {
    const n = postedNs.length;
    const at = (n % chunks) * CHUNK_BYTES;
    const bytes = Math.min(CHUNK_BYTES, data.length - at);
    postedNs.push(context.nowNs());
    qp.postSend(batch.clear().write(n, IBV_SEND_SIGNALED, file.addr + at, bytes, file.lkey, addr + at, rkey));
    sentBytes += bytes;
  }

  while (postedNs.length < outstanding && more()) post();
  for (; done < postedNs.length; done++) {
    const { wrId } = expectSuccess(await cq.next());
    if (Number(wrId) !== done) throw new Error(`WRITE ${wrId} completed before WRITE ${done}`);
    latenciesNs.push(context.nowNs() - postedNs[done]);
    onSample?.(latenciesNs[done]);
    if (more()) post();
  }
  const elapsedNs = context.nowNs() - beganNs;

  note.bytes.set(sha256(file.bytes));
  qp.receive({ sgList: [{ mr: note, offset: DIGEST_BYTES, length: 1 }] });
  qp.post({ opcode: 'SEND', sgList: [{ mr: note, length: DIGEST_BYTES }] });
  for (const completion of await cq.drain(2)) expectSuccess(completion);
  connection.close();
  if (note.bytes[DIGEST_BYTES] !== 1) throw new Error('sha256 differs at the receiver');
  return { sentBytes, elapsedNs, latenciesNs };
}

/** Parses a size such as '64M' (64 MiB). */
function parseSize(text) {
  const [, number, unit] = /^(\d+)([KMG]?)$/i.exec(text) ?? [];
  if (!(Number(number) > 0)) throw new ConfigError(`--size takes a size such as 64M, got '${text}'`);
  return Number(number) * 1024 ** ' KMG'.indexOf(unit.toUpperCase() || ' ');
}

/** Counts WRITEs, and prints their number every half second of the device's clock. */
function progress(context) {
  let writes = 0;
  let printedNs = context.nowNs();
  return () => {
    writes++;
    if (context.nowNs() - printedNs < 5e8) return;
    printedNs = context.nowNs();
    console.log(`${writes} WRITEs`);
  };
}

if (isProgram(import.meta.url)) {
  const text = { type: 'string' };
  await run({
    options: { file: text, size: text, seconds: text, progress: { type: 'boolean' } },
    server: (context, address) =>
      server(context, {
        ...address,
        onFile: (bytes, whole) =>
          console.log(`received ${bytes.length} bytes, sha256 ${whole ? 'ok' : 'WRONG'}`),
      }),
    async client(context, address, values) {
      const size = parseSize(values.size ?? '64M');
      const data = values.file ? readFileSync(values.file) : Buffer.alloc(size, 'isoverbs ');
      const seconds = Number(values.seconds ?? 0);
      const onSample = values.progress ? progress(context) : undefined;
      const isOver = interruption();
      const { sentBytes, elapsedNs } = await client(context, { ...address, data, seconds, isOver, onSample });
      console.log(`sent ${sentBytes} bytes, ${((sentBytes * 8) / elapsedNs).toFixed(2)} Gbit/s, sha256 ok`);
    },
  });
}
