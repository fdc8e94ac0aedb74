/**
 * Admits connections to the daemon's socket: how many, which ones even if it is full, and how long each may
 * take to send its hello.
 */
import { HandshakeError } from '../verbs/errors.ts';
import type { User, Users } from './budgets.ts';
import type { ConnectionLog } from './connection-log.ts';
import { mayTakePlace } from './identity/places.ts';
import { type Accepted, AcceptLoop } from './ipc/accept-loop.ts';
import { listenUnix, type PeerCredentials, type UnixListener, type UnixSocket } from './ipc/index.ts';
import { Peer } from './peer.ts';
import { frame } from './protocol.ts';
import { RefusedError } from './rules.ts';

/** How many clients may be connected. */
export interface ClientLimits {
  readonly clients: number;
  readonly clientsOfAUser: number;
  /**
   * The part of `clients` reserved for those who may change what tenants get; they may also exceed
   * `clientsOfAUser`.
   */
  readonly reserved: number;
}
export const DEFAULT_LIMITS: ClientLimits = { clients: 4096, clientsOfAUser: 1024, reserved: 16 };

export interface AdmissionOptions {
  readonly socket: string;
  /** Permissions of the socket's file. */
  readonly mode: number;
  readonly limits: ClientLimits;
  readonly users: Users;
  readonly connectionLog: ConnectionLog;
  /** The user to whom a user ID belongs. */
  ownerOf(uid: number): number;
  /** Whether a client may use the reserved part. */
  isOperator(credentials: PeerCredentials): boolean;
  /** Called with the first complete message. @throws IsoverbsError with the reason not to admit the client */
  welcome(raw: UnixSocket, peer: Peer): void;
  /** Called when a client has disconnected; its pages still exist. */
  left(peer: Peer): void;
  nowNs(): number;
}

/** A connection that sends no hello for this long is closed. */
const HELLO_MS = 1000;
/** Limits the work of an iteration of the event loop. */
const GREETINGS_PER_ITERATION = 16;
/**
 * The number of connections that may wait to be accepted. A client that connects without pause fills the
 * backlog, and others retry; which is better than queueing behind thousands for longer than a client waits for an
 * answer.
 */
const BACKLOG = 512;
/** One receive buffer for all greetings. Its content is copied before the next read. */
const RECEIVED = new Uint8Array(16384);

export class Admission {
  private readonly options: AdmissionOptions;
  private readonly greeting = new Map<Peer, UnixSocket>();
  private accepting: AcceptLoop | null = null;
  private connected = 0;
  /** Greetings in this iteration of the event loop. */
  private greetedNow = 0;
  /** Connections refused since the daemon started. */
  refused = 0;

  constructor(options: AdmissionOptions) {
    this.options = options;
  }

  /** @throws ConnectionError, InvalidArgumentError if the socket cannot be created */
  listen(): void {
    const { socket, mode, nowNs } = this.options;
    const listener = listenUnix(socket, { mode, backlog: BACKLOG });
    this.accepting = new AcceptLoop(listener, { accept: (from) => this.accept(from), nowNs });
  }

  close(): void {
    this.accepting?.close();
    for (const peer of [...this.greeting.keys()]) this.leave(peer);
  }

  /** Open connections. */
  get size(): number {
    return this.connected;
  }

  /** Connections that have not sent their hello yet. */
  get greetings(): number {
    return this.greeting.size;
  }

  private accept(listener: UnixListener): Accepted {
    const { connectionLog, users, ownerOf, nowNs } = this.options;
    let raw: UnixSocket | null = null;
    try {
      raw = listener.accept();
      if (raw === null) return 'none';
      const credentials = raw.peer();
      const user = users.of(ownerOf(credentials.uid), nowNs());
      const reason = this.refusalReason(credentials, user);
      if (reason === null) {
        this.awaitHello(raw, new Peer(raw, credentials, user, nowNs()));
        return 'taken';
      }
      this.refused++;
      connectionLog.warn('client-refused', credentials, `was refused: ${reason}`);
      tell(raw, reason, 'denied');
      raw.close();
      return 'refused';
    } catch (error) {
      connectionLog.warnError('accept-failed', 'a connection could not be accepted', error as Error);
      raw?.close();
      return raw === null ? 'failed' : 'refused';
    }
  }

  private refusalReason(credentials: PeerCredentials, user: User): string | null {
    const { limits, isOperator, ownerOf, nowNs } = this.options;
    const owner = ownerOf(credentials.uid);
    const isReservedFor = isOperator(credentials);
    const reserved = isReservedFor ? 0 : limits.reserved;
    const all = limits.clients - reserved;
    if (this.connected >= all) return `${this.connected} clients are connected, which is the limit`;
    const own = user.connections;
    const mostOwn = limits.clientsOfAUser + limits.reserved - reserved;
    if (own >= mostOwn) return `user ${owner} has ${own} clients, the most that a user may have`;
    if (!isReservedFor && !mayTakePlace({ own, free: all - this.connected, all }))
      return `user ${owner} has ${own} clients, and the last places are for users that have fewer`;
    if (!user.connects.tryTake(nowNs())) return `user ${owner} connects too often`;
    return null;
  }

  /** Waits for the client's first message. */
  private awaitHello(raw: UnixSocket, peer: Peer): void {
    this.connected++;
    peer.user.connections++;
    this.greeting.set(peer, raw);
    const reject = (reason: string, what = reason, kind?: 'denied') => {
      if (!this.greeting.delete(peer)) return;
      this.options.connectionLog.warn('client-disconnected', peer.credentials, `${what}: disconnected`);
      tell(raw, reason, kind);
      this.leave(peer);
    };
    peer.helloTimer = setTimeout(() => reject('sent no hello', undefined, 'denied'), HELLO_MS);
    raw.watch(() => {
      // The socket stays readable, so this runs again in the next iteration.
      if (!this.tryGreet()) return;
      try {
        const got = raw.receive(RECEIVED);
        if (got === null) return;
        if (got.bytes === 0) return reject('disconnected before its hello');
        peer.frames.add(RECEIVED.subarray(0, got.bytes));
        if (!peer.frames.isComplete) return;
        clearTimeout(peer.helloTimer);
        this.options.welcome(raw, peer);
        this.greeting.delete(peer);
      } catch (error) {
        if (error instanceof RefusedError) reject(error.message, `was refused: ${error.message}`, 'denied');
        else if (error instanceof HandshakeError) reject(`sent ${error.message}`);
        else reject(String(error), undefined, 'denied');
      }
    });
  }

  /** Limits the greetings per iteration, so that thousands of them at once delay nothing else for long. */
  private tryGreet(): boolean {
    if (this.greetedNow === 0) {
      setImmediate(() => {
        this.greetedNow = 0;
      });
    }
    if (this.greetedNow >= GREETINGS_PER_ITERATION) return false;
    this.greetedNow++;
    return true;
  }

  /** Releases everything that belongs to a connection. */
  leave(peer: Peer): void {
    if (peer.isClosed) return;
    this.greeting.delete(peer);
    // The pages must still exist while the client's last counters are read.
    this.options.left(peer);
    // A connection counts until the descriptors that its peer has sent are closed: otherwise they would have no limit.
    peer.close(() => {
      this.connected--;
      peer.user.connections--;
    });
  }
}

/** Sends the reason if that is possible at once. */
function tell(socket: UnixSocket, reason: string, kind?: 'denied'): void {
  try {
    socket.send(frame({ type: 'refused', reason, kind }));
  } catch {
    // The client has already disconnected.
  }
}
