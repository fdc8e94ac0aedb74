/**
 * The daemon's end of the socket. Admitted clients get their pages; their messages are served until they
 * disconnect.
 */
import type { Logger } from 'pino';
import { HandshakeError } from '../verbs/errors.ts';
import { Admission, type ClientLimits, DEFAULT_LIMITS } from './admission.ts';
import type { DaemonAgents } from './agents.ts';
import { MESSAGES_PER_S, Users } from './budgets.ts';
import { BusyPasses } from './busy-passes.ts';
import { ConnectionLog } from './connection-log.ts';
import type { Client } from './devices.ts';
import type { Host } from './host.ts';
import type { PeerCredentials, PeerProcess, UnixSocket } from './ipc/index.ts';
import { Listing } from './listing.ts';
import type { ServerCounts } from './metrics/metrics.ts';
import { SEATS_PER_CLIENT } from './pages.ts';
import { type Passes, PassScheduler } from './pass-scheduler.ts';
import type { Peer } from './peer.ts';
import {
  decodeWords,
  encodeWords,
  frame,
  type Hello,
  type ToClient,
  type ToDaemon,
  VERSION,
} from './protocol.ts';
import { type Identity, RefusedError } from './rules.ts';

export interface ServerOptions {
  readonly socket: string;
  /** Permissions of the socket's file. */
  readonly mode: number;
  readonly limits?: ClientLimits;
  readonly host: Host;
  /** The policy for clients that name none, in the form of ISOVERBS_POLICY; '' for no policy. */
  readonly policy: string;
  /** The provider whose devices programs should prefer. Default '': none. */
  readonly provider?: string;
  readonly log: Logger;
  /** Whether passes follow each other at once, and rulers of busy mode decide. Default false. */
  readonly isBusy?: boolean;
  /** Default: none. */
  readonly agents?: DaemonAgents;
  /** The user to whom a user ID belongs. Default: the user itself. */
  ownerOf?(uid: number): number;
  /**
   * Called again for each client when the rules have changed.
   * @throws RefusedError if a rule cannot be checked
   */
  identify(credentials: PeerCredentials, hello: Hello, process: PeerProcess): Identity;
  /** Whether a client may change what tenants get. */
  maySet(credentials: PeerCredentials): boolean;
  /** Called after each pass with its duration. */
  onPass?(durationNs: number): void;
  /** A monotonic clock. */
  nowNs(): number;
}

/**
 * Messages of one client handled before other clients get a turn, so that one that sends many delays none of
 * them.
 */
const MESSAGES_PER_ITERATION = 64;

export class Server {
  private readonly options: ServerOptions;
  private readonly peers = new Set<Peer>();
  private readonly byClient = new Map<Client, Peer>();
  /** Clients to be answered after the next pass. */
  private readonly awaitingPass = new Set<Peer>();
  private readonly admission: Admission;
  private readonly passScheduler: Passes;
  private readonly connectionLog: ConnectionLog;
  private readonly listing: Listing;
  private isClosing = false;

  constructor(options: ServerOptions) {
    this.options = options;
    const { socket, mode, host, log, limits = DEFAULT_LIMITS } = options;
    const nowNs = () => options.nowNs();
    const ownerOf = (uid: number) => options.ownerOf?.(uid) ?? uid;
    this.connectionLog = new ConnectionLog(log, nowNs, ownerOf);
    this.listing = new Listing(host, options.policy, nowNs);
    const passes = { host, afterPass: () => this.notifyClients(), onPass: options.onPass, nowNs };
    this.passScheduler = options.isBusy ? new BusyPasses(passes) : new PassScheduler(passes);
    this.admission = new Admission({
      socket,
      mode,
      limits,
      users: new Users(),
      connectionLog: this.connectionLog,
      ownerOf,
      isOperator: (credentials) => options.maySet(credentials),
      welcome: (raw, peer) => this.welcome(raw, peer),
      left: (peer) => this.left(peer),
      nowNs,
    });
  }

  /** @throws ConnectionError, InvalidArgumentError if the socket cannot be created */
  listen(): void {
    this.isClosing = false;
    this.admission.listen();
  }

  /** Clients keep their last grants: disconnecting them one by one redistributes nothing. */
  close(): void {
    this.isClosing = true;
    this.passScheduler.close();
    this.admission.close();
    for (const peer of [...this.peers]) this.admission.leave(peer);
    this.connectionLog.close();
  }

  /** Identifies all clients again after the rules have changed. */
  reidentify(): void {
    const { host, nowNs } = this.options;
    for (const peer of [...this.peers]) {
      const { client, hello } = peer;
      if (client === null || hello === null) continue;
      const identity = this.identityOf(peer, hello);
      if (identity === null) continue;
      const hasAllSeats = host.reidentify(client, identity, nowNs());
      // The client reconnects and then learns which of its contexts have no seat.
      if (!hasAllSeats) this.disconnect(peer, 'has more contexts than the new rules leave seats for');
      // Each context left and rejoined.
      else for (const slot of client.seats.keys()) this.send(peer, { type: 'line', slot });
    }
    this.passScheduler.request();
  }

  /** Null for a client that the new rules refuse: it is disconnected, reconnects, and then learns why. */
  private identityOf(peer: Peer, hello: Hello): Identity | null {
    try {
      return this.options.identify(peer.credentials, hello, peer.process);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      this.disconnect(peer, `was refused: ${error.message}`);
      return null;
    }
  }

  /** Requests a pass, because an agent has changed grants. */
  requestPass(): void {
    this.passScheduler.request();
  }

  /** Connected clients. */
  get size(): number {
    return this.admission.size;
  }

  get counts(): ServerCounts {
    const { size, greetings, refused } = this.admission;
    const shims = this.byClient.size;
    const tools = Math.max(0, size - greetings - shims);
    return { greeting: greetings, shims, tools, refused, suppressedLines: this.connectionLog.suppressed };
  }

  /** @throws HandshakeError */
  private welcome(raw: UnixSocket, peer: Peer): void {
    const { policy, provider = '', identify } = this.options;
    const hello = peer.frames.next();
    if (hello.type !== 'hello') throw new HandshakeError(`'${hello.type}' before hello`);
    if (hello.version !== VERSION) {
      throw new HandshakeError(
        `protocol ${hello.version}; this daemon speaks protocol ${VERSION}: use the daemon's version of isoverbs in this program`,
      );
    }
    const isShim = hello.role === 'shim';
    // A tool belongs to no tenant, so no rule can refuse it.
    const identity = isShim ? identify(peer.credentials, hello, peer.process) : null;
    const { layout, shape } = this.options.host;
    const pages = identity === null ? { fds: [], sent() {} } : peer.openPages(identity, shape);
    const bytes = frame({
      type: 'welcome',
      version: VERSION,
      slots: isShim ? SEATS_PER_CLIENT : 0,
      layout: isShim ? layout : [],
      policy,
      provider,
      tenant: identity?.tenant ?? '',
      agents: isShim ? (this.options.agents?.names ?? []) : [],
    });
    let sent = 0;
    try {
      sent = raw.send(bytes, pages.fds);
    } finally {
      pages.sent();
    }
    if (sent < bytes.length) throw new HandshakeError('a hello without reading the answer');
    peer.hello = hello;
    this.peers.add(peer);
    if (peer.client !== null) this.byClient.set(peer.client, peer);
    peer.watchWake((isAlive, error) => this.signalled(peer, isAlive, error));
    peer.attach({
      received: (bytes) => this.received(peer, bytes),
      ended: (error) => this.ended(peer, error),
    });
    this.processMessages(peer);
  }

  private left(peer: Peer): void {
    const { host, nowNs } = this.options;
    const { client } = peer;
    this.peers.delete(peer);
    this.awaitingPass.delete(peer);
    if (client === null || !this.byClient.delete(client) || this.isClosing) return;
    host.forget(client, nowNs());
    this.passScheduler.request();
  }

  /** The client has disconnected, or its connection has failed. */
  private ended(peer: Peer, error: Error | null = null): void {
    if (error instanceof HandshakeError) {
      this.disconnect(peer, `sent ${error.message}`);
      return;
    }
    if (error !== null)
      this.options.log.debug({ event: 'connection-failed', err: error }, `process ${peer.credentials.pid}`);
    this.admission.leave(peer);
  }

  private disconnect(peer: Peer, why: string): void {
    if (peer.isClosed) return;
    this.connectionLog.warn('client-disconnected', peer.credentials, `${why}: disconnected`);
    this.admission.leave(peer);
  }

  private received(peer: Peer, bytes: Uint8Array): void {
    if (peer.isClosed) return;
    peer.frames.add(bytes);
    if (peer.isPaused) return;
    this.guard(peer, () => {
      // Charged per piece, because single bytes cost as much as messages.
      const waitNs = this.charge(peer);
      if (waitNs > 0) peer.pause(waitNs, () => this.processMessages(peer));
      else this.processMessages(peer);
    });
  }

  /** An invalid message ends only the connection of the client that sent it. */
  private guard(peer: Peer, action: () => void): void {
    try {
      action();
    } catch (error) {
      this.disconnect(peer, `sent ${(error as Error).message}`);
    }
  }

  /** Handles received messages as far as the budgets allow. */
  private processMessages(peer: Peer): void {
    this.guard(peer, () => {
      for (let i = 0; !peer.isClosed && peer.frames.isComplete; i++) {
        const waitNs = peer.isNextCharged ? 0 : this.charge(peer);
        peer.isNextCharged = true;
        if (waitNs > 0 || i === MESSAGES_PER_ITERATION) {
          peer.pause(waitNs, () => this.processMessages(peer));
          return;
        }
        peer.isNextCharged = false;
        this.handle(peer, peer.frames.next());
      }
      peer.resume();
    });
  }

  /**
   * Charges for one message, or a piece of one. @returns how long the user has to wait for it
   * @throws HandshakeError if a client sends far more than any program needs to
   */
  private charge(peer: Peer, messages = 1): number {
    const nowNs = this.options.nowNs();
    const waitNs = peer.user.messages.take(messages, nowNs);
    if (peer.messages.take(messages, nowNs) === 0) return waitNs;
    throw new HandshakeError(`more than ${MESSAGES_PER_S} messages a second`);
  }

  /** @throws HandshakeError */
  private handle(peer: Peer, message: ToDaemon): void {
    switch (message.type) {
      case 'join':
      case 'leave':
        if (peer.client === null) throw new HandshakeError(`'${message.type}' as a tool`);
        if (message.type === 'join') this.join(peer, peer.client, message);
        else this.options.host.leave(peer.client, message.slot, this.options.nowNs());
        this.passScheduler.request();
        break;
      case 'group':
        if (peer.client === null) throw new HandshakeError(`'group' as a tool`);
        this.setGroups(peer.client, message);
        break;
      case 'rated':
        if (peer.client === null) throw new HandshakeError(`'rated' as a tool`);
        this.rated(peer.client, message);
        break;
      case 'ring':
        if (peer.client === null) throw new HandshakeError(`'ring' as a tool`);
        this.options.host.markDirty(peer.client);
        this.passScheduler.request();
        break;
      case 'tell':
        if (peer.client === null) throw new HandshakeError(`'tell' as a tool`);
        this.tell(peer, peer.client, message);
        break;
      case 'tenants':
        this.answerAfterPass(peer, () => this.list(peer));
        break;
      case 'set':
        this.set(peer, message);
        break;
      case 'hello':
        throw new HandshakeError('a second hello');
    }
  }

  private join(
    peer: Peer,
    client: Client,
    { slot: seatNumber, device, tenant }: ToDaemon & { type: 'join' },
  ) {
    const { host, nowNs } = this.options;
    const reason = host.join(client, seatNumber, device, nowNs(), tenant);
    this.passScheduler.request();
    const { tenant: owner } = client.seats.get(seatNumber) ?? {};
    this.answerAfterPass(peer, () => {
      if (reason !== null) {
        this.send(peer, { type: 'refused', slot: seatNumber, reason });
        return;
      }
      const labels = host.giveLabels(client, seatNumber);
      const { name = '', rates, groups } = owner ?? {};
      const hasGroups = groups !== undefined && groups.names.length > 0;
      const joined = { type: 'joined', slot: seatNumber, tenant: name, labels, hasGroups } as const;
      this.send(peer, { ...joined, rates: rates?.given });
    });
  }

  private tell(peer: Peer, client: Client, { slot, agent, words }: ToDaemon & { type: 'tell' }): void {
    this.options.agents?.tell(client, slot, agent, decodeWords(words), (told) => {
      this.send(peer, { type: 'told', slot, agent, words: encodeWords(told) });
    });
  }

  /** What comes for a seat that the rules have taken away has no effect. */
  private setGroups(client: Client, { slot, groups }: ToDaemon & { type: 'group' }): void {
    const seat = client.seats.get(slot);
    if (seat === undefined) return;
    this.options.host.groups.setBy(seat, groups);
    this.passScheduler.request();
  }

  private rated(client: Client, { slot, version, qps }: ToDaemon & { type: 'rated' }): void {
    const seat = client.seats.get(slot);
    if (seat === undefined) return;
    this.options.host.rates.report(seat, version, qps);
    this.passScheduler.request();
  }

  private list(peer: Peer): void {
    const frames = this.listing.frames();
    this.guard(peer, () => {
      // A list of thousands of tenants costs as much as many messages.
      this.charge(peer, frames.length);
      for (const one of frames) this.write(peer, one);
    });
  }

  private set(peer: Peer, { type: _, tenant, future = true, ...setting }: ToDaemon & { type: 'set' }): void {
    const { host, maySet, log } = this.options;
    const { credentials } = peer;
    if (!maySet(credentials)) {
      const reason = `only root, the daemon's user and members of its group may change settings`;
      this.answerAfterPass(peer, () => this.send(peer, { type: 'refused', reason }));
      return;
    }
    if (!future && !host.isPresent(tenant)) {
      this.answerAfterPass(peer, () => this.send(peer, { type: 'done', isKnown: false }));
      return;
    }
    const isKnown = host.set(tenant, setting);
    if (typeof isKnown === 'string') {
      this.answerAfterPass(peer, () => this.send(peer, { type: 'refused', reason: isKnown }));
      return;
    }
    this.listing.invalidate();
    this.passScheduler.request();
    const { pid, uid, gid } = credentials;
    // In every log line, `pid` is the daemon's own.
    log.info(
      { event: 'tenant-set', tenant, ...setting, client: { pid, uid, gid } },
      `process ${pid} of user ${uid} set ${tenant}`,
    );
    this.answerAfterPass(peer, () => this.send(peer, { type: 'done', isKnown }));
  }

  /**
   * A client's counters have changed, or it has disconnected. A client that signals without pause is served only from
   * time to time.
   */
  private signalled(peer: Peer, isAlive: boolean, error?: Error): void {
    const { host, nowNs } = this.options;
    const { client, user } = peer;
    if (client === null || peer.isClosed) return;
    if (!isAlive) {
      this.ended(peer, error);
      return;
    }
    const now = nowNs();
    const waitNs = Math.max(peer.signals.take(1, now), user.signals.take(1, now));
    if (waitNs > 0) peer.pauseWake(waitNs, (alive, error) => this.signalled(peer, alive, error));
    host.markDirty(client);
    this.passScheduler.request();
  }

  /** After a pass: notifies clients whose grants have changed, and sends the answers that waited for it. */
  private notifyClients(): void {
    const { host } = this.options;
    for (const { client, seatNumber: slot, tenant } of host.takeRelabelled(this.options.nowNs())) {
      const peer = this.byClient.get(client);
      const labels = host.giveLabels(client, slot);
      if (peer !== undefined) this.send(peer, { type: 'labels', slot, labels, rates: tenant.rates.given });
    }
    for (const client of host.takeClientsToNotify()) this.byClient.get(client)?.wake?.signal();
    for (const peer of [...this.awaitingPass]) {
      this.awaitingPass.delete(peer);
      for (const send of peer.pendingAnswers.splice(0)) send();
    }
    for (const { client, seatNumber: slot, ...given } of host.groups.take(this.options.nowNs())) {
      const peer = this.byClient.get(client as Client);
      if (peer !== undefined) this.send(peer, { type: 'groups', slot, ...given });
    }
  }

  /** Calls `send` once everything received earlier is in force. */
  private answerAfterPass(peer: Peer, send: () => void): void {
    if (!this.passScheduler.isPending && peer.pendingAnswers.length === 0) {
      send();
      return;
    }
    peer.pendingAnswers.push(send);
    this.awaitingPass.add(peer);
  }

  private send(peer: Peer, message: ToClient): void {
    this.write(peer, frame(message));
  }

  private write(peer: Peer, bytes: Buffer): void {
    if (!peer.write(bytes)) this.disconnect(peer, 'or another client of its user does not read its answers');
  }
}
