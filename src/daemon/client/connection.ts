/**
 * A connection to the daemon. Nothing here blocks. Normally the event loop receives messages; a program whose
 * loop is blocked can poll instead.
 */
import { ConnectionError, HandshakeError, type IsoverbsError } from '../../verbs/errors.ts';
import { closeFd, connectUnix, openMemory, type SharedMemory, type UnixSocket, Wake } from '../ipc/index.ts';
import { type PageShape, type Pages, pageShapeOf, type Row, rowAt } from '../pages.ts';
import {
  FrameReader,
  frame,
  type Hello,
  type ToClient,
  type ToDaemon,
  toClient,
  VERSION,
} from '../protocol.ts';
import { RefusedError } from '../rules.ts';

type Welcome = ToClient & { type: 'welcome' };
export type Answer = Exclude<ToClient, Welcome>;

/** The message of the error while a daemon is stopped or overloaded. */
export const UNANSWERED = 'the daemon does not answer';

const ANSWER_MS = 2000;
/** Number of descriptors: counters, grants, and the wake-up. */
const FDS = 3;
const NO_FD = -1;
const RECEIVE_BYTES = 16384;
/** The limit for messages queued for a daemon that reads nothing: tens of thousands of them. */
const MAX_UNSENT_BYTES = 4 << 20;
const RESEND_MS = 1;
/** Delay before another attempt while the daemon's backlog is full. */
const BACKLOG_RETRY_MS = 10;

export interface Listeners {
  /** Called after the welcome message. */
  connected(connection: Connection): void;
  received(message: Answer): void;
  /** The daemon has signalled the wake-up. */
  signalled(): void;
  /** The connection has ended or never succeeded: the daemon went away or refused, or something else answered. */
  ended(reason: Error): void;
}

/** An established connection. */
export class Connection {
  readonly welcome: Welcome;
  /** Null for a tool. */
  readonly pages: Pages | null;
  private readonly shape: PageShape;
  private readonly memories: readonly SharedMemory[];
  private readonly wake: Wake | null;
  private raw: UnixSocket | null = null;
  private frames: FrameReader<ToClient> = new FrameReader<ToClient>(toClient);
  private on: Listeners | null = null;
  private readonly buffer = new Uint8Array(RECEIVE_BYTES);
  private unsent: Uint8Array[] = [];
  private unsentBytes = 0;
  private resendTimer: NodeJS.Timeout | undefined;

  /** @throws HandshakeError, MemoryError if the descriptors are not the expected ones; they are closed */
  constructor(welcome: Welcome, fds: readonly number[]) {
    this.welcome = welcome;
    this.shape = pageShapeOf(welcome.layout);
    if (welcome.slots === 0 || fds.length !== FDS) {
      for (const fd of fds) closeFd(fd);
      if (welcome.slots !== 0)
        throw new HandshakeError(`the daemon sent ${fds.length} descriptors instead of ${FDS}`);
      [this.pages, this.memories, this.wake] = [null, [], null];
      return;
    }
    const [counters, grants, wake] = fds;
    const { shape } = this;
    this.wake = new Wake(wake);
    const memories: SharedMemory[] = [];
    this.memories = memories;
    // openMemory() always closes its descriptor. `open` is the one that is still to be closed on failure.
    let open = grants;
    try {
      memories.push(openMemory(counters, shape.reportsBytes, { writable: true }));
      open = NO_FD;
      memories.push(openMemory(grants, shape.grantsBytes));
    } catch (error) {
      if (open !== NO_FD) closeFd(open);
      this.close();
      throw error;
    }
    const [written, read] = memories;
    this.pages = { counters: new Float64Array(written.buffer), grants: new Float64Array(read.buffer) };
  }

  /** The row of one seat. A tool has none. */
  rowAt(seatNumber: number): Row | null {
    return this.pages === null ? null : rowAt(this.pages, seatNumber, this.shape);
  }

  /** Takes over the socket. A shim's connection does not keep the program alive. */
  attach(raw: UnixSocket, frames: FrameReader<ToClient>, on: Listeners): void {
    [this.raw, this.frames, this.on] = [raw, frames, on];
    raw.watch(() => this.poll(), { keepAlive: this.wake === null });
    this.wake?.watch(
      (alive) => {
        if (alive) on.signalled();
      },
      { keepAlive: false },
    );
  }

  /** Handles what has arrived, if anything. */
  poll(): void {
    if (this.raw === null) return;
    try {
      const received = this.raw.receive(this.buffer);
      if (received === null) return;
      if (received.bytes === 0) throw new ConnectionError('the daemon closed the connection');
      this.dispatch(this.frames.push(this.buffer.subarray(0, received.bytes)));
    } catch (error) {
      this.end(error as Error);
    }
  }

  /** Handles messages that arrived together with the welcome. */
  deliver(messages: readonly ToClient[]): void {
    try {
      this.dispatch(messages);
    } catch (error) {
      this.end(error as Error);
    }
  }

  /** @throws HandshakeError for a message that is not allowed here */
  private dispatch(messages: readonly ToClient[]): void {
    for (const message of messages) {
      if (this.raw === null || this.on === null) return;
      if (message.type === 'welcome') throw new HandshakeError('the daemon sent a second welcome');
      this.on.received(message);
    }
  }

  private end(reason: Error): void {
    if (this.raw === null) return;
    this.disconnect();
    this.on?.ended(reason);
  }

  /** Messages to a daemon that has ended are lost; the next receive reports its end. */
  send(message: ToDaemon): void {
    if (this.raw === null) return;
    const bytes = frame(message);
    this.unsent.push(bytes);
    this.unsentBytes += bytes.length;
    this.flush();
  }

  private flush(): void {
    const { raw, unsent } = this;
    if (raw === null) return;
    try {
      while (unsent.length > 0) {
        const sent = raw.send(unsent[0]);
        this.unsentBytes -= sent;
        if (sent < unsent[0].length) {
          unsent[0] = unsent[0].subarray(sent);
          break;
        }
        unsent.shift();
      }
    } catch {
      this.dropUnsent();
    }
    if (unsent.length > 0) this.scheduleFlush();
  }

  private scheduleFlush(): void {
    this.resendTimer ??= setTimeout(() => {
      this.resendTimer = undefined;
      if (this.unsentBytes > MAX_UNSENT_BYTES) this.end(new ConnectionError('the daemon does not read'));
      else this.flush();
    }, RESEND_MS);
    if (this.wake !== null) this.resendTimer.unref();
  }

  private dropUnsent(): void {
    this.unsent.length = 0;
    this.unsentBytes = 0;
  }

  signal(): void {
    this.wake?.signal();
  }

  private disconnect(): void {
    clearTimeout(this.resendTimer);
    this.dropUnsent();
    this.raw?.close();
    this.raw = null;
  }

  /** Afterwards all views of the pages have length 0. */
  close(): void {
    this.disconnect();
    this.wake?.close();
    for (const memory of this.memories) memory.close();
  }
}

/** The welcome that the first answer must be. @throws HandshakeError */
function requireWelcome(message: ToClient): Welcome {
  if (message.type === 'refused') {
    const text = `the daemon refused: ${message.reason}`;
    throw message.kind === 'denied' ? new RefusedError(text) : new HandshakeError(text);
  }
  if (message.type !== 'welcome')
    throw new HandshakeError(`the daemon's first message was '${message.type}'`);
  if (message.version === VERSION) return message;
  throw new HandshakeError(
    `the daemon speaks protocol ${message.version} and this process protocol ${VERSION}: use the same version of isoverbs for both`,
  );
}

/** Connects to a socket. @throws ConnectionError whose message leaves out the path, which the caller names */
function connected(path: string): UnixSocket | null {
  try {
    return connectUnix(path);
  } catch (cause) {
    const { message, errno } = cause as IsoverbsError;
    const [, reason = message] = message.split(`cannot connect to ${path}: `);
    throw new ConnectionError(reason, { errno, cause });
  }
}

/** A daemon of another user could stall this program by its grants. @throws HandshakeError */
function requireTrusted(raw: UnixSocket): void {
  const { uid, pid } = raw.peer();
  if (uid === 0 || uid === process.getuid?.()) return;
  throw new HandshakeError(
    `process ${pid} of user ${uid} listens there; only root and this user are trusted`,
  );
}

/** An attempt to connect. */
export interface Attempt {
  /** Handles what has arrived, as the event loop would. */
  poll(): void;
  /** Cancels the attempt; no listener is called afterwards. */
  cancel(): void;
}

/**
 * Connects. Exactly one of `connected` and `ended` is called later, by the event loop or within `poll()`.
 * @param keepAlive whether waiting for the answer keeps the program alive
 */
export function connect(
  path: string,
  hello: Omit<Hello, 'type' | 'version'>,
  on: Listeners,
  keepAlive: boolean,
): Attempt {
  return new Connecting(path, { type: 'hello', version: VERSION, ...hello }, on, keepAlive);
}

class Connecting implements Attempt {
  private readonly on: Listeners;
  private readonly frames = new FrameReader<ToClient>(toClient);
  private readonly buffer = new Uint8Array(RECEIVE_BYTES);
  private readonly fds: number[] = [];
  private readonly endMs = performance.now() + ANSWER_MS;
  private readonly timer: NodeJS.Timeout;
  private retryTimer: NodeJS.Timeout | undefined;
  private raw: UnixSocket | null = null;
  /** Tries again to connect while the daemon's backlog is full, from `retryAtMs` on. */
  private retry: (() => void) | null = null;
  private retryAtMs = 0;
  /** An immediate failure, to be reported later. */
  private failure: Error | null = null;
  private isOver = false;

  constructor(path: string, hello: Hello, on: Listeners, keepAlive: boolean) {
    this.on = on;
    this.timer = setTimeout(() => this.poll(), ANSWER_MS + 1);
    if (!keepAlive) this.timer.unref();
    this.start(path, hello, keepAlive);
  }

  private start(path: string, hello: Hello, keepAlive: boolean): void {
    try {
      this.raw = connected(path);
      if (this.raw === null) {
        // The daemon's backlog is full, so try again in a moment.
        this.retry = () => this.start(path, hello, keepAlive);
        this.retryAtMs = performance.now() + BACKLOG_RETRY_MS;
        this.retryTimer = setTimeout(() => this.poll(), BACKLOG_RETRY_MS);
        if (!keepAlive) this.retryTimer.unref();
        return;
      }
      requireTrusted(this.raw);
      this.greet(frame(hello));
      this.raw.watch(() => this.poll(), { keepAlive });
    } catch (error) {
      this.failure = error as Error;
      setImmediate(() => this.poll());
    }
  }

  private greet(bytes: Uint8Array): void {
    try {
      if (this.raw!.send(bytes) < bytes.length) throw new ConnectionError('the daemon does not read');
    } catch (error) {
      // A daemon that is full closes the connection at once, and has said why.
      this.receive();
      throw error;
    }
  }

  poll(): void {
    if (this.isOver) return;
    this.retryIfDue();
    try {
      if (this.failure !== null) throw this.failure;
      this.receive();
      // After a long busy period the answer may already be waiting, so check for it before giving up.
      if (!this.isOver && performance.now() > this.endMs) throw new HandshakeError(UNANSWERED);
    } catch (error) {
      this.cancel();
      this.on.ended(error as Error);
    }
  }

  private retryIfDue(): void {
    const { retry } = this;
    if (retry === null || performance.now() < this.retryAtMs) return;
    clearTimeout(this.retryTimer);
    this.retry = null;
    retry();
  }

  private receive(): void {
    const { raw, fds, on, frames } = this;
    const received = raw?.receive(this.buffer, FDS) ?? null;
    if (raw === null || received === null) return;
    fds.push(...received.fds);
    if (received.bytes === 0) throw new ConnectionError('the daemon closed the connection before answering');
    const messages = frames.push(this.buffer.subarray(0, received.bytes));
    if (messages.length === 0) return;
    const connection = new Connection(requireWelcome(messages[0]), fds.splice(0));
    this.raw = null;
    this.cancel();
    connection.attach(raw, frames, on);
    on.connected(connection);
    connection.deliver(messages.slice(1));
  }

  cancel(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    clearTimeout(this.retryTimer);
    this.raw?.close();
    this.raw = null;
    for (const fd of this.fds.splice(0)) closeFd(fd);
  }
}
