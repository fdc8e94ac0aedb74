/**
 * Serves the metrics to Prometheus, where only this host can reach them. Any program of the host may ask, so the total
 * cost is limited to a part of the daemon's time. On a loopback address all programs share the budgets, because nothing
 * is known of them; on a Unix socket each user has its own.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import { ConnectionError } from '../../verbs/errors.ts';
import { PerUser } from '../budgets.ts';
import { type Accepted, AcceptLoop } from '../ipc/accept-loop.ts';
import { listenUnix, type UnixListener, type UnixSocket } from '../ipc/index.ts';
import { isLocalHost, type MetricsAddress } from './address.ts';
import type { Metrics } from './metrics.ts';
import { UnixStream } from './unix-stream.ts';
import { type Visitor, VisitorBudgets, Visitors } from './visitors.ts';

const TCP_VISITORS = { all: 16, ofUser: 16 };
const UNIX_VISITORS = { all: 64, ofUser: 4 };
const IDLE_MS = 30_000;
/** A connection to the Unix socket, which is for one request. */
const UNIX_MS = 10_000;
const MAX_HEADER_BYTES = 8192;
/**
 * The text is reused for this many times the time it took to make, so making it takes at most a tenth of the
 * core.
 */
const CACHE_FACTOR = 9;

const nowNs = () => performance.now() * 1e6;

export interface MetricsServerOptions {
  /** Permissions of the Unix socket. Default: anyone may connect. */
  readonly mode?: number;
  /** The user to whom a user ID belongs. Default: the user itself. */
  ownerOf?(uid: number): number;
}

export class MetricsServer {
  private readonly metrics: Metrics;
  private readonly options: MetricsServerOptions;
  /** Parses requests. It does not listen itself, because connections wait for their first bytes. */
  private readonly http: Server;
  private readonly listeners: { close(): void }[] = [];
  private readonly visitors = new WeakMap<Duplex, { visitor: Visitor; among: Visitors }>();
  private cachedText: Promise<string> | null = null;
  private cacheEndMs = Number.NEGATIVE_INFINITY;

  constructor(metrics: Metrics, options: MetricsServerOptions = {}) {
    this.metrics = metrics;
    this.options = options;
    this.http = createServer(
      { keepAliveTimeout: IDLE_MS, maxHeaderSize: MAX_HEADER_BYTES },
      (request, response) => void this.answer(request, response),
    );
  }

  /** Listens on one more address. Resolves with its URL. @throws ConnectionError, InvalidArgumentError */
  async listen(address: MetricsAddress): Promise<string> {
    return 'path' in address ? this.listenUnix(address.path) : this.listenTcp(address);
  }

  private listenTcp({ host, port }: { host: string; port: number }): Promise<string> {
    const all = new Visitors(TCP_VISITORS);
    const budgets = new VisitorBudgets(nowNs());
    const server: TcpServer = createTcpServer((stream) => {
      const visitor: Visitor = { stream, user: null, budgets, isOver: false };
      all.add(visitor);
      stream.setTimeout(IDLE_MS, () => stream.destroy());
      // A connection on which nothing arrives costs nothing, so it is not charged.
      stream.once('data', (first) => {
        if (!budgets.connects.tryTake(nowNs())) return void stream.destroy();
        stream.pause();
        this.serve(visitor, all);
        stream.unshift(first);
        setImmediate(() => stream.resume());
      });
    });
    this.listeners.push({
      close() {
        server.close();
        all.close();
      },
    });
    return new Promise((resolve, reject) => {
      server.once('error', (error) =>
        reject(new ConnectionError(`metrics cannot listen on ${host}, port ${port}: ${error.message}`)),
      );
      server.listen({ host, port }, () => {
        const at = server.address();
        const shown = host.includes(':') ? `[${host}]` : host;
        resolve(`http://${shown}:${typeof at === 'object' ? at?.port : port}/metrics`);
      });
    });
  }

  private listenUnix(path: string): string {
    const { mode = 0o666 } = this.options;
    const all = new Visitors(UNIX_VISITORS);
    const budgets = new PerUser((now) => new VisitorBudgets(now));
    const listener = listenUnix(path, { mode });
    const loop = new AcceptLoop(listener, { accept: (from) => this.acceptUnix(from, all, budgets), nowNs });
    this.listeners.push({
      close() {
        loop.close();
        all.close();
      },
    });
    return `unix:${path}:/metrics`;
  }

  private acceptUnix(listener: UnixListener, all: Visitors, budgets: PerUser<VisitorBudgets>): Accepted {
    let socket: UnixSocket | null = null;
    try {
      socket = listener.accept();
      if (socket === null) return 'none';
      const { uid } = socket.peer();
      const user = this.options.ownerOf?.(uid) ?? uid;
      const own = budgets.of(user, nowNs());
      if (own.connects.tryTake(nowNs())) {
        const stream = new UnixStream(socket);
        const visitor: Visitor = { stream, user, budgets: own, isOver: false };
        all.add(visitor);
        const timer = setTimeout(() => stream.destroy(), UNIX_MS).unref();
        stream.once('close', () => clearTimeout(timer));
        this.serve(visitor, all);
        return 'taken';
      }
      socket.close();
      return 'refused';
    } catch {
      socket?.close();
      return socket === null ? 'failed' : 'refused';
    }
  }

  private serve(visitor: Visitor, among: Visitors): void {
    this.visitors.set(visitor.stream, { visitor, among });
    this.http.emit('connection', visitor.stream);
  }

  close(): void {
    for (const listener of this.listeners.splice(0)) listener.close();
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { visitor, among } = this.visitors.get(request.socket)!;
    const { stream, budgets, user } = visitor;
    // Ignores requests that follow the last one in the same piece.
    if (stream.destroyed || visitor.isOver) return;
    among.touch(visitor);
    const isUnix = user !== null;
    visitor.isOver = isUnix;
    /**
     * Rejects the request and closes the connection, because endless rejections would cost as much as
     * answers.
     */
    const refuse = (status: number, text: string, headers: Record<string, string> = {}) => {
      visitor.isOver = true;
      stream.pause();
      response
        .writeHead(status, { 'Content-Type': 'text/plain', Connection: 'close', ...headers })
        .end(`${text}\n`);
    };
    const { host } = request.headers;
    if (!isUnix && host !== undefined && !isLocalHost(host)) {
      return void refuse(403, 'the header Host must be a loopback address or localhost');
    }
    if (request.method !== 'GET') return void refuse(405, 'only GET is supported', { Allow: 'GET' });
    const isHealth = request.url === '/healthz';
    if (request.url !== '/metrics' && !isHealth) {
      return void refuse(404, 'only /metrics and /healthz are served');
    }
    if (!budgets.answers.tryTake(nowNs())) {
      return void refuse(429, 'too many requests', { 'Retry-After': '1' });
    }
    try {
      // A daemon that answers decides: both happen in the same event loop.
      const text = isHealth ? 'ok\n' : await this.text();
      const type = isHealth ? 'text/plain' : this.metrics.contentType;
      const headers = { 'Content-Type': type, ...(isUnix && { Connection: 'close' }) };
      response.writeHead(200, headers).end(text);
    } catch (error) {
      refuse(500, (error as Error).message);
    }
  }

  private async text(): Promise<string> {
    if (this.cachedText !== null && performance.now() < this.cacheEndMs) return this.cachedText;
    const beganMs = performance.now();
    this.cachedText = this.metrics.text();
    this.cacheEndMs = Number.POSITIVE_INFINITY;
    try {
      return await this.cachedText;
    } finally {
      const endMs = performance.now();
      this.cacheEndMs = endMs + CACHE_FACTOR * (endMs - beganMs);
    }
  }
}
