/** The daemon's end of the socket: who comes is asked who it is, gets its pages, and is heard until it goes. */
import { Socket } from 'node:net';
import type { Logger } from 'pino';
import { HandshakeError, IsoverbsError } from '../verbs/errors.ts';
import { Client, type Host } from './host.ts';
import {
  createMemory,
  createWake,
  listenUnix,
  type PeerCredentials,
  type SharedMemory,
  type UnixListener,
  type UnixSocket,
  type Wake,
} from './ipc/index.ts';
import { COUNTERS_BYTES, GRANTS_BYTES, SLOTS } from './pages.ts';
import {
  Frames,
  frame,
  type Hello,
  type TenantRow,
  type ToClient,
  type ToDaemon,
  toDaemon,
  VERSION,
} from './protocol.ts';
import type { Identity } from './rules.ts';

export interface ServerOptions {
  readonly socket: string;
  /** Permissions of the socket's file. */
  readonly mode: number;
  readonly host: Host;
  /** What clients run without a word of their own: as ISOVERBS_POLICY has it; '': nothing. */
  readonly policy: string;
  readonly log: Logger;
  /** Called again for all when the rules have changed. */
  identify(credentials: PeerCredentials, hello: Hello): Identity;
  /** Whether a client may change what tenants get. */
  maySet(credentials: PeerCredentials): boolean;
  /** Monotonic. */
  nowNs(): number;
}

/** Between two looks for those who are silent, while anybody is there whose silence matters. */
const TICK_MS = 20;
/** Who says nothing for so long after connecting is not heard any more. */
const HELLO_MS = 1000;
const MAX_CLIENTS = 4096;
const MAX_CLIENTS_OF_A_USER = 1024;
/** A client that rings more often is heard this often. */
const LEAST_RING_NS = 200e3;
/** Messages that a client may send at once, and how many more each second. */
const BURST_MESSAGES = 2048;
const MESSAGES_PER_S = 2000;
/** Answers that may wait for a client: a list of all tenants that there can be, and their names. */
const MAX_UNREAD_BYTES = 4 << 20;
/** A row has up to a kilobyte, if every letter of a name must be escaped. */
const ROWS_OF_A_FRAME = 50;

/** What the daemon has of one connection. */
class Connection {
  readonly credentials: PeerCredentials;
  readonly frames = new Frames<ToDaemon>(toDaemon);
  hello: Hello | null = null;
  /** Until it has said who it is. */
  silence: NodeJS.Timeout | undefined;
  socket: Socket | null = null;
  client: Client | null = null;
  wake: Wake | null = null;
  readonly memories: SharedMemory[] = [];
  /** When it rang last that was heard; and whether a later one waits. */
  rungNs = Number.NEGATIVE_INFINITY;
  isRinging = false;
  /** Messages that it may send yet, and since when that holds. */
  budget = BURST_MESSAGES;
  budgetNs: number;

  constructor(credentials: PeerCredentials, nowNs: number) {
    this.credentials = credentials;
    this.budgetNs = nowNs;
  }

  get name(): string {
    const { pid, uid } = this.credentials;
    return `process ${pid} of user ${uid}`;
  }
}

export class Server {
  private readonly options: ServerOptions;
  private readonly connections = new Set<Connection>();
  private readonly byClient = new Map<Client, Connection>();
  private readonly raw = new Set<UnixSocket>();
  private listener: UnixListener | null = null;
  private ticking: NodeJS.Timeout | undefined;
  private isClosing = false;

  constructor(options: ServerOptions) {
    this.options = options;
  }

  /** @throws ConnectionError, InvalidArgumentError: the socket cannot be there */
  listen(): void {
    const { socket, mode } = this.options;
    const listener = listenUnix(socket, { mode });
    this.listener = listener;
    this.isClosing = false;
    listener.watch(() => this.accept(listener));
  }

  /** Clients keep what they were granted last: nothing is shared out again as they are let go one by one. */
  close(): void {
    this.isClosing = true;
    this.listener?.close();
    clearInterval(this.ticking);
    for (const socket of this.raw) socket.close();
    for (const connection of [...this.connections]) this.end(connection);
  }

  /** The rules have changed: everybody is asked again who it is. */
  reidentify(): void {
    const { host, identify, nowNs } = this.options;
    for (const { client, hello, credentials } of this.connections) {
      if (client !== null && hello !== null) host.reidentify(client, identify(credentials, hello), nowNs());
    }
    this.tell();
  }

  /** Clients that are connected. */
  get size(): number {
    return this.connections.size;
  }

  private accept(listener: UnixListener): void {
    const { log } = this.options;
    let socket: UnixSocket | null = null;
    try {
      socket = listener.accept();
      if (socket === null) return;
      const credentials = socket.peer();
      const why = this.whyNot(credentials);
      if (why === null) this.greet(socket, credentials);
      else {
        log.warn({ ...credentials }, `${why}: not connected`);
        refuse(socket, why);
      }
    } catch (error) {
      log.warn(error, 'a connection could not be accepted');
      socket?.close();
      // No descriptors are left: who waits is heard when some are free again.
      if (socket === null) this.pause(listener);
    }
  }

  private pause(listener: UnixListener): void {
    listener.watch(null);
    setTimeout(() => {
      if (!listener.closed) listener.watch(() => this.accept(listener));
    }, TICK_MS);
  }

  private whyNot({ uid }: PeerCredentials): string | null {
    if (this.connections.size >= MAX_CLIENTS) return `there are ${MAX_CLIENTS} clients`;
    let own = 0;
    for (const { credentials } of this.connections) if (credentials.uid === uid) own++;
    return own < MAX_CLIENTS_OF_A_USER ? null : `user ${uid} has ${own} clients`;
  }

  /** Waits for its first message. */
  private greet(raw: UnixSocket, credentials: PeerCredentials): void {
    const connection = new Connection(credentials, this.options.nowNs());
    const buffer = new Uint8Array(16384);
    this.raw.add(raw);
    this.connections.add(connection);
    const drop = (why: string) => {
      this.raw.delete(raw);
      this.end(connection);
      this.options.log.warn({ ...credentials }, `${connection.name} ${why}: disconnected`);
      refuse(raw, why);
    };
    connection.silence = setTimeout(() => drop('said nothing'), HELLO_MS);
    raw.watch(() => {
      try {
        const got = raw.receive(buffer);
        if (got === null) return;
        if (got.bytes === 0) return drop('hung up before it said who it is');
        const messages = connection.frames.push(buffer.subarray(0, got.bytes));
        if (messages.length === 0) return;
        clearTimeout(connection.silence);
        this.raw.delete(raw);
        this.welcome(raw, connection, messages);
      } catch (error) {
        drop(error instanceof IsoverbsError ? `sent ${error.message}` : String(error));
      }
    });
  }

  /** @throws HandshakeError */
  private welcome(raw: UnixSocket, connection: Connection, messages: ToDaemon[]): void {
    const [hello, ...rest] = messages;
    if (hello.type !== 'hello') throw new HandshakeError(`'${hello.type}' before it said who it is`);
    if (hello.version !== VERSION) {
      throw new HandshakeError(`version ${hello.version}; this daemon speaks ${VERSION}`);
    }
    const identity = this.options.identify(connection.credentials, hello);
    connection.hello = hello;
    const { policy } = this.options;
    const { tenant } = identity;
    const isShim = hello.role === 'shim';
    const far = isShim ? this.openPages(connection, identity) : null;
    const fds = far === null ? [] : [...connection.memories.map(({ fd }) => fd), far.fd];
    const slots = isShim ? SLOTS : 0;
    const bytes = frame({ type: 'welcome', version: VERSION, slots, policy, tenant });
    let sent = 0;
    try {
      sent = raw.send(bytes, fds);
    } finally {
      far?.close();
    }
    if (sent < bytes.length) throw new HandshakeError('nothing that left room for an answer');
    this.take(raw, connection);
    for (const message of rest) this.heard(connection, message);
  }

  /** Makes what is shared with a client; returns its end of the wake-up. */
  private openPages(connection: Connection, identity: Identity): Wake {
    // Whatever fails behind this, end() closes what is there already.
    const { memories } = connection;
    memories.push(createMemory('isoverbs-counters', COUNTERS_BYTES));
    memories.push(createMemory('isoverbs-grants', GRANTS_BYTES));
    const [counters, grants] = memories;
    counters.seal();
    grants.seal({ readOnlyForOthers: true });
    const [near, far] = createWake();
    connection.wake = near;
    const pages = {
      counters: new Float64Array(counters.buffer),
      grants: new Float64Array(grants.buffer),
    };
    connection.client = new Client(identity, pages, connection.credentials.pid);
    this.byClient.set(connection.client, connection);
    near.watch(() => this.rang(connection), { keepAlive: false });
    return far;
  }

  private take(raw: UnixSocket, connection: Connection): void {
    const socket = new Socket({ fd: raw.take(), readable: true, writable: true });
    connection.socket = socket;
    socket.on('error', (error) => this.options.log.debug(error, connection.name));
    socket.on('close', () => this.end(connection));
    socket.on('data', (bytes) => {
      try {
        // Bytes one by one cost as much as messages.
        this.charge(connection);
        for (const message of connection.frames.push(bytes)) this.heard(connection, message);
      } catch (error) {
        this.options.log.warn(
          { ...connection.credentials },
          `${connection.name} sent ${(error as Error).message}: disconnected`,
        );
        this.end(connection);
      }
    });
  }

  /** Everything of a connection is let go. */
  private end(connection: Connection): void {
    if (!this.connections.delete(connection)) return;
    const { client, socket, wake, memories } = connection;
    clearTimeout(connection.silence);
    socket?.destroy();
    wake?.close();
    if (client !== null) {
      this.byClient.delete(client);
      if (!this.isClosing) this.options.host.forget(client, this.options.nowNs());
    }
    for (const memory of memories) memory.close();
    if (!this.isClosing) this.tell();
  }

  private heard(connection: Connection, message: ToDaemon): void {
    this.charge(connection);
    const { client } = connection;
    const { host, nowNs } = this.options;
    switch (message.type) {
      case 'join':
      case 'leave':
        if (client === null) throw new HandshakeError(`'${message.type}' of a tool`);
        if (message.type === 'leave') host.leave(client, message.slot, nowNs());
        else this.join(connection, client, message);
        break;
      case 'ring':
        this.rang(connection);
        break;
      case 'tenants':
        this.list(connection, host.tenants());
        break;
      case 'set':
        this.set(connection, message);
        break;
      case 'hello':
        throw new HandshakeError('a second hello');
    }
    this.tell();
  }

  /** @throws HandshakeError for one that sends far more than any program has to say */
  private charge(connection: Connection): void {
    const nowNs = this.options.nowNs();
    const earned = ((nowNs - connection.budgetNs) / 1e9) * MESSAGES_PER_S;
    connection.budget = Math.min(BURST_MESSAGES, connection.budget + earned) - 1;
    connection.budgetNs = nowNs;
    if (connection.budget < 0) throw new HandshakeError(`more than ${MESSAGES_PER_S} messages a second`);
  }

  private join(
    connection: Connection,
    client: Client,
    { slot, device, tenant }: ToDaemon & { type: 'join' },
  ) {
    const reason = this.options.host.join(client, slot, device, this.options.nowNs(), tenant);
    if (reason !== null) this.say(connection, { type: 'refused', slot, reason });
    else this.say(connection, { type: 'joined', slot, tenant: client.seats.get(slot)?.tenant ?? '' });
  }

  /** In as many messages as they need: there may be thousands. */
  private list(connection: Connection, rows: readonly TenantRow[]): void {
    let at = 0;
    do {
      const some = rows.slice(at, at + ROWS_OF_A_FRAME);
      at += some.length;
      this.say(connection, { type: 'tenants', rows: some, more: at < rows.length });
    } while (at < rows.length);
  }

  private set(connection: Connection, { tenant, weight, gbps }: ToDaemon & { type: 'set' }): void {
    const { host, maySet, nowNs, log } = this.options;
    if (!maySet(connection.credentials)) {
      const reason = `only the daemon's user, root and members of the socket's group set anything`;
      this.say(connection, { type: 'refused', reason });
      return;
    }
    host.set(
      tenant,
      { ...(weight !== undefined && { weight }), ...(gbps !== undefined && { gbps }) },
      nowNs(),
    );
    log.info({ tenant, weight, gbps, ...connection.credentials }, `${connection.name} set ${tenant}`);
    this.say(connection, { type: 'done' });
  }

  /** What it says has changed; of one that rings without end the last is heard. */
  private rang(connection: Connection): void {
    const { host, nowNs } = this.options;
    const { client } = connection;
    if (client === null || connection.isRinging) return;
    const now = nowNs();
    if (now - connection.rungNs < LEAST_RING_NS) {
      connection.isRinging = true;
      setTimeout(() => {
        connection.isRinging = false;
        if (this.connections.has(connection)) this.rang(connection);
      }, 1);
      return;
    }
    connection.rungNs = now;
    host.step(now, client);
    this.tell();
  }

  /** Those whose grants are others hear it; and somebody looks for the silent. */
  private tell(): void {
    const { host, nowNs } = this.options;
    for (const client of host.takeTold()) this.byClient.get(client)?.wake?.ring();
    const isWatching = host.isWatching;
    if (isWatching && this.ticking === undefined) {
      this.ticking = setInterval(() => {
        host.step(nowNs());
        this.tell();
      }, TICK_MS);
    } else if (!isWatching && this.ticking !== undefined) {
      clearInterval(this.ticking);
      this.ticking = undefined;
    }
  }

  private say(connection: Connection, message: ToClient): void {
    const { socket, name, credentials } = connection;
    if (socket === null || socket.destroyed) return;
    if (socket.writableLength <= MAX_UNREAD_BYTES) {
      socket.write(frame(message));
      return;
    }
    this.options.log.warn({ ...credentials }, `${name} does not read what it asked for: disconnected`);
    socket.destroy();
  }
}

/** Says why, if it can be said at once. */
function refuse(socket: UnixSocket, reason: string): void {
  try {
    socket.send(frame({ type: 'refused', reason }));
  } catch {
    // It has gone, and will not ask.
  }
  socket.close();
}
