// @ts-nocheck
// A log in a peer's memory: append() writes a record there, and resolves when it has arrived.
import { connect, expectSuccess, listen } from 'isoverbs';

const LOG_BYTES = 1 << 20;

/** Provides memory for a log to each client that connects. */
export async function serveLog(context, port) {
  const pd = context.allocPd();
  const log = pd.allocate(LOG_BYTES, { access: { remoteWrite: true } });
  const region = { addr: log.addr, rkey: log.rkey };
  const listener = await listen(context, { port, pd, sendCq: context.createCq(), privateData: region });
  return { log, listener };
}

export class LogWriter {
  static async open(context, { host, port }) {
    const pd = context.allocPd();
    const cq = context.createCq();
    const buffer = pd.allocate(LOG_BYTES);
    const connection = await connect(context, { host, port, pd, sendCq: cq });
    return new LogWriter(connection, cq, buffer);
  }

  constructor(connection, cq, buffer) {
    this.connection = connection;
    this.cq = cq;
    this.buffer = buffer;
    this.end = 0;
  }

  /** Rejects with a CompletionError if the record did not arrive. */
  async append(record) {
    const { addr, rkey } = this.connection.remote.privateData;
    this.buffer.bytes.set(record, this.end);
    this.connection.qp.post({
      opcode: 'RDMA_WRITE',
      sgList: [{ mr: this.buffer, offset: this.end, length: record.length }],
      remote: { addr: addr + this.end, rkey },
    });
    expectSuccess(await this.cq.next());
    this.end += record.length;
  }
}
