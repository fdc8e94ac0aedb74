// A store of short texts in the memory of a server. Clients read and write it with one-sided requests (RDMA_READ,
// RDMA_WRITE), which do not involve the server's CPU.
import { connect, listen } from 'isoverbs';
import { z } from 'zod';

export const SLOT_BYTES = 64;
const SLOTS = 1024;

/** What the server tells its clients. A client trusts nothing that does not fit. */
const remoteSchema = z.object({ addr: z.number(), rkey: z.number(), slots: z.number().int().positive() });

/** Serves an empty store on this device until the listener and the context are closed. */
export async function serve(context, port) {
  const pd = context.allocPd();
  const table = pd.allocate(SLOTS * SLOT_BYTES, { access: { remoteRead: true, remoteWrite: true } });
  const privateData = { addr: table.addr, rkey: table.rkey, slots: SLOTS };
  return listen(context, { port, pd, sendCq: context.createCq(), privateData }, (connection) => {
    connection.on('close', () => connection.close());
  });
}

/** A connection to a store. Use one request at a time. */
export class Client {
  /** Use Client.open(). */
  constructor(connection, buffer) {
    this.connection = connection;
    this.buffer = buffer;
  }

  static async open(context, to) {
    const pd = context.allocPd();
    const buffer = pd.allocate(SLOT_BYTES);
    const connection = await connect(context, { ...to, pd, sendCq: context.createCq(), remoteSchema });
    return new Client(connection, buffer);
  }

  /** Resolves when the text is in the server's memory. */
  async put(slot, text) {
    const bytes = Buffer.from(text);
    if (bytes.length >= SLOT_BYTES) throw new RangeError(`a text has less than ${SLOT_BYTES} bytes`);
    this.buffer.bytes.fill(0);
    this.buffer.bytes.set(bytes);
    await this.#execute('RDMA_WRITE', slot);
  }

  /** The text in this slot; '' if there is none. */
  async get(slot) {
    await this.#execute('RDMA_READ', slot);
    const { bytes } = this.buffer;
    return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString();
  }

  close() {
    this.connection.close();
  }

  async #execute(opcode, slot) {
    const { addr, rkey, slots } = this.connection.remote.privateData;
    if (!(Number.isInteger(slot) && slot >= 0 && slot < slots))
      throw new RangeError(`there is no slot ${slot}`);
    const remote = { addr: addr + slot * SLOT_BYTES, rkey };
    await this.connection.qp.execute({ opcode, sgList: [{ mr: this.buffer }], remote });
  }
}
