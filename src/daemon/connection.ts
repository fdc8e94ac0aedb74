/** A connection to the daemon, from the first word to a socket that speaks in messages. */
import { Socket } from 'node:net';
import { ConnectionError, HandshakeError } from '../verbs/errors.ts';
import { closeFd, connectUnix, openMemory, type SharedMemory, type UnixSocket, Wake } from './ipc/index.ts';
import { COUNTERS_BYTES, GRANTS_BYTES, type Pages } from './pages.ts';
import { Frames, frame, type Hello, type ToClient, type ToDaemon, toClient, VERSION } from './protocol.ts';

type Welcome = ToClient & { type: 'welcome' };
export type Answer = Exclude<ToClient, Welcome>;

const ANSWER_MS = 2000;
/** Counters, grants, and the wake-up. */
const FDS = 3;
const NO_FD = -1;

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
  private socket: Socket | null = null;
  /** Why it is over, when it is. */
  private reason: Error = new ConnectionError('the daemon has gone');

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

  /** From now on the socket is Node's. A shim's keeps no program alive. */
  speak(fd: number, frames: Frames<ToClient>, on: Listeners): void {
    const socket = new Socket({ fd, readable: true, writable: true });
    this.socket = socket;
    if (this.wake !== null) socket.unref();
    this.wake?.watch(
      (alive) => {
        if (alive) on.rang();
      },
      { keepAlive: false },
    );
    socket.on('error', (error) => {
      this.reason = error;
    });
    socket.on('data', (bytes) => {
      try {
        this.hear(frames.push(bytes), on);
      } catch (error) {
        this.reason = error as Error;
        socket.destroy();
      }
    });
    socket.on('close', () => on.ended(this.reason));
  }

  /** What cannot be understood ends the connection. */
  hear(messages: readonly ToClient[], on: Listeners): void {
    for (const message of messages) {
      if (this.socket?.destroyed !== false) return;
      if (message.type === 'ring') on.rang();
      else if (message.type !== 'welcome') on.heard(message);
      else {
        this.reason = new HandshakeError('the daemon greeted twice');
        this.socket.destroy();
      }
    }
  }

  say(message: ToDaemon): void {
    if (this.socket?.destroyed === false) this.socket.write(frame(message));
  }

  ring(): void {
    this.wake?.ring();
  }

  /** Views of the pages are of no bytes from now on. */
  close(): void {
    this.socket?.removeAllListeners('close').on('error', () => {});
    this.socket?.destroy();
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

/**
 * Connects. Exactly one of `answered` and `ended` is called, later; the function that is returned gives up.
 * @param keepAlive whether waiting for the answer keeps the program alive
 */
export function connect(
  path: string,
  hello: Omit<Hello, 'type' | 'version'>,
  on: Listeners,
  keepAlive: boolean,
): () => void {
  let raw: UnixSocket | null = null;
  const frames = new Frames<ToClient>(toClient);
  const buffer = new Uint8Array(16384);
  const fds: number[] = [];
  let isOver = false;
  const give = () => {
    isOver = true;
    clearTimeout(timer);
    raw?.close();
    raw = null;
  };
  const end = (error: Error) => {
    if (isOver) return;
    give();
    for (const fd of fds.splice(0)) closeFd(fd);
    on.ended(error);
  };
  const timer = setTimeout(() => {
    // A program that has been busy for so long finds the answer waiting.
    if (raw !== null) look(raw);
    end(new HandshakeError('the daemon does not answer'));
  }, ANSWER_MS);
  if (!keepAlive) timer.unref();
  const receive = (socket: UnixSocket) => {
    const got = socket.receive(buffer, FDS);
    if (got === null) return;
    fds.push(...got.fds);
    if (got.bytes === 0) throw new ConnectionError('the daemon hung up');
    const messages = frames.push(buffer.subarray(0, got.bytes));
    if (messages.length === 0) return;
    const connection = new Connection(answerOf(messages[0]), fds.splice(0));
    raw = null;
    give();
    try {
      connection.speak(socket.take(), frames, on);
    } catch (error) {
      connection.close();
      on.ended(error as Error);
      return;
    }
    on.answered(connection);
    connection.hear(messages.slice(1), on);
  };
  const look = (socket: UnixSocket) => {
    try {
      receive(socket);
    } catch (error) {
      if (isOver) throw error;
      end(error as Error);
    }
  };
  try {
    raw = connectUnix(path);
    if (raw === null) throw new ConnectionError('the daemon has no time');
    const socket = raw;
    requireTrusted(raw);
    const bytes = frame({ type: 'hello', version: VERSION, ...hello });
    if (socket.send(bytes) < bytes.length) throw new ConnectionError('the daemon takes nothing');
    socket.watch(() => look(socket), { keepAlive });
  } catch (error) {
    setImmediate(() => end(error as Error));
  }
  return () => {
    give();
    for (const fd of fds.splice(0)) closeFd(fd);
  };
}
