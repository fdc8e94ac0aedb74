/**
 * Who comes to the daemon's socket: how many may be there, who may come though it is full, and how long one has to say
 * who it is.
 */
import { IsoverbsError } from '../verbs/errors.ts';
import type { User, Users } from './budgets.ts';
import type { Complaints } from './connection-log.ts';
import { listenUnix, type PeerCredentials, type UnixListener, type UnixSocket } from './ipc/index.ts';
import { Peer } from './peer.ts';
import { frame } from './protocol.ts';

/** How many may be connected. */
export interface ClientLimits {
  readonly clients: number;
  readonly clientsOfAUser: number;
  /** Of `clients`, those that are kept for who may set what tenants get: they come beyond `clientsOfAUser`, too. */
  readonly reserved: number;
}
export const DEFAULT_LIMITS: ClientLimits = { clients: 4096, clientsOfAUser: 1024, reserved: 16 };

export interface AdmissionOptions {
  readonly socket: string;
  /** Permissions of the socket's file. */
  readonly mode: number;
  readonly limits: ClientLimits;
  readonly users: Users;
  readonly complaints: Complaints;
  /** Whether places are kept for it. */
  isOperator(credentials: PeerCredentials): boolean;
  /** It has said something. @throws IsoverbsError: why it is not let in */
  welcome(raw: UnixSocket, peer: Peer): void;
  /** One that came has gone; its pages are there still. */
  gone(peer: Peer): void;
  nowNs(): number;
}

/** Who says nothing for so long after connecting is not heard any more. */
const HELLO_MS = 1000;
/** No descriptors are left: who waits is looked at again after so long. */
const PAUSE_MS = 20;
/** Taken in a turn of the event loop, or thousands that come at once would wait for as many turns. */
const ACCEPTS_OF_A_TURN = 16;
const GREETINGS_OF_A_TURN = 16;
/** After a turn that turned somebody away nobody is accepted for so many times as long as it took. */
const REST = 3;
/**
 * Those that wait to be accepted. Somebody who knocks without end fills them, and others try again, which is better
 * than to stand behind thousands for longer than they wait for an answer.
 */
const BACKLOG = 512;
/** What somebody who greets has said: it is copied before the next one's comes. */
const RECEIVED = new Uint8Array(16384);

export class Admission {
  private readonly options: AdmissionOptions;
  private readonly greeting = new Map<Peer, UnixSocket>();
  private listener: UnixListener | null = null;
  private pausing: NodeJS.Timeout | undefined;
  private count = 0;
  /** In this turn of the event loop. */
  private greeted = 0;
  /** Those that were not let in since the beginning. */
  refused = 0;

  constructor(options: AdmissionOptions) {
    this.options = options;
  }

  /** @throws ConnectionError, InvalidArgumentError: the socket cannot be there */
  listen(): void {
    const { socket, mode } = this.options;
    this.listener = listenUnix(socket, { mode, backlog: BACKLOG });
    this.watch(this.listener);
  }

  close(): void {
    clearTimeout(this.pausing);
    this.listener?.close();
    for (const [peer, raw] of [...this.greeting]) {
      this.leave(peer);
      raw.close();
    }
  }

  /** Connections that are there. */
  get size(): number {
    return this.count;
  }

  /** Those of them that have not said who they are. */
  get greetings(): number {
    return this.greeting.size;
  }

  private watch(listener: UnixListener): void {
    listener.watch(() => this.acceptSome(listener));
  }

  private acceptSome(listener: UnixListener): void {
    const { nowNs } = this.options;
    const beganNs = nowNs();
    let refused = 0;
    for (let i = 0; i < ACCEPTS_OF_A_TURN; i++) {
      const what = this.accept(listener);
      if (what === 'none') break;
      if (what === 'refused') refused++;
      if (what === 'failed') {
        this.pause(listener, PAUSE_MS);
        return;
      }
    }
    if (refused > 0) this.pause(listener, Math.ceil((REST * (nowNs() - beganNs)) / 1e6));
  }

  private accept(listener: UnixListener): 'none' | 'taken' | 'refused' | 'failed' {
    const { complaints, users, nowNs } = this.options;
    let raw: UnixSocket | null = null;
    try {
      raw = listener.accept();
      if (raw === null) return 'none';
      const credentials = raw.peer();
      const user = users.of(credentials.uid, nowNs());
      const why = this.whyNot(credentials, user);
      if (why === null) {
        this.greet(raw, new Peer(credentials, user, nowNs()));
        return 'taken';
      }
      this.refused++;
      complaints.about(credentials, `is not let in: ${why}`);
      refuse(raw, why);
      return 'refused';
    } catch (error) {
      complaints.failed('a connection could not be accepted', error as Error);
      raw?.close();
      return raw === null ? 'failed' : 'refused';
    }
  }

  private pause(listener: UnixListener, ms: number): void {
    listener.watch(null);
    this.pausing = setTimeout(() => {
      if (!listener.closed) this.watch(listener);
    }, ms);
  }

  private whyNot(credentials: PeerCredentials, user: User): string | null {
    const { limits, isOperator, nowNs } = this.options;
    const { uid } = credentials;
    const kept = isOperator(credentials) ? 0 : limits.reserved;
    if (this.count >= limits.clients - kept) return `there are ${this.count} clients`;
    const own = limits.clientsOfAUser + limits.reserved - kept;
    if (user.connections >= own) return `user ${uid} has ${user.connections} clients`;
    if (!user.connects.tryTake(nowNs())) return `user ${uid} connects too often`;
    return null;
  }

  /** Waits for its first message. */
  private greet(raw: UnixSocket, peer: Peer): void {
    this.count++;
    peer.user.connections++;
    this.greeting.set(peer, raw);
    const drop = (why: string) => {
      if (!this.greeting.delete(peer)) return;
      this.options.complaints.about(peer.credentials, `${why}: disconnected`);
      refuse(raw, why);
      this.leave(peer);
    };
    peer.silence = setTimeout(() => drop('said nothing'), HELLO_MS);
    raw.watch(() => {
      // It stays readable: it comes again in the next turn.
      if (!this.hasTurn()) return;
      try {
        const got = raw.receive(RECEIVED);
        if (got === null) return;
        if (got.bytes === 0) return drop('hung up before it said who it is');
        peer.frames.add(RECEIVED.subarray(0, got.bytes));
        if (!peer.frames.isWhole) return;
        clearTimeout(peer.silence);
        this.options.welcome(raw, peer);
        this.greeting.delete(peer);
      } catch (error) {
        drop(error instanceof IsoverbsError ? `sent ${error.message}` : String(error));
      }
    });
  }

  /** Thousands that say who they are at once keep nobody waiting for longer than a turn. */
  private hasTurn(): boolean {
    if (this.greeted === 0) {
      setImmediate(() => {
        this.greeted = 0;
      });
    }
    if (this.greeted >= GREETINGS_OF_A_TURN) return false;
    this.greeted++;
    return true;
  }

  /** Everything of a connection is let go. */
  leave(peer: Peer): void {
    if (peer.isOver) return;
    this.greeting.delete(peer);
    this.count--;
    peer.user.connections--;
    // First what it wrote is counted, then its pages go.
    this.options.gone(peer);
    peer.close();
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
