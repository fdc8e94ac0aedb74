/**
 * Where Prometheus finds the metrics: on an address that only this host can reach. Any program of the host can ask, so
 * it may not cost more than a part of the daemon's time, however many do.
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

/** `PORT`, `127.0.0.1:PORT` or `[::1]:PORT`; port 0 is any that is free. @throws ConfigError */
export function metricsAddress(text: string): MetricsAddress {
  const [, bracketed, plain, digits] = /^(?:(?:\[([^\]]*)\]|([^:]*)):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65535) {
    throw new ConfigError(`metrics: '${text}' is no address; give PORT, 127.0.0.1:PORT or [::1]:PORT`);
  }
  const host = bracketed ?? plain ?? '127.0.0.1';
  const family = isIP(host);
  if (family !== 0 && LOOPBACK.check(host, family === 6 ? 'ipv6' : 'ipv4')) return { host, port };
  throw new ConfigError(
    `metrics: ${host === '' ? 'nothing' : host} is not an address of the loopback (127.0.0.0/8 or ::1): whoever is to ask from elsewhere asks a proxy of yours`,
  );
}

const MOST_CONNECTIONS = 16;
const REQUEST_MS = 5000;
const IDLE_MS = 30_000;
const MOST_HEADER_BYTES = 8192;
/** Answers at once, and more each second. */
const ANSWERS = { most: 50, perS: 20 };
/** A piece of 64 KiB has thousands of requests in it, and is read to its end. */
const CONNECTIONS = { most: 20, perS: 5 };
/** A text serves for so many times as long as it took to make: the making has a tenth of the core at most. */
const SERVES = 9;

export class MetricsServer {
  private readonly metrics: Metrics;
  private readonly server: Server;
  private readonly answers: Budget;
  private readonly connects: Budget;
  /** Connections that were refused something. */
  private readonly over = new WeakSet<Socket>();
  private made: Promise<string> | null = null;
  private untilMs = Number.NEGATIVE_INFINITY;

  constructor(metrics: Metrics) {
    this.metrics = metrics;
    this.answers = new Budget(ANSWERS, performance.now() * 1e6);
    this.connects = new Budget(CONNECTIONS, performance.now() * 1e6);
    this.server = createServer(
      {
        headersTimeout: REQUEST_MS,
        requestTimeout: REQUEST_MS,
        connectionsCheckingInterval: REQUEST_MS,
        keepAliveTimeout: IDLE_MS,
        maxHeaderSize: MOST_HEADER_BYTES,
      },
      (request, response) => void this.answer(request, response),
    );
    this.server.maxConnections = MOST_CONNECTIONS;
    this.server.on('connection', (socket) => {
      if (!this.connects.tryTake(performance.now() * 1e6)) socket.destroy();
    });
    // Who does not read, or says nothing, keeps a place for so long.
    this.server.setTimeout(IDLE_MS, (socket) => socket.destroy());
  }

  /** Resolves with where it listens. @throws ConnectionError */
  listen({ host, port }: MetricsAddress): Promise<string> {
    return new Promise((resolve, reject) => {
      this.server.once('error', (error) =>
        reject(new ConnectionError(`metrics cannot be at ${host}, port ${port}: ${error.message}`)),
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
    // What came behind something wrong, in the same piece.
    if (socket.destroyed || this.over.has(socket)) return;
    /** No, and nothing more on this connection: refusals without end would cost as much as answers. */
    const say = (status: number, text: string, headers: Record<string, string> = {}) => {
      this.over.add(socket);
      socket.pause();
      response
        .writeHead(status, { 'Content-Type': 'text/plain', Connection: 'close', ...headers })
        .end(`${text}\n`);
    };
    if (request.method !== 'GET') return void say(405, 'only GET', { Allow: 'GET' });
    if (request.url !== '/metrics') return void say(404, 'only /metrics');
    if (!this.answers.tryTake(performance.now() * 1e6)) {
      return void say(429, 'asked too often', { 'Retry-After': '1' });
    }
    try {
      const text = await this.text();
      response.writeHead(200, { 'Content-Type': this.metrics.contentType }).end(text);
    } catch (error) {
      say(500, (error as Error).message);
    }
  }

  private async text(): Promise<string> {
    if (this.made !== null && performance.now() < this.untilMs) return this.made;
    const beganMs = performance.now();
    this.made = this.metrics.text();
    this.untilMs = Number.POSITIVE_INFINITY;
    try {
      return await this.made;
    } finally {
      const endMs = performance.now();
      this.untilMs = endMs + SERVES * (endMs - beganMs);
    }
  }
}
