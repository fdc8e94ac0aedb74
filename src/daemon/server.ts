/** The daemon's end of the socket: who was let in gets its pages, and is heard until it goes. */
import type { Logger } from 'pino';
import { HandshakeError } from '../verbs/errors.ts';
import { Admission, type ClientLimits, DEFAULT_LIMITS } from './admission.ts';
import { MESSAGES_PER_S, Users } from './budgets.ts';
import { Complaints } from './connection-log.ts';
import type { Client, Host } from './host.ts';
import type { PeerCredentials, UnixSocket } from './ipc/index.ts';
import { Listing } from './listing.ts';
import type { ServerCounts } from './metrics/metrics.ts';
import { SLOTS } from './pages.ts';
import { Passes } from './pass-scheduler.ts';
import type { Peer } from './peer.ts';
import { frame, type Hello, type ToClient, type ToDaemon, VERSION } from './protocol.ts';
import type { Identity } from './rules.ts';

export interface ServerOptions {
  readonly socket: string;
  /** Permissions of the socket's file. */
  readonly mode: number;
  readonly limits?: ClientLimits;
  readonly host: Host;
  /** What clients run without a word of their own: as ISOVERBS_POLICY has it; '': nothing. */
  readonly policy: string;
  readonly log: Logger;
  /** Called again for all when the rules have changed. */
  identify(credentials: PeerCredentials, hello: Hello): Identity;
  /** Whether a client may change what tenants get. */
  maySet(credentials: PeerCredentials): boolean;
  /** Told how long each pass took. */
  passed?(tookNs: number): void;
  /** Monotonic. */
  nowNs(): number;
}

/** Then it is another's turn: one that says much at once keeps nobody waiting. */
const MESSAGES_OF_A_TURN = 64;

export class Server {
  private readonly options: ServerOptions;
  private readonly peers = new Set<Peer>();
  private readonly byClient = new Map<Client, Peer>();
  /** Those that are answered after the next pass. */
  private readonly answered = new Set<Peer>();
  private readonly admission: Admission;
  private readonly passes: Passes;
  private readonly complaints: Complaints;
  private readonly listing: Listing;
  private isClosing = false;

  constructor(options: ServerOptions) {
    this.options = options;
    const { socket, mode, host, log, limits = DEFAULT_LIMITS } = options;
    const nowNs = () => options.nowNs();
    this.complaints = new Complaints(log, nowNs);
    this.listing = new Listing(host, nowNs);
    this.passes = new Passes({ host, done: () => this.tell(), took: options.passed, nowNs });
    this.admission = new Admission({
      socket,
      mode,
      limits,
      users: new Users(),
      complaints: this.complaints,
      isOperator: (credentials) => options.maySet(credentials),
      welcome: (raw, peer) => this.welcome(raw, peer),
      gone: (peer) => this.gone(peer),
      nowNs,
    });
  }

  /** @throws ConnectionError, InvalidArgumentError: the socket cannot be there */
  listen(): void {
    this.isClosing = false;
    this.admission.listen();
  }

  /** Clients keep what they were granted last: nothing is shared out again as they are let go one by one. */
  close(): void {
    this.isClosing = true;
    this.passes.close();
    this.admission.close();
    for (const peer of [...this.peers]) this.admission.leave(peer);
    this.complaints.close();
  }

  /** The rules have changed: everybody is asked again who it is. */
  reidentify(): void {
    const { host, identify, nowNs } = this.options;
    for (const peer of [...this.peers]) {
      const { client, hello, credentials } = peer;
      if (client === null || hello === null) continue;
      const isWhole = host.reidentify(client, identify(credentials, hello), nowNs());
      // It comes back, and is told which of its contexts have no place.
      if (!isWhole) this.end(peer, 'has more contexts than its tenant by the new rules has places');
    }
    this.passes.ask();
  }

  /** Clients that are connected. */
  get size(): number {
    return this.admission.size;
  }

  get counts(): ServerCounts {
    const { size, greetings, refused } = this.admission;
    const shims = this.byClient.size;
    const tools = Math.max(0, size - greetings - shims);
    return { greeting: greetings, shims, tools, refused, linesLeftOut: this.complaints.leftOut };
  }

  /** @throws HandshakeError */
  private welcome(raw: UnixSocket, peer: Peer): void {
    const { policy, identify } = this.options;
    const hello = peer.frames.next();
    if (hello.type !== 'hello') throw new HandshakeError(`'${hello.type}' before it said who it is`);
    if (hello.version !== VERSION) {
      throw new HandshakeError(`version ${hello.version}; this daemon speaks ${VERSION}`);
    }
    const identity = identify(peer.credentials, hello);
    const { tenant } = identity;
    const isShim = hello.role === 'shim';
    const pages = isShim ? peer.open(identity) : { fds: [], sent() {} };
    const bytes = frame({ type: 'welcome', version: VERSION, slots: isShim ? SLOTS : 0, policy, tenant });
    let sent = 0;
    try {
      sent = raw.send(bytes, pages.fds);
    } finally {
      pages.sent();
    }
    if (sent < bytes.length) throw new HandshakeError('nothing that left room for an answer');
    peer.hello = hello;
    this.peers.add(peer);
    if (peer.client !== null) this.byClient.set(peer.client, peer);
    peer.listen((isAlive) => this.rang(peer, isAlive));
    peer.speak(raw, {
      received: (bytes) => this.received(peer, bytes),
      failed: (error) => this.options.log.debug(error, `process ${peer.credentials.pid}`),
      closed: () => this.admission.leave(peer),
    });
    this.work(peer);
  }

  private gone(peer: Peer): void {
    const { host, nowNs } = this.options;
    const { client } = peer;
    this.peers.delete(peer);
    this.answered.delete(peer);
    if (client === null || !this.byClient.delete(client) || this.isClosing) return;
    host.forget(client, nowNs());
    this.passes.ask();
  }

  private end(peer: Peer, why: string): void {
    if (peer.isOver) return;
    this.complaints.about(peer.credentials, `${why}: disconnected`);
    this.admission.leave(peer);
  }

  private received(peer: Peer, bytes: Uint8Array): void {
    if (peer.isOver) return;
    peer.frames.add(bytes);
    if (peer.isPaused) return;
    this.guard(peer, () => {
      // Bytes one by one cost as much as messages.
      const waitNs = this.charge(peer);
      if (waitNs > 0) peer.pause(waitNs, () => this.work(peer));
      else this.work(peer);
    });
  }

  /** Whatever a client says that cannot be is the end of its connection, and of nothing else. */
  private guard(peer: Peer, hear: () => void): void {
    try {
      hear();
    } catch (error) {
      this.end(peer, `sent ${(error as Error).message}`);
    }
  }

  /** Hears what came, as far as it may say so much. */
  private work(peer: Peer): void {
    this.guard(peer, () => {
      for (let i = 0; !peer.isOver && peer.frames.isWhole; i++) {
        const waitNs = peer.isPaid ? 0 : this.charge(peer);
        peer.isPaid = true;
        if (waitNs > 0 || i === MESSAGES_OF_A_TURN) {
          peer.pause(waitNs, () => this.work(peer));
          return;
        }
        peer.isPaid = false;
        this.heard(peer, peer.frames.next());
      }
      peer.resume();
    });
  }

  /**
   * One message, or a piece of one; how long the user has to wait for it.
   * @throws HandshakeError for one that sends far more than any program has to say
   */
  private charge(peer: Peer, messages = 1): number {
    const nowNs = this.options.nowNs();
    const waitNs = peer.user.messages.take(messages, nowNs);
    if (peer.messages.take(messages, nowNs) === 0) return waitNs;
    throw new HandshakeError(`more than ${MESSAGES_PER_S} messages a second`);
  }

  /** @throws HandshakeError */
  private heard(peer: Peer, message: ToDaemon): void {
    switch (message.type) {
      case 'join':
      case 'leave':
        if (peer.client === null) throw new HandshakeError(`'${message.type}' of a tool`);
        if (message.type === 'join') this.join(peer, peer.client, message);
        else this.options.host.leave(peer.client, message.slot, this.options.nowNs());
        this.passes.ask();
        break;
      case 'ring':
        if (peer.client === null) throw new HandshakeError(`'ring' of a tool`);
        this.options.host.ring(peer.client);
        this.passes.ask();
        break;
      case 'tenants':
        this.answer(peer, () => this.list(peer));
        break;
      case 'set':
        this.set(peer, message);
        break;
      case 'hello':
        throw new HandshakeError('a second hello');
    }
  }

  private join(peer: Peer, client: Client, { slot, device, tenant }: ToDaemon & { type: 'join' }) {
    const { host, nowNs } = this.options;
    const reason = host.join(client, slot, device, nowNs(), tenant);
    this.passes.ask();
    const name = client.seats.get(slot)?.tenant.name ?? '';
    this.answer(peer, () => {
      this.say(
        peer,
        reason === null ? { type: 'joined', slot, tenant: name } : { type: 'refused', slot, reason },
      );
    });
  }

  private list(peer: Peer): void {
    const frames = this.listing.frames();
    this.guard(peer, () => {
      // A list of thousands costs as much as many messages.
      this.charge(peer, frames.length);
      for (const one of frames) this.write(peer, one);
    });
  }

  private set(peer: Peer, { type: _, tenant, ...setting }: ToDaemon & { type: 'set' }): void {
    const { host, maySet, log } = this.options;
    const { credentials } = peer;
    if (!maySet(credentials)) {
      const reason = `only the daemon's user, root and members of the socket's group set anything`;
      this.answer(peer, () => this.say(peer, { type: 'refused', reason }));
      return;
    }
    const isKnown = host.set(tenant, setting);
    this.listing.forget();
    this.passes.ask();
    const { pid, uid, gid } = credentials;
    // `pid` itself is the daemon's in every line.
    log.info(
      { tenant, ...setting, client: { pid, uid, gid } },
      `process ${pid} of user ${uid} set ${tenant}`,
    );
    this.answer(peer, () => this.say(peer, { type: 'done', isKnown }));
  }

  /** What it says has changed, or it has gone; who rings without end is heard now and then. */
  private rang(peer: Peer, isAlive: boolean): void {
    const { host, nowNs } = this.options;
    const { client, user } = peer;
    if (client === null || peer.isOver) return;
    if (!isAlive) {
      this.admission.leave(peer);
      return;
    }
    const now = nowNs();
    const waitNs = Math.max(peer.rings.take(1, now), user.rings.take(1, now));
    if (waitNs > 0) peer.ignore(waitNs, (alive) => this.rang(peer, alive));
    host.ring(client);
    this.passes.ask();
  }

  /** After a pass: those whose grants are others hear it, and those who wait for it are answered. */
  private tell(): void {
    for (const client of this.options.host.takeTold()) this.byClient.get(client)?.wake?.ring();
    for (const peer of [...this.answered]) {
      this.answered.delete(peer);
      for (const say of peer.answers.splice(0)) say();
    }
  }

  /** Says something when what was said before it is in force. */
  private answer(peer: Peer, say: () => void): void {
    if (!this.passes.isAsked && peer.answers.length === 0) {
      say();
      return;
    }
    peer.answers.push(say);
    this.answered.add(peer);
  }

  private say(peer: Peer, message: ToClient): void {
    this.write(peer, frame(message));
  }

  private write(peer: Peer, bytes: Buffer): void {
    if (!peer.write(bytes)) this.end(peer, 'or another of its user does not read what it asked for');
  }
}
