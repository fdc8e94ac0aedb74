/**
 * Connects the policies of a thread with the daemon: when the first context is opened, and again whenever the
 * connection is lost. Only `createQp` waits for it (patience.ts).
 */
import { HEARTBEAT } from '../../coordinator/member-table.ts';
import { HandshakeError } from '../../verbs/errors.ts';
import { Budget, TELLS } from '../budgets.ts';
import { loadIpc } from '../ipc/index.ts';
import { SEATS_PER_CLIENT } from '../pages.ts';
import { decodeWords, encodeWords, type Hello, prepare } from '../protocol.ts';
import { Absence } from './absence.ts';
import { type Answer, type Attempt, type Connection, connect } from './connection.ts';
import { DeclarationOutbox } from './declaration-outbox.ts';
import { PATIENCE_MS, Patience } from './patience.ts';
import {
  type DaemonLink,
  type LastGranted,
  RemoteCoordinator,
  type RemoteLine,
  type RemoteMember,
  type StandaloneGrants,
} from './remote-coordinator.ts';
import { TenantMemory } from './tenant-memory.ts';

export interface ClientOptions {
  readonly socket: string;
  /** The process's declarations about itself. */
  readonly hello: Omit<Hello, 'type' | 'version' | 'role'>;
  /** What contexts may do until a daemon has answered. */
  readonly standalone?: StandaloneGrants;
  /** Reports to the user of the program. */
  report(line: string, isWarning: boolean): void;
}

/** Interval of the signs of life. The daemon takes a client that gives none for 50 ms for silent. */
const BEAT_MS = 20;
/** Interval at which a program whose event loop is blocked checks for what the loop would have received. */
const POLL_MS = 5;
/** The delay before the next attempt to connect doubles from the first value to the second. */
const RETRY_MS = 50;
const MAX_RETRY_MS = 1000;
/** A daemon of another version, or one that refuses, is unlikely to change soon. */
const REFUSED_RETRY_MS = 5000;

export class DaemonClient implements DaemonLink {
  private readonly options: ClientOptions;
  private readonly members = new Set<RemoteMember>();
  private readonly bySeat: (RemoteMember | undefined)[] = [];
  /** By seat number: joins not answered yet. All but the last are for a member that has left. */
  private readonly pendingJoins: number[] = [];
  /** Joins sent and answered so far; by seat number, the value of `joinsSent` when the seat was last left. */
  private joinsSent = 0;
  private joinsAnswered = 0;
  private readonly leftAt: number[] = [];
  private readonly listeners: { readonly onNews: () => void; readonly onBeat: () => void }[] = [];
  private connection: Connection | null = null;
  private attempt: Attempt | null = null;
  private retryTimer: NodeJS.Timeout | undefined;
  private beatTimer: NodeJS.Timeout | undefined;
  private retryMs = RETRY_MS;
  private readonly absence: Absence;
  /** The time at which `retryTimer` is due. */
  private retryAtMs = 0;
  /** The time until which a poll has nothing to do, because the event loop ran or a poll took place. */
  private pollDueMs = 0;
  /** Set during a poll, which runs inside a verb: a policy that waits for an answer must not be called meanwhile. */
  private isPolling = false;
  /** Events of lines that wait for the end of a poll. */
  private readonly deferred: (() => void)[] = [];
  private readonly outbox = new DeclarationOutbox();
  /** When members last reported what they have used. */
  private reportedMs = 0;
  private readonly patience = new Patience();
  private readonly memory = new TenantMemory();
  private readonly tells = new Budget(TELLS, performance.now() * 1e6);

  constructor(options: ClientOptions) {
    this.options = options;
    this.absence = new Absence(options.socket);
    loadIpc();
    prepare();
  }

  /** The coordinator of a device, for a policy around it. */
  coordinator(device: string): RemoteCoordinator {
    return new RemoteCoordinator(device, this, this.options.standalone);
  }

  get isConnected(): boolean {
    return this.connection !== null;
  }

  listen(onNews: () => void, onBeat: () => void = () => {}): void {
    this.listeners.push({ onNews, onBeat });
  }

  memberJoined(member: RemoteMember): void {
    this.members.add(member);
    this.beatTimer ??= setInterval(() => this.beat(), BEAT_MS).unref();
    this.pollDueMs = 0;
    if (this.connection !== null) this.join(member, this.connection);
    else if (this.attempt === null && this.retryTimer === undefined) this.connect();
    if (this.connection !== null || this.attempt !== null) return;
    this.absence.apply(member);
    member.goAlone();
  }

  lastGrants(device: string, tenant: string): LastGranted | null {
    return this.memory.lookUp(this.members, device, tenant);
  }

  /** Nothing that a program can do before this returns takes anything from others. */
  awaitSeat(member: RemoteMember): void {
    const isAnswered = () => {
      this.pollNow();
      return member.hasSeat || member.refusal !== '' || (this.connection === null && this.attempt === null);
    };
    if (this.patience.wait(isAnswered)) return;
    const { socket } = this.options;
    this.options.report(
      `the daemon at ${socket} has not answered within ${PATIENCE_MS} ms: continuing without it until it answers`,
      true,
    );
  }

  awaitGrant(isGranted: () => boolean): void {
    this.patience.wait(() => {
      if (isGranted()) return true;
      this.pollNow();
      return this.connection === null;
    });
  }

  memberLeft(member: RemoteMember): void {
    this.members.delete(member);
    this.memory.remember(member);
    const { seatNumber } = member;
    // What it has spent while it waited for its seat counts even if it waits no longer.
    const row = member.hasSeat || seatNumber < 0 ? null : this.connection?.rowAt(seatNumber);
    if (row) member.copyTo(row, this.connection!.welcome.layout);
    member.detach();
    if (seatNumber >= 0) {
      this.bySeat[seatNumber] = undefined;
      this.leftAt[seatNumber] = this.joinsSent;
      this.connection?.send({ type: 'leave', slot: seatNumber });
      this.seatNext();
    }
    if (this.members.size > 0) return;
    clearInterval(this.beatTimer);
    this.beatTimer = undefined;
  }

  signal(): void {
    this.connection?.signal();
  }

  lacksRuler(ruler: string, device: string): void {
    this.options.report(
      `the daemon at ${this.options.socket} has no ruler '${ruler}' with the columns of this program's policy, so ` +
        `contexts of ${device} get no share from it; name the policy's module in the daemon's configuration (policy)`,
      true,
    );
  }

  lineAdded(member: RemoteMember, line: RemoteLine): void {
    const { seatNumber } = member;
    if (seatNumber >= 0 && this.pendingJoins[seatNumber] === 0) this.raiseLine(member, line);
  }

  private raiseLines(member: RemoteMember | undefined): void {
    // A copy: a line may be opened meanwhile.
    for (const line of [...(member?.lines.values() ?? [])]) this.raiseLine(member!, line);
  }

  /** The member has a seat, so the line is up if the daemon runs the agent. */
  private raiseLine(member: RemoteMember, line: RemoteLine): void {
    const { connection, options } = this;
    if (connection === null) return;
    if (!connection.welcome.agents.includes(line.agent)) {
      options.report(
        `the daemon at ${options.socket} runs no agent '${line.agent}' for the contexts of ${member.device}; name the ` +
          `policy's module in the daemon's configuration (policy), and export its agents as \`agents\``,
        true,
      );
      return;
    }
    this.raise(member, line, () => line.events.onUp?.(line));
  }

  /** Drops words beyond the budget, because the daemon disconnects a client that sends too much. */
  tell(member: RemoteMember, agent: string, words: ArrayLike<number>): boolean {
    const { connection } = this;
    const { seatNumber: slot } = member;
    if (connection === null || slot < 0 || this.pendingJoins[slot] !== 0) return true;
    if (!connection.welcome.agents.includes(agent)) return true;
    if (!this.tells.tryTake(performance.now() * 1e6)) return false;
    connection.send({ type: 'tell', slot, agent, words: encodeWords(words) });
    return true;
  }

  declared(): void {
    this.outbox.isPending = true;
  }

  /** Tells the daemon what programs have set, and how many queue pairs have rates. */
  private sendDeclarations(): void {
    const seated = (slot: number) => slot >= 0 && this.pendingJoins[slot] === 0;
    if (this.connection !== null) this.outbox.send(this.members, seated, this.connection);
  }

  private told({ slot, agent, words }: Answer & { type: 'told' }): void {
    if (this.pendingJoins[slot] !== 0) return;
    const member = this.bySeat[slot];
    const line = member?.lines.get(agent);
    if (line === undefined) return;
    this.raise(member!, line, () => line.events.onTold?.(decodeWords(words)));
  }

  /**
   * Raises an event of a line, in order, and later if a poll is running: it runs inside a verb, where a policy must not be
   * called. What the policy throws is not the connection's error.
   */
  private raise(member: RemoteMember, line: RemoteLine, event: () => void): void {
    const { connection, deferred } = this;
    const raise = () => {
      const isCurrent = member.lines.get(line.agent) === line && this.connection === connection;
      try {
        if (isCurrent) event();
      } catch (error) {
        setImmediate(() => {
          throw error;
        });
      }
    };
    if (!this.isPolling && deferred.length === 0) {
      raise();
      return;
    }
    deferred.push(raise);
    if (deferred.length > 1) return;
    setImmediate(() => {
      for (const one of deferred.splice(0)) one();
    }).unref();
  }

  /**
   * Called when the thread ends. Reports what was sent so far, and frees the seats before their memory is
   * unmapped.
   */
  finish(): void {
    if (this.connection !== null) for (const { onBeat } of this.listeners) onBeat();
    this.close();
  }

  /** Members keep their last grants. Opening another context connects again. */
  close(): void {
    clearTimeout(this.retryTimer);
    clearInterval(this.beatTimer);
    this.attempt?.cancel();
    [this.retryTimer, this.beatTimer, this.attempt] = [undefined, undefined, null];
    this.dropConnection();
  }

  /**
   * Called by policies as they run, because nothing else runs in a program that polls and never returns to
   * its event loop. Costs a clock reading, plus a system call every POLL_MS while the loop is blocked. A
   * policy sees the result at its own next check.
   */
  poll(): boolean {
    const nowMs = performance.now();
    if (nowMs < this.pollDueMs || this.isPolling) return false;
    this.pollDueMs = nowMs + POLL_MS;
    for (const member of this.members) member.checkLife(nowMs);
    this.sendDeclarations();
    if (nowMs - this.reportedMs >= BEAT_MS) this.reportUsage(nowMs);
    this.pollNow();
    return true;
  }

  private pollNow(): void {
    this.isPolling = true;
    try {
      if (this.connection !== null) this.connection.poll();
      else if (this.attempt !== null) this.attempt.poll();
      else if (this.retryTimer !== undefined && performance.now() >= this.retryAtMs) this.connect();
    } finally {
      this.isPolling = false;
    }
  }

  /** Members write what they have used into their counters. */
  private reportUsage(nowMs: number): void {
    this.reportedMs = nowMs;
    if (this.connection !== null) for (const { onBeat } of this.listeners) onBeat();
  }

  private connect(): void {
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    const { socket, hello } = this.options;
    const listeners = {
      connected: (connection: Connection) => this.connected(connection),
      received: (message: Answer) => this.received(message),
      signalled: () => this.signalled(),
      ended: (reason: Error) => this.ended(reason),
    };
    this.attempt = connect(socket, { role: 'shim', ...hello }, listeners, false);
  }

  private connected(connection: Connection): void {
    this.attempt = null;
    this.connection = connection;
    this.retryMs = RETRY_MS;
    const { what, wasReported } = this.absence.end();
    // As loud as the report of an absence, which would otherwise seem to last.
    this.options.report(`${what} as tenant ${connection.welcome.tenant}`, wasReported);
    for (const member of this.members) this.join(member, connection);
  }

  /** Asks for a free seat. Until the daemon confirms it, the member stays on its own memory. */
  private join(member: RemoteMember, connection: Connection): void {
    const seatNumber = this.freeSeat();
    if (seatNumber < 0) {
      member.refusal = `a thread may have at most ${SEATS_PER_CLIENT} contexts under a daemon; close one first`;
      return;
    }
    member.refusal = '';
    this.bySeat[seatNumber] = member;
    this.pendingJoins[seatNumber] = (this.pendingJoins[seatNumber] ?? 0) + 1;
    this.joinsSent++;
    member.seatNumber = seatNumber;
    const row = connection.rowAt(seatNumber);
    if (row !== null) member.copyTo(row, connection.welcome.layout);
    connection.send({ type: 'join', slot: seatNumber, device: member.device, tenant: member.tenant });
  }

  /**
   * A free seat number, or -1. Prefers one that was not left so recently that the daemon may still have to
   * count what was written there. The daemon handles messages in order, so everything before an answered join
   * has been handled.
   */
  private freeSeat(): number {
    let free = -1;
    for (let seatNumber = 0; seatNumber < SEATS_PER_CLIENT; seatNumber++) {
      if (this.bySeat[seatNumber] !== undefined) continue;
      if (!(this.leftAt[seatNumber] >= this.joinsAnswered)) return seatNumber;
      if (free < 0) free = seatNumber;
    }
    return free;
  }

  /** A seat became free; gives it to a member without one. */
  private seatNext(): void {
    if (this.connection === null || this.members.size < SEATS_PER_CLIENT) return;
    for (const member of this.members) {
      if (member.seatNumber >= 0) continue;
      this.join(member, this.connection);
      return;
    }
  }

  private signalled(): void {
    this.patience.restore();
    this.notifyListeners();
  }

  private received(message: Answer): void {
    this.patience.restore();
    if (message.type === 'joined' || message.type === 'refused') this.joinAnswered(message);
    else if (message.type === 'labels') this.relabel(message);
    else if (message.type === 'groups') this.regroup(message);
    else if (message.type === 'told') this.told(message);
    else if (message.type === 'line' && this.pendingJoins[message.slot] === 0) {
      this.raiseLines(this.bySeat[message.slot]);
    }
  }

  /** Labels of a seat that is being joined come with the answer. */
  private relabel({ slot, labels, rates }: Answer & { type: 'labels' }): void {
    if (this.pendingJoins[slot] !== 0) return;
    this.bySeat[slot]?.setLabels(labels);
    this.bySeat[slot]?.setRates(rates);
    this.notifyListeners();
  }

  private regroup({ slot, ...given }: Answer & { type: 'groups' }): void {
    if (this.pendingJoins[slot] !== 0) return;
    this.bySeat[slot]?.setGroups(given);
    this.notifyListeners();
  }

  private joinAnswered(message: Answer & { type: 'joined' | 'refused' }): void {
    const { slot: seatNumber } = message;
    const { connection } = this;
    const row = seatNumber === undefined ? null : (connection?.rowAt(seatNumber) ?? null);
    if (seatNumber === undefined || connection === null || row === null) return;
    this.joinsAnswered++;
    if (--this.pendingJoins[seatNumber] > 0) return;
    const member = this.bySeat[seatNumber];
    if (member === undefined) return;
    if (message.type === 'joined') {
      this.memory.assign(member.tenant, message.tenant);
      member.assignedTenant ??= message.tenant;
      member.attach(row, connection.welcome.layout);
      member.setLabels(message.labels);
      member.setRates(message.rates);
      this.announceGroups(member, message.hasGroups);
      for (const { onBeat } of this.listeners) onBeat();
      this.raiseLines(member);
      this.signal();
      this.notifyListeners();
      return;
    }
    this.options.report(
      `the daemon at ${this.options.socket} refused a context of ${member.device}: ${message.reason}`,
      true,
    );
    this.bySeat[member.seatNumber] = undefined;
    member.seatNumber = -1;
    member.refusal = message.reason;
  }

  private notifyListeners(): void {
    if (this.isPolling) return;
    for (const { onNews } of this.listeners) onNews();
  }

  /**
   * A daemon that has just given the member a seat knows nothing of its groups. Weights of an earlier daemon stay until
   * those of this one arrive.
   */
  private announceGroups(member: RemoteMember, isGiven: boolean): void {
    if (!isGiven) member.setGroups({ groups: {}, fixed: [], isAll: true });
    member.unsentGroups.clear();
    for (const name of member.ownGroups.keys()) member.unsentGroups.add(name);
    if (member.unsentGroups.size > 0) this.outbox.isPending = true;
    this.sendDeclarations();
  }

  /** Gives a sign of life, and passes on grants that changed in the meantime. */
  private beat(): void {
    for (const { counters } of this.members) counters[HEARTBEAT]++;
    const nowMs = performance.now();
    this.reportUsage(nowMs);
    this.sendDeclarations();
    this.pollDueMs = nowMs + 2 * BEAT_MS;
    for (const member of this.members) member.checkLife(nowMs);
    this.notifyListeners();
  }

  private ended(reason: Error): void {
    const wasConnected = this.connection !== null;
    this.attempt = null;
    this.dropConnection();
    const line = this.absence.begin(reason, wasConnected, this.members);
    if (line !== null) this.options.report(line, true);
    if (this.members.size === 0) return;
    const waitMs = reason instanceof HandshakeError ? REFUSED_RETRY_MS : this.retryMs;
    this.retryMs = Math.min(MAX_RETRY_MS, 2 * this.retryMs);
    this.retryAtMs = performance.now() + waitMs;
    this.retryTimer = setTimeout(() => this.connect(), waitMs).unref();
  }

  /** Drops the pages; members continue with their own memory. */
  private dropConnection(): void {
    const { connection } = this;
    if (connection === null) return;
    this.connection = null;
    for (const member of this.members) {
      this.memory.remember(member);
      member.detach();
    }
    this.bySeat.length = 0;
    this.pendingJoins.length = 0;
    this.leftAt.length = 0;
    [this.joinsSent, this.joinsAnswered] = [0, 0];
    connection.close();
  }
}
