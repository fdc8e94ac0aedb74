/** The daemon's end of one connection: socket, budgets, shared pages, and pending answers. */
import { Budget, MAX_UNREAD_BYTES, MESSAGES, SIGNALS, type User } from './budgets.ts';
import { Client } from './devices.ts';
import {
  createMemory,
  createWake,
  type PeerCredentials,
  PeerProcess,
  type SharedMemory,
  type StreamListeners,
  type UnixSocket,
  UnixStream,
  type Wake,
} from './ipc/index.ts';
import { type PageShape, RESERVED_BYTES } from './pages.ts';
import { FrameReader, type Hello, MAX_REQUEST_BYTES, type ToDaemon, toDaemon } from './protocol.ts';
import type { Identity } from './rules.ts';

/** One receive buffer for all sockets. Its content is parsed or copied before the next read. */
const RECEIVED = new Uint8Array(16384);

export class Peer {
  readonly credentials: PeerCredentials;
  readonly process: PeerProcess;
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
  private readonly raw: UnixSocket;
  private stream: UnixStream | null = null;
  private readonly memories: SharedMemory[] = [];
  /** Ends the wait for the hello message; ends a pause of the socket; ends a pause of the wake-up. */
  helloTimer: NodeJS.Timeout | undefined;
  private resumeTimer: NodeJS.Timeout | undefined;
  private wakeTimer: NodeJS.Timeout | undefined;

  /** Takes over an accepted connection. */
  constructor(raw: UnixSocket, credentials: PeerCredentials, user: User, nowNs: number) {
    this.raw = raw;
    this.credentials = credentials;
    this.process = new PeerProcess(raw, credentials);
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
      far.closeFd();
      // The mapping stays. Keeping the descriptors open would double the number that thousands of clients
      // need.
      for (const memory of memories) memory.closeFd();
    };
    return { fds: [counters.fd, grants.fd, far.fd], sent };
  }

  /** Receives what follows the hello. */
  attach({ received, ended }: Pick<StreamListeners, 'received' | 'ended'>): void {
    const waiting = (changeBytes: number) => {
      this.user.unreadBytes += changeBytes;
    };
    // All streams share one buffer; otherwise each of thousands would have its own.
    this.stream = new UnixStream(this.raw, RECEIVED, { received, ended, waiting });
  }

  /** Stops reading from the socket for a while and then calls `resumed`. */
  pause(waitNs: number, resumed: () => void): void {
    this.stream?.pause();
    this.resumeTimer = setTimeout(resumed, Math.ceil(waitNs / 1e6));
  }

  get isPaused(): boolean {
    return this.resumeTimer !== undefined;
  }

  resume(): void {
    if (this.resumeTimer === undefined) return;
    clearTimeout(this.resumeTimer);
    this.resumeTimer = undefined;
    if (!this.isClosed) this.stream?.resume();
  }

  watchWake(onSignal: (isAlive: boolean, error?: Error) => void): void {
    this.wake?.watch(onSignal, { keepAlive: false });
  }

  /** Stops watching the wake-up for a while. The kernel keeps signals until `onSignal` is registered again. */
  pauseWake(waitNs: number, onSignal: (isAlive: boolean, error?: Error) => void): void {
    this.wake?.watch(null);
    this.wakeTimer = setTimeout(() => this.watchWake(onSignal), Math.ceil(waitNs / 1e6));
  }

  /** Returns false if this client, or others of its user, do not read their answers. */
  write(bytes: Buffer): boolean {
    if (this.isClosed) return true;
    if (this.user.unreadBytes + bytes.length > MAX_UNREAD_BYTES) return false;
    this.stream?.write(bytes);
    return true;
  }

  /**
   * Releases everything.
   * @param closed called once both sockets are closed, in most cases at once; see UnixSocket.close()
   */
  close(closed: () => void): void {
    this.isClosed = true;
    for (const timer of [this.helloTimer, this.resumeTimer, this.wakeTimer]) clearTimeout(timer);
    const { wake, stream, raw } = this;
    this.wake = null;
    for (const memory of this.memories) memory.close();
    const closeWake = () => (wake === null ? closed() : wake.close(closed));
    if (stream === null) raw.close(closeWake);
    else stream.close(closeWake);
  }
}
