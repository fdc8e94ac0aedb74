/** What the daemon has of one connection: its socket, its budget, its pages, and what it is to be told. */
import { Socket } from 'node:net';
import { Budget, MESSAGES, MOST_UNREAD_BYTES, RINGS, type User } from './budgets.ts';
import { Client } from './host.ts';
import {
  createMemory,
  createWake,
  type PeerCredentials,
  type SharedMemory,
  type UnixSocket,
  type Wake,
} from './ipc/index.ts';
import { COUNTERS_BYTES, FIRST_BYTES, GRANTS_BYTES } from './pages.ts';
import { Frames, type Hello, MOST_ASKED_BYTES, type ToDaemon, toDaemon } from './protocol.ts';
import type { Identity } from './rules.ts';

/** What came last, of whichever socket: it is looked at, or copied, before the next comes. */
const RECEIVED = new Uint8Array(16384);

export interface PeerListeners {
  received(bytes: Uint8Array): void;
  failed(error: Error): void;
  closed(): void;
}

export class Peer {
  readonly credentials: PeerCredentials;
  readonly user: User;
  readonly frames = new Frames<ToDaemon>(toDaemon, MOST_ASKED_BYTES);
  readonly messages: Budget;
  readonly rings: Budget;
  hello: Hello | null = null;
  /** Null for a tool. */
  client: Client | null = null;
  wake: Wake | null = null;
  /** Its next message is paid for. */
  isPaid = false;
  isOver = false;
  /** Answers that wait for a pass. */
  readonly answers: (() => void)[] = [];
  private socket: Socket | null = null;
  private readonly memories: SharedMemory[] = [];
  /** Until it has said who it is; until it is heard again. */
  silence: NodeJS.Timeout | undefined;
  private rest: NodeJS.Timeout | undefined;
  private deaf: NodeJS.Timeout | undefined;

  constructor(credentials: PeerCredentials, user: User, nowNs: number) {
    this.credentials = credentials;
    this.user = user;
    this.messages = new Budget(MESSAGES, nowNs);
    this.rings = new Budget(RINGS, nowNs);
  }

  /** Makes what is shared with it; returns what it is to be sent, which `sent` closes here. */
  open(identity: Identity): { fds: number[]; sent(): void } {
    // Whatever fails behind this, close() closes what is there already.
    const { memories } = this;
    memories.push(createMemory('isoverbs-counters', COUNTERS_BYTES, FIRST_BYTES));
    memories.push(createMemory('isoverbs-grants', GRANTS_BYTES, FIRST_BYTES));
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
      // The memory stays; thousands of clients would take twice the descriptors.
      for (const memory of memories) memory.closeFd();
    };
    return { fds: [counters.fd, grants.fd, far.fd], sent };
  }

  /** From now on the socket is Node's. */
  speak(raw: UnixSocket, on: PeerListeners): void {
    const onread = {
      buffer: RECEIVED,
      callback: (bytes: number, buffer: Uint8Array) => {
        on.received(buffer.subarray(0, bytes));
        return true;
      },
    };
    // One buffer for all: each of thousands of sockets would have its own.
    const options = { fd: raw.take(), readable: true, writable: true, onread };
    const socket = new Socket(options);
    this.socket = socket;
    socket.on('error', on.failed);
    socket.on('close', on.closed);
  }

  /** It is not heard for a while, and then `resumed` is called. */
  pause(waitNs: number, resumed: () => void): void {
    this.socket?.pause();
    this.rest = setTimeout(resumed, Math.ceil(waitNs / 1e6));
  }

  get isPaused(): boolean {
    return this.rest !== undefined;
  }

  resume(): void {
    if (this.rest === undefined) return;
    clearTimeout(this.rest);
    this.rest = undefined;
    if (!this.isOver) this.socket?.resume();
  }

  listen(rang: (isAlive: boolean) => void): void {
    this.wake?.watch(rang, { keepAlive: false });
  }

  /** Its rings are not heard for a while: the kernel keeps them for `rang`. */
  ignore(waitNs: number, rang: (isAlive: boolean) => void): void {
    this.wake?.watch(null);
    this.deaf = setTimeout(() => this.listen(rang), Math.ceil(waitNs / 1e6));
  }

  /** False: it, or others of its user, do not read what they asked for. */
  write(bytes: Buffer): boolean {
    const { socket, user } = this;
    if (socket === null || socket.destroyed) return true;
    if (user.unreadBytes + bytes.length > MOST_UNREAD_BYTES) return false;
    user.unreadBytes += bytes.length;
    socket.write(bytes, () => {
      user.unreadBytes -= bytes.length;
    });
    return true;
  }

  /** Everything is let go. */
  close(): void {
    this.isOver = true;
    for (const timer of [this.silence, this.rest, this.deaf]) clearTimeout(timer);
    this.socket?.destroy();
    this.wake?.close();
    this.wake = null;
    for (const memory of this.memories) memory.close();
  }
}
