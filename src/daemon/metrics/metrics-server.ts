/**
 * Serves the metrics to Prometheus, on an address that only this host can reach. Any program of the host may
 * ask, so the total cost is limited to a part of the daemon's time.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { BlockList, isIP, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { ConfigError, ConnectionError } from '../../verbs/errors.ts';
import { Budget } from '../budgets.ts';
import type { Metrics } from './metrics.ts';

export interface MetricsAddress {
  readonly host: string;
  readonly port: number;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Parses `PORT`, `127.0.0.1:PORT` or `[::1]:PORT`; port 0 selects a free port. @throws ConfigError */
export function metricsAddress(text: string): MetricsAddress {
  const [, bracketed, plain, digits] = /^(?:(?:\[([^\]]*)\]|([^:]*)):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65535) {
    throw new ConfigError(`metrics: '${text}' is not an address; use PORT, 127.0.0.1:PORT or [::1]:PORT`);
  }
  const host = bracketed ?? plain ?? '127.0.0.1';
  const family = isIP(host);
  if (family !== 0 && LOOPBACK.check(host, family === 6 ? 'ipv6' : 'ipv4')) return { host, port };
  throw new ConfigError(
    `metrics: ${host === '' ? 'the empty host' : host} is not a loopback address (127.0.0.0/8 or ::1); for remote access, put your own proxy in front`,
  );
}

const MAX_CONNECTIONS = 16;
const REQUEST_MS = 5000;
const IDLE_MS = 30_000;
const MAX_HEADER_BYTES = 8192;
/** Answers at once, and per second. */
const ANSWERS = { most: 50, perS: 20 };
/**
 * Limited separately, because one received piece of 64 KiB can carry thousands of requests and is parsed to
 * its end.
 */
const CONNECTIONS = { most: 20, perS: 5 };
/**
 * The text is reused for this many times the time it took to make, so making it takes at most a tenth of the
 * core.
 */
const CACHE_FACTOR = 9;

export class MetricsServer {
  private readonly metrics: Metrics;
  private readonly server: Server;
  private readonly answerBudget: Budget;
  private readonly connectionBudget: Budget;
  /** Connections on which a request was rejected. */
  private readonly refusedSockets = new WeakSet<Socket>();
  private cachedText: Promise<string> | null = null;
  private cacheEndMs = Number.NEGATIVE_INFINITY;

  constructor(metrics: Metrics) {
    this.metrics = metrics;
    this.answerBudget = new Budget(ANSWERS, performance.now() * 1e6);
    this.connectionBudget = new Budget(CONNECTIONS, performance.now() * 1e6);
    this.server = createServer(
      {
        headersTimeout: REQUEST_MS,
        requestTimeout: REQUEST_MS,
        connectionsCheckingInterval: REQUEST_MS,
        keepAliveTimeout: IDLE_MS,
        maxHeaderSize: MAX_HEADER_BYTES,
      },
      (request, response) => void this.answer(request, response),
    );
    this.server.maxConnections = MAX_CONNECTIONS;
    this.server.on('connection', (socket) => {
      if (!this.connectionBudget.tryTake(performance.now() * 1e6)) socket.destroy();
    });
    // Limits how long a connection that sends or reads nothing occupies one of the few connections.
    this.server.setTimeout(IDLE_MS, (socket) => socket.destroy());
  }

  /** Resolves with the URL it listens on. @throws ConnectionError */
  listen({ host, port }: MetricsAddress): Promise<string> {
    return new Promise((resolve, reject) => {
      this.server.once('error', (error) =>
        reject(new ConnectionError(`metrics cannot listen on ${host}, port ${port}: ${error.message}`)),
      );
      this.server.listen({ host, port }, () => {
        const at = this.server.address();
        const shown = host.includes(':') ? `[${host}]` : host;
        resolve(`http://${shown}:${typeof at === 'object' ? at?.port : port}/metrics`);
      });
    });
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    // Ignores requests that follow a rejected one in the same piece.
    if (socket.destroyed || this.refusedSockets.has(socket)) return;
    /**
     * Rejects the request and closes the connection, because endless rejections would cost as much as
     * answers.
     */
    const refuse = (status: number, text: string, headers: Record<string, string> = {}) => {
      this.refusedSockets.add(socket);
      socket.pause();
      response
        .writeHead(status, { 'Content-Type': 'text/plain', Connection: 'close', ...headers })
        .end(`${text}\n`);
    };
    if (request.method !== 'GET') return void refuse(405, 'only GET is supported', { Allow: 'GET' });
    if (request.url !== '/metrics') return void refuse(404, 'only /metrics is served');
    if (!this.answerBudget.tryTake(performance.now() * 1e6)) {
      return void refuse(429, 'too many requests', { 'Retry-After': '1' });
    }
    try {
      const text = await this.text();
      response.writeHead(200, { 'Content-Type': this.metrics.contentType }).end(text);
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
