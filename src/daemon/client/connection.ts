/**
 * A connection to the daemon. Nothing here blocks; the event loop hears what comes, and a program whose loop does not
 * turn may look by itself.
 */
import { ConnectionError, HandshakeError } from '../../verbs/errors.ts';
import { closeFd, connectUnix, openMemory, type SharedMemory, type UnixSocket, Wake } from '../ipc/index.ts';
import { COUNTERS_BYTES, GRANTS_BYTES, type Pages } from '../pages.ts';
import { Frames, frame, type Hello, type ToClient, type ToDaemon, toClient, VERSION } from '../protocol.ts';

type Welcome = ToClient & { type: 'welcome' };
export type Answer = Exclude<ToClient, Welcome>;

const ANSWER_MS = 2000;
/** Counters, grants, and the wake-up. */
const FDS = 3;
const NO_FD = -1;
const RECEIVE_BYTES = 16384;
/** What waits for a daemon that reads nothing: tens of thousands of messages. */
const MOST_UNSENT_BYTES = 4 << 20;
const SEND_AGAIN_MS = 1;
/** Between two tries of one who comes while the daemon's queue is full. */
const AGAIN_MS = 10;

export interface Listeners {
  /** After the first answer. */
  answered(connection: Connection): void;
  heard(message: Answer): void;
  /** The daemon rang. */
  rang(): void;
  /** The connection is over, or never was one: the daemon went, refused, or is something else. */
  ended(reason: Error): void;
}

/** A connection that was answered. */
export class Connection {
  readonly welcome: Welcome;
  /** Null for a tool. */
  readonly pages: Pages | null;
  private readonly memories: readonly SharedMemory[];
  private readonly wake: Wake | null;
  private raw: UnixSocket | null = null;
  private frames: Frames<ToClient> = new Frames<ToClient>(toClient);
  private on: Listeners | null = null;
  private readonly buffer = new Uint8Array(RECEIVE_BYTES);
  private unsent: Uint8Array[] = [];
  private unsentBytes = 0;
  private sending: NodeJS.Timeout | undefined;

  /** @throws HandshakeError, MemoryError for descriptors that are something else; they are closed */
  constructor(welcome: Welcome, fds: readonly number[]) {
    this.welcome = welcome;
    if (welcome.slots === 0 || fds.length !== FDS) {
      for (const fd of fds) closeFd(fd);
      if (welcome.slots !== 0) throw new HandshakeError(`${fds.length} descriptors came, not ${FDS}`);
      [this.pages, this.memories, this.wake] = [null, [], null];
      return;
    }
    const [counters, grants, wake] = fds;
    this.wake = new Wake(wake);
    const memories: SharedMemory[] = [];
    this.memories = memories;
    // openMemory() closes the descriptor that it is given, whatever happens; the other one is still open then.
    let open = grants;
    try {
      memories.push(openMemory(counters, COUNTERS_BYTES, { writable: true }));
      open = NO_FD;
      memories.push(openMemory(grants, GRANTS_BYTES));
    } catch (error) {
      if (open !== NO_FD) closeFd(open);
      this.close();
      throw error;
    }
    const [written, read] = memories;
    this.pages = { counters: new Float64Array(written.buffer), grants: new Float64Array(read.buffer) };
  }

  /** From now on the socket is this connection's. A shim's keeps no program alive. */
  speak(raw: UnixSocket, frames: Frames<ToClient>, on: Listeners): void {
    [this.raw, this.frames, this.on] = [raw, frames, on];
    raw.watch(() => this.look(), { keepAlive: this.wake === null });
    this.wake?.watch(
      (alive) => {
        if (alive) on.rang();
      },
      { keepAlive: false },
    );
  }

  /** Takes what has come, if anything has. */
  look(): void {
    if (this.raw === null) return;
    try {
      const got = this.raw.receive(this.buffer);
      if (got === null) return;
      if (got.bytes === 0) throw new ConnectionError('the daemon has gone');
      this.hear(this.frames.push(this.buffer.subarray(0, got.bytes)));
    } catch (error) {
      this.end(error as Error);
    }
  }

  /** What came behind the first answer. */
  heardAlready(messages: readonly ToClient[]): void {
    try {
      this.hear(messages);
    } catch (error) {
      this.end(error as Error);
    }
  }

  /** @throws HandshakeError for what cannot be understood */
  private hear(messages: readonly ToClient[]): void {
    for (const message of messages) {
      if (this.raw === null || this.on === null) return;
      if (message.type === 'welcome') throw new HandshakeError('the daemon greeted twice');
      if (message.type === 'ring') this.on.rang();
      else this.on.heard(message);
    }
  }

  private end(reason: Error): void {
    if (this.raw === null) return;
    this.hangUp();
    this.on?.ended(reason);
  }

  /** What a daemon that has gone does not take is lost: that it has gone shows when something is to be received. */
  say(message: ToDaemon): void {
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
      this.forgetUnsent();
    }
    if (unsent.length > 0) this.flushSoon();
  }

  private flushSoon(): void {
    this.sending ??= setTimeout(() => {
      this.sending = undefined;
      if (this.unsentBytes > MOST_UNSENT_BYTES) this.end(new ConnectionError('the daemon takes nothing'));
      else this.flush();
    }, SEND_AGAIN_MS);
    if (this.wake !== null) this.sending.unref();
  }

  private forgetUnsent(): void {
    this.unsent.length = 0;
    this.unsentBytes = 0;
  }

  ring(): void {
    this.wake?.ring();
  }

  private hangUp(): void {
    clearTimeout(this.sending);
    this.forgetUnsent();
    this.raw?.close();
    this.raw = null;
  }

  /** Views of the pages are of no bytes from now on. */
  close(): void {
    this.hangUp();
    this.wake?.close();
    for (const memory of this.memories) memory.close();
  }
}

/** What the first answer is. @throws HandshakeError */
function answerOf(message: ToClient): Welcome {
  if (message.type === 'refused') throw new HandshakeError(`the daemon refuses: ${message.reason}`);
  if (message.type !== 'welcome') throw new HandshakeError(`the daemon began with '${message.type}'`);
  if (message.version === VERSION) return message;
  throw new HandshakeError(`the daemon speaks version ${message.version}, this process ${VERSION}`);
}

/** Whoever else made a socket there could stop this program by its grants. @throws HandshakeError */
function requireTrusted(raw: UnixSocket): void {
  const { uid, pid } = raw.peer();
  if (uid === 0 || uid === process.getuid?.()) return;
  throw new HandshakeError(`process ${pid} of user ${uid} listens there, and neither root nor this user`);
}

/** Somebody who connects. */
export interface Attempt {
  /** Takes what has come, as the event loop would. */
  look(): void;
  /** Nothing more is heard of it. */
  giveUp(): void;
}

/**
 * Connects. Exactly one of `answered` and `ended` is called, later: by the event loop, or in a `look()`.
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
  private readonly frames = new Frames<ToClient>(toClient);
  private readonly buffer = new Uint8Array(RECEIVE_BYTES);
  private readonly fds: number[] = [];
  private readonly endMs = performance.now() + ANSWER_MS;
  private readonly timer: NodeJS.Timeout;
  private again: NodeJS.Timeout | undefined;
  private raw: UnixSocket | null = null;
  /** Why it cannot be: to be told. */
  private failure: Error | null = null;
  private isOver = false;

  constructor(path: string, hello: Hello, on: Listeners, keepAlive: boolean) {
    this.on = on;
    this.timer = setTimeout(() => this.look(), ANSWER_MS + 1);
    if (!keepAlive) this.timer.unref();
    this.begin(path, hello, keepAlive);
  }

  private begin(path: string, hello: Hello, keepAlive: boolean): void {
    try {
      this.raw = connectUnix(path);
      if (this.raw === null) {
        // So many knock: another moment one of them has been taken.
        this.again = setTimeout(() => this.begin(path, hello, keepAlive), AGAIN_MS);
        if (!keepAlive) this.again.unref();
        return;
      }
      requireTrusted(this.raw);
      const bytes = frame(hello);
      if (this.raw.send(bytes) < bytes.length) throw new ConnectionError('the daemon takes nothing');
      this.raw.watch(() => this.look(), { keepAlive });
    } catch (error) {
      this.failure = error as Error;
      setImmediate(() => this.look());
    }
  }

  look(): void {
    if (this.isOver) return;
    try {
      if (this.failure !== null) throw this.failure;
      this.receive();
      // A program that has been busy for so long may find the answer waiting: only then it is too late.
      if (!this.isOver && performance.now() > this.endMs)
        throw new HandshakeError('the daemon does not answer');
    } catch (error) {
      this.giveUp();
      this.on.ended(error as Error);
    }
  }

  private receive(): void {
    const { raw, fds, on, frames } = this;
    const got = raw?.receive(this.buffer, FDS) ?? null;
    if (raw === null || got === null) return;
    fds.push(...got.fds);
    if (got.bytes === 0) throw new ConnectionError('the daemon hung up');
    const messages = frames.push(this.buffer.subarray(0, got.bytes));
    if (messages.length === 0) return;
    const connection = new Connection(answerOf(messages[0]), fds.splice(0));
    this.raw = null;
    this.giveUp();
    connection.speak(raw, frames, on);
    on.answered(connection);
    connection.heardAlready(messages.slice(1));
  }

  giveUp(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    clearTimeout(this.again);
    this.raw?.close();
    this.raw = null;
    for (const fd of this.fds.splice(0)) closeFd(fd);
  }
}
