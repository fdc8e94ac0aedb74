/** Speaking by rdma_cm (-z): messages are SENDs on a queue pair of their own, one at a time, as perftest has it. */
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

/** The longest message tells of a queue pair. */
const MESSAGE_BYTES = 56;

/** Where to speak from and to. */
export interface CmAddress {
  readonly port: number;
  /** Whom to call; null: be called. */
  readonly server: string | null;
  /** Own address; undefined: as the routes say. */
  readonly source_ip?: string;
}

/** Messages that wait to be sent or taken. */
interface MessageBuffers {
  readonly received: MemoryRegion;
  readonly sent: MemoryRegion;
}

export class CmChannel implements Channel {
  readonly role: Role;
  readonly destinationFormat = 'struct';
  ended: Error | null = null;
  onEnd: (() => void) | null = null;
  /** What the address led to. */
  readonly deviceName: string;
  private readonly connection: CmConnection;
  private readonly buffers: MessageBuffers;
  private early: Completion | null = null;

  constructor(connection: CmConnection, buffers: MessageBuffers, role: Role) {
    this.connection = connection;
    this.buffers = buffers;
    this.role = role;
    this.deviceName = connection.context.name;
    connection.once('disconnect', (error) => this.end(error?.message ?? 'it closed the connection'));
    connection.on('error', (error) => this.end(error.message));
    connection.unref();
  }

  async exchange(mine: Uint8Array, options: { patient?: boolean } = {}): Promise<Buffer> {
    const patience = options.patient === true ? undefined : AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    if (this.role === 'client') await this.send(mine, patience);
    const theirs = await this.receive(mine.length, patience);
    if (this.role === 'server') await this.send(mine, patience);
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

  private async send(bytes: Uint8Array, patience: AbortSignal | undefined): Promise<void> {
    const { sent } = this.buffers;
    sent.bytes.set(bytes);
    this.connection.qp.post({ opcode: 'SEND', sgList: [{ mr: sent, length: bytes.length }] });
    await this.completion(patience, false);
  }

  private async receive(length: number, patience: AbortSignal | undefined): Promise<Buffer> {
    const { received } = this.buffers;
    const { byteLen } = await this.completion(patience, true);
    const bytes = Buffer.from(received.bytes.slice(0, length));
    this.connection.qp.receive({ sgList: [{ mr: received }] });
    if (byteLen >= length) return bytes;
    throw new HandshakeError(`the other end sent ${byteLen} bytes, not ${length}: it is no perftest`);
  }

  /** The next one of that kind: an answer may come before it is known that the question arrived. */
  private async completion(patience: AbortSignal | undefined, isRecv: boolean): Promise<Completion> {
    const { early, connection } = this;
    if (early !== null && early.isRecv === isRecv) {
      this.early = null;
      return early;
    }
    try {
      for (;;) {
        const completion = await connection.cq.next({ signal: patience });
        if (completion.status !== IBV_WC_SUCCESS) throw this.ended ?? endedError(completion.statusText);
        if (completion.isRecv === isRecv) return completion;
        this.early = completion;
      }
    } catch (error) {
      throw patience?.aborted ? noAnswerError() : error;
    }
  }
}

/** What the queue pair of a channel is made with. */
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

/** Calls a server. @throws CmError, ConnectionError */
export async function connectCmChannel(
  env: CmEnvironment,
  way: CmAddress & { server: string },
): Promise<CmChannel> {
  const { server: host, port, source_ip: localAddress } = way;
  const { options, buffers } = channelOptions();
  const connection = await connect(env, { ...options, host, port, localAddress });
  return new CmChannel(connection, buffers as MessageBuffers, 'client');
}

/** Waits for a client. @throws ConnectionError when nobody can listen there */
export async function acceptCmChannel(
  env: CmEnvironment,
  way: CmAddress,
  listening: () => void = () => {},
): Promise<CmChannel> {
  const { options, buffers } = channelOptions();
  const server = new Server(env, options);
  let answered = false;
  server.on('connectRequest', (request) => {
    if (answered) request.reject();
    else {
      answered = true;
      request.accept().catch((error) => server.emit('error', error));
    }
  });
  try {
    server.listen({ port: way.port, host: way.source_ip, backlog: 1 }, listening);
    const [connection] = (await once(server, 'connection')) as [CmConnection];
    return new CmChannel(connection, buffers as MessageBuffers, 'server');
  } finally {
    server.close();
  }
}
