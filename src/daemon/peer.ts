/** The daemon's end of one connection: socket, budgets, shared pages, and pending answers. */
import { Socket } from 'node:net';
import { Budget, MAX_UNREAD_BYTES, MESSAGES, SIGNALS, type User } from './budgets.ts';
import { Client } from './devices.ts';
import {
  createMemory,
  createWake,
  type PeerCredentials,
  type SharedMemory,
  type UnixSocket,
  type Wake,
} from './ipc/index.ts';
import { type PageShape, RESERVED_BYTES } from './pages.ts';
import { FrameReader, type Hello, MAX_REQUEST_BYTES, type ToDaemon, toDaemon } from './protocol.ts';
import type { Identity } from './rules.ts';

/** One receive buffer for all sockets. Its content is parsed or copied before the next read. */
const RECEIVED = new Uint8Array(16384);

export interface PeerListeners {
  received(bytes: Uint8Array): void;
  failed(error: Error): void;
  closed(): void;
}

export class Peer {
  readonly credentials: PeerCredentials;
  readonly user: User;
  readonly frames = new FrameReader<ToDaemon>(toDaemon, MAX_REQUEST_BYTES);
  readonly messages: Budget;
  readonly signals: Budget;
  hello: Hello | null = null;
  /** Null for a tool. */
  client: Client | null = null;
  wake: Wake | null = null;
  /** Whether the next message has already been charged to the budgets. */
  isNextCharged = false;
  isClosed = false;
  /** Answers that wait for a pass. */
  readonly pendingAnswers: (() => void)[] = [];
  private socket: Socket | null = null;
  private readonly memories: SharedMemory[] = [];
  /** Ends the wait for the hello message; ends a pause of the socket; ends a pause of the wake-up. */
  helloTimer: NodeJS.Timeout | undefined;
  private resumeTimer: NodeJS.Timeout | undefined;
  private wakeTimer: NodeJS.Timeout | undefined;

  constructor(credentials: PeerCredentials, user: User, nowNs: number) {
    this.credentials = credentials;
    this.user = user;
    this.messages = new Budget(MESSAGES, nowNs);
    this.signals = new Budget(SIGNALS, nowNs);
  }

  /**
   * Creates the memory and the wake-up shared with the client. Returns the descriptors to send; `sent` closes
   * them here.
   */
  openPages(identity: Identity, { reportsBytes, grantsBytes }: PageShape): { fds: number[]; sent(): void } {
    // Recorded first, so that close() releases what exists if a later step fails.
    const { memories } = this;
    memories.push(createMemory('isoverbs-counters', reportsBytes, RESERVED_BYTES));
    memories.push(createMemory('isoverbs-grants', grantsBytes, RESERVED_BYTES));
    const [counters, grants] = memories;
    counters.seal();
    grants.seal({ readOnlyForOthers: true });
    const [near, far] = createWake();
    this.wake = near;
    const pages = {
      counters: new Float64Array(counters.buffer),
      grants: new Float64Array(grants.buffer),
    };
    this.client = new Client(identity, pages, this.credentials.pid);
    const sent = () => {
      far.close();
      // The mapping stays. Keeping the descriptors open would double the number that thousands of clients
      // need.
      for (const memory of memories) memory.closeFd();
    };
    return { fds: [counters.fd, grants.fd, far.fd], sent };
  }

  /** Hands the socket over to Node.js. */
  attachSocket(raw: UnixSocket, on: PeerListeners): void {
    const onread = {
      buffer: RECEIVED,
      callback: (bytes: number, buffer: Uint8Array) => {
        on.received(buffer.subarray(0, bytes));
        return true;
      },
    };
    // All sockets share one buffer; otherwise each of thousands would have its own.
    const options = { fd: raw.take(), readable: true, writable: true, onread };
    const socket = new Socket(options);
    this.socket = socket;
    socket.on('error', on.failed);
    socket.on('close', on.closed);
  }

  /** Stops reading from the socket for a while and then calls `resumed`. */
  pause(waitNs: number, resumed: () => void): void {
    this.socket?.pause();
    this.resumeTimer = setTimeout(resumed, Math.ceil(waitNs / 1e6));
  }

  get isPaused(): boolean {
    return this.resumeTimer !== undefined;
  }

  resume(): void {
    if (this.resumeTimer === undefined) return;
    clearTimeout(this.resumeTimer);
    this.resumeTimer = undefined;
    if (!this.isClosed) this.socket?.resume();
  }

  watchWake(onSignal: (isAlive: boolean) => void): void {
    this.wake?.watch(onSignal, { keepAlive: false });
  }

  /** Stops watching the wake-up for a while. The kernel keeps signals until `onSignal` is registered again. */
  pauseWake(waitNs: number, onSignal: (isAlive: boolean) => void): void {
    this.wake?.watch(null);
    this.wakeTimer = setTimeout(() => this.watchWake(onSignal), Math.ceil(waitNs / 1e6));
  }

  /** Returns false if this client, or others of its user, do not read their answers. */
  write(bytes: Buffer): boolean {
    const { socket, user } = this;
    if (socket === null || socket.destroyed) return true;
    if (user.unreadBytes + bytes.length > MAX_UNREAD_BYTES) return false;
    user.unreadBytes += bytes.length;
    socket.write(bytes, () => {
      user.unreadBytes -= bytes.length;
    });
    return true;
  }

  /** Releases everything. */
  close(): void {
    this.isClosed = true;
    for (const timer of [this.helloTimer, this.resumeTimer, this.wakeTimer]) clearTimeout(timer);
    this.socket?.destroy();
    this.wake?.close();
    this.wake = null;
    for (const memory of this.memories) memory.close();
  }
}
