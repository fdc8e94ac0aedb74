/**
 * What connects the policies of a thread with the daemon. It connects by itself when the first context is opened, and
 * again whenever the daemon has gone: no verb waits for it.
 */
import { BEAT } from '../../coordinator/member-table.ts';
import { HandshakeError } from '../../verbs/errors.ts';
import { loadIpc } from '../ipc/index.ts';
import { columnsAt, SLOTS } from '../pages.ts';
import { type Hello, prepare } from '../protocol.ts';
import { type Answer, type Attempt, type Connection, connect } from './connection.ts';
import { type Link, RemoteCoordinator, type Seat } from './remote-coordinator.ts';

export interface ClientOptions {
  readonly socket: string;
  /** What the process says of itself. */
  readonly hello: Omit<Hello, 'type' | 'version' | 'role'>;
  /** What a context may send as long as no daemon has answered yet. */
  readonly aloneGbps: number;
  /** Tells the person who runs the program. */
  say(line: string, isWarning: boolean): void;
}

/** Between two signs of life: the daemon takes who gives none for 50 ms for stopped. */
const BEAT_MS = 20;
/** Between two looks of a program whose event loop does not turn, at what the loop would have heard. */
const LOOK_MS = 5;
/** Until the next try to connect: doubled from the first up to the last. */
const RETRY_MS = 50;
const MOST_RETRY_MS = 1000;
/** A daemon of another version, or one that refuses, does not soon become another. */
const REFUSED_RETRY_MS = 5000;

export class DaemonClient implements Link {
  private readonly options: ClientOptions;
  private readonly seats = new Set<Seat>();
  private readonly bySlot: (Seat | undefined)[] = [];
  /** By slot: answers that are to come. Those before the last are to a seat that has left. */
  private readonly asked: number[] = [];
  /** Joins that were asked for and answered; by slot: how many were asked for when it was left last. */
  private joins = 0;
  private answers = 0;
  private readonly leftAt: number[] = [];
  private readonly listeners: { readonly news: () => void; readonly beat: () => void }[] = [];
  private connection: Connection | null = null;
  private attempt: Attempt | null = null;
  private retry: NodeJS.Timeout | undefined;
  private beating: NodeJS.Timeout | undefined;
  private retryMs = RETRY_MS;
  /** What was said of the daemon's absence; '': it is there. */
  private saidOf = '';
  /** When `retry` is due. */
  private retryAtMs = 0;
  /** Before this the event loop has turned, or somebody has looked. */
  private lookAtMs = 0;
  /** In the middle of a verb: a policy that waits for an answer there must not be called. */
  private isLooking = false;

  constructor(options: ClientOptions) {
    this.options = options;
    loadIpc();
    prepare();
  }

  /** The coordinator of a device, for those who put a policy around it. */
  coordinator(device: string): RemoteCoordinator {
    return new RemoteCoordinator(device, this, this.options.aloneGbps);
  }

  get isConnected(): boolean {
    return this.connection !== null;
  }

  listen(news: () => void, beat: () => void = () => {}): void {
    this.listeners.push({ news, beat });
  }

  opened(seat: Seat): void {
    this.seats.add(seat);
    this.beating ??= setInterval(() => this.beat(), BEAT_MS).unref();
    if (this.connection !== null) this.join(seat, this.connection);
    else if (this.attempt === null && this.retry === undefined) this.connect();
  }

  closed(seat: Seat): void {
    this.seats.delete(seat);
    const { slot } = seat;
    seat.detach();
    if (slot >= 0) {
      this.bySlot[slot] = undefined;
      this.leftAt[slot] = this.joins;
      this.connection?.say({ type: 'leave', slot });
      this.placeOne();
    }
    if (this.seats.size > 0) return;
    clearInterval(this.beating);
    this.beating = undefined;
  }

  ring(): void {
    this.connection?.ring();
  }

  /** The thread ends: what was sent until now is told, and what it had is free before its memory is taken down. */
  end(): void {
    if (this.connection !== null) for (const { beat } of this.listeners) beat();
    this.close();
  }

  /** Members keep what they were granted last; who opens a context later connects again. */
  close(): void {
    clearTimeout(this.retry);
    clearInterval(this.beating);
    this.attempt?.giveUp();
    [this.retry, this.beating, this.attempt] = [undefined, undefined, null];
    this.lose();
  }

  /**
   * Policies call it as they run: in a program that polls and never turns its event loop nothing else would. Costs a
   * look at the clock, and a system call every LOOK_MS if the loop stands; a policy hears at its own next look.
   */
  look(): void {
    const nowMs = performance.now();
    if (nowMs < this.lookAtMs || this.isLooking) return;
    this.lookAtMs = nowMs + LOOK_MS;
    this.isLooking = true;
    try {
      if (this.connection !== null) this.connection.look();
      else if (this.attempt !== null) this.attempt.look();
      else if (this.retry !== undefined && nowMs >= this.retryAtMs) this.connect();
    } finally {
      this.isLooking = false;
    }
  }

  private connect(): void {
    clearTimeout(this.retry);
    this.retry = undefined;
    const { socket, hello } = this.options;
    const listeners = {
      answered: (connection: Connection) => this.answered(connection),
      heard: (message: Answer) => this.heard(message),
      rang: () => this.rang(),
      ended: (reason: Error) => this.ended(reason),
    };
    this.attempt = connect(socket, { role: 'shim', ...hello }, listeners, false);
  }

  private answered(connection: Connection): void {
    this.attempt = null;
    this.connection = connection;
    this.retryMs = RETRY_MS;
    this.saidOf = '';
    this.options.say(
      `joined the daemon at ${this.options.socket} as tenant ${connection.welcome.tenant}`,
      false,
    );
    for (const seat of this.seats) this.join(seat, connection);
  }

  /** A free place is asked for; until the daemon has said yes the member stands on memory of its own. */
  private join(seat: Seat, connection: Connection): void {
    const slot = this.freeSlot();
    if (slot < 0) {
      this.options.say(
        `only ${SLOTS} contexts of a thread have a place at the daemon; others go on without it`,
        true,
      );
      return;
    }
    this.bySlot[slot] = seat;
    this.asked[slot] = (this.asked[slot] ?? 0) + 1;
    this.joins++;
    seat.slot = slot;
    if (connection.pages !== null) seat.copyTo(columnsAt(connection.pages, slot));
    connection.say({ type: 'join', slot, device: seat.device, tenant: seat.tenant });
  }

  /**
   * One that nobody has: if possible none that was left so lately that the daemon may have what was said there still to
   * count. It hears one message after the other: who was answered since was heard after that. -1: there is none.
   */
  private freeSlot(): number {
    let free = -1;
    for (let slot = 0; slot < SLOTS; slot++) {
      if (this.bySlot[slot] !== undefined) continue;
      if (!(this.leftAt[slot] >= this.answers)) return slot;
      if (free < 0) free = slot;
    }
    return free;
  }

  /** A place is free for one that had none. */
  private placeOne(): void {
    if (this.connection === null || this.seats.size < SLOTS) return;
    for (const seat of this.seats) {
      if (seat.slot >= 0) continue;
      this.join(seat, this.connection);
      return;
    }
  }

  private heard(message: Answer): void {
    if (message.type === 'joined' || message.type === 'refused') this.placed(message);
  }

  private placed(message: Answer & { type: 'joined' | 'refused' }): void {
    const { slot } = message;
    const pages = this.connection?.pages;
    if (slot === undefined || pages === undefined || pages === null) return;
    this.answers++;
    if (--this.asked[slot] > 0) return;
    const seat = this.bySlot[slot];
    if (seat === undefined) return;
    if (message.type === 'joined') {
      seat.attach(columnsAt(pages, seat.slot));
      for (const { beat } of this.listeners) beat();
      this.ring();
      this.rang();
      return;
    }
    this.options.say(
      `the daemon at ${this.options.socket} has no place for ${seat.device}: ${message.reason}`,
      true,
    );
    this.bySlot[seat.slot] = undefined;
    seat.slot = -1;
  }

  private rang(): void {
    if (this.isLooking) return;
    for (const { news } of this.listeners) news();
  }

  /** Alive: and what was granted meanwhile is told to those who sleep. */
  private beat(): void {
    for (const { counters } of this.seats) counters[BEAT]++;
    if (this.connection !== null) for (const { beat } of this.listeners) beat();
    this.lookAtMs = performance.now() + 2 * BEAT_MS;
    this.rang();
  }

  private ended(reason: Error): void {
    const wasConnected = this.connection !== null;
    this.attempt = null;
    this.lose();
    this.sayAbsent(reason, wasConnected);
    if (this.seats.size === 0) return;
    const waitMs = reason instanceof HandshakeError ? REFUSED_RETRY_MS : this.retryMs;
    this.retryMs = Math.min(MOST_RETRY_MS, 2 * this.retryMs);
    this.retryAtMs = performance.now() + waitMs;
    this.retry = setTimeout(() => this.connect(), waitMs).unref();
  }

  /** Once: how exactly nobody answers differs from try to try, by chance. */
  private sayAbsent(reason: Error, wasConnected: boolean): void {
    const what = reason instanceof HandshakeError ? reason.message : 'absent';
    if (what === this.saidOf) return;
    this.saidOf = what;
    const state = wasConnected ? 'what it granted last holds' : 'going on without it';
    this.options.say(`no daemon at ${this.options.socket} (${reason.message}): ${state}`, true);
  }

  /** The pages go; members stand on memory of their own. */
  private lose(): void {
    const { connection } = this;
    if (connection === null) return;
    this.connection = null;
    for (const seat of this.seats) seat.detach();
    this.bySlot.length = 0;
    this.asked.length = 0;
    this.leftAt.length = 0;
    [this.joins, this.answers] = [0, 0];
    connection.close();
  }
}
