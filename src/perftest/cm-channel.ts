/** A channel over rdma_cm (-z). As in perftest, messages are SENDs on a separate queue pair, one at a time. */
import { once } from 'node:events';
import type { Completion, MemoryRegion } from '../objects/index.ts';
import {
  type CmConnection,
  type CmConnectionOptions,
  type CmEnvironment,
  connect,
  Server,
} from '../objects/rdma-cm/index.ts';
import { HandshakeError, IBV_WC_SUCCESS } from '../verbs/index.ts';
import { ANSWER_TIMEOUT_MS, type Channel, endedError, noAnswerError, type Role } from './channel.ts';

/** Longest message: a queue pair's destination. */
const MESSAGE_BYTES = 56;

/** The addresses of a channel. */
export interface CmAddress {
  readonly port: number;
  /** Host to connect to; null means to wait for a client. */
  readonly server: string | null;
  /** Local address; if undefined, chosen by the routing table. */
  readonly source_ip?: string;
}

/** Memory of the message being sent, and of the one being received. */
interface MessageBuffers {
  readonly received: MemoryRegion;
  readonly sent: MemoryRegion;
}

export class CmChannel implements Channel {
  readonly role: Role;
  readonly destinationFormat = 'struct';
  ended: Error | null = null;
  onEnd: (() => void) | null = null;
  /** The device to which the address resolved. */
  readonly deviceName: string;
  private readonly connection: CmConnection;
  private readonly buffers: MessageBuffers;
  private early: Completion | null = null;

  constructor(connection: CmConnection, buffers: MessageBuffers, role: Role) {
    this.connection = connection;
    this.buffers = buffers;
    this.role = role;
    this.deviceName = connection.context.name;
    connection.once('disconnect', (error) =>
      this.end(error?.message ?? 'the other end closed the connection'),
    );
    connection.on('error', (error) => this.end(error.message));
    connection.unref();
  }

  async exchange(mine: Uint8Array, options: { patient?: boolean } = {}): Promise<Buffer> {
    const timeout = options.patient === true ? undefined : AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    if (this.role === 'client') await this.send(mine, timeout);
    const theirs = await this.receive(mine.length, timeout);
    if (this.role === 'server') await this.send(mine, timeout);
    return theirs;
  }

  close(): void {
    this.connection.removeAllListeners('disconnect');
    this.connection.close();
  }

  destroy(): void {
    this.close();
  }

  private end(reason: string): void {
    this.ended ??= endedError(reason);
    this.onEnd?.();
  }

  private async send(bytes: Uint8Array, timeout: AbortSignal | undefined): Promise<void> {
    const { sent } = this.buffers;
    sent.bytes.set(bytes);
    this.connection.qp.post({ opcode: 'SEND', sgList: [{ mr: sent, length: bytes.length }] });
    await this.completion(timeout, false);
  }

  private async receive(length: number, timeout: AbortSignal | undefined): Promise<Buffer> {
    const { received } = this.buffers;
    const { byteLen } = await this.completion(timeout, true);
    const bytes = Buffer.from(received.bytes.slice(0, length));
    this.connection.qp.receive({ sgList: [{ mr: received }] });
    if (byteLen >= length) return bytes;
    throw new HandshakeError(
      `the other end sent ${byteLen} bytes instead of ${length}: it does not speak perftest's protocol`,
    );
  }

  /** The next completion of this kind. An answer can arrive before the SEND it answers completes; it is kept. */
  private async completion(timeout: AbortSignal | undefined, isRecv: boolean): Promise<Completion> {
    const { early, connection } = this;
    if (early !== null && early.isRecv === isRecv) {
      this.early = null;
      return early;
    }
    try {
      for (;;) {
        const completion = await connection.cq.next({ signal: timeout });
        if (completion.status !== IBV_WC_SUCCESS) throw this.ended ?? endedError(completion.statusText);
        if (completion.isRecv === isRecv) return completion;
        this.early = completion;
      }
    } catch (error) {
      throw timeout?.aborted ? noAnswerError() : error;
    }
  }
}

/** Options of a channel's connection, which allocate its buffers when it is prepared. */
function channelOptions(): { options: CmConnectionOptions; buffers: Partial<MessageBuffers> } {
  const buffers: { received?: MemoryRegion; sent?: MemoryRegion } = {};
  const options: CmConnectionOptions = {
    prepare({ pd, qp }) {
      buffers.received = pd.allocate(MESSAGE_BYTES);
      buffers.sent = pd.allocate(MESSAGE_BYTES);
      qp.receive({ sgList: [{ mr: buffers.received }] });
    },
  };
  return { options, buffers };
}

/** Connects to a server. @throws CmError, ConnectionError */
export async function connectCmChannel(
  env: CmEnvironment,
  address: CmAddress & { server: string },
): Promise<CmChannel> {
  const { server: host, port, source_ip: localAddress } = address;
  const { options, buffers } = channelOptions();
  const connection = await connect(env, { ...options, host, port, localAddress });
  return new CmChannel(connection, buffers as MessageBuffers, 'client');
}

/** Waits for a client. @throws ConnectionError when the address cannot be listened on */
export async function acceptCmChannel(
  env: CmEnvironment,
  address: CmAddress,
  listening: () => void = () => {},
): Promise<CmChannel> {
  const { options, buffers } = channelOptions();
  const server = new Server(env, options);
  let accepted = false;
  server.on('connectRequest', (request) => {
    if (accepted) request.reject();
    else {
      accepted = true;
      request.accept().catch((error) => server.emit('error', error));
    }
  });
  try {
    server.listen({ port: address.port, host: address.source_ip, backlog: 1 }, listening);
    const [connection] = (await once(server, 'connection')) as [CmConnection];
    return new CmChannel(connection, buffers as MessageBuffers, 'server');
  } finally {
    server.close();
  }
}
