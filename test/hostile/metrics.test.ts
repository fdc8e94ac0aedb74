// Neighbours that hold connections to the metrics, or reach them through a browser, keep no scrape from its answer.
import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import prometheus from 'prom-client';
import { afterEach, describe, expect, test } from 'vitest';
import { metricsAddress } from '../../src/daemon/metrics/address.ts';
import { Metrics } from '../../src/daemon/metrics/metrics.ts';
import { MetricsServer } from '../../src/daemon/metrics/metrics-server.ts';
import { SUM_NAMES } from '../../src/shim/counters.ts';
import { hasPython, reason, start, until } from '../daemon/rig.ts';

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0).reverse()) undo();
});

const EVIL = 60001;
const SUBORDINATE = 700_000;

/** A server with an answer that is longer than the buffer of a socket. */
function serve(): MetricsServer {
  const totals = Array.from({ length: 1000 }, (_, i) => ({
    ...{ device: 'd', tenant: `${i}`.padEnd(500, 't'), sentBytes: 3, sentRequests: 1, leftNs: 0 },
    sums: new Float64Array(SUM_NAMES.length),
  }));
  const metrics = new Metrics(prometheus, '1', {
    tenants: () => [],
    sentTotals: () => totals,
    counts: () => ({ greeting: 1, shims: 2, tools: 3, refused: 4, suppressedLines: 5 }),
  });
  const server = new MetricsServer(metrics, {
    ownerOf: (uid) => (uid >= SUBORDINATE && uid < SUBORDINATE + 65536 ? EVIL : uid),
  });
  cleanUp.push(() => server.close());
  return server;
}

interface Where {
  readonly port?: number;
  readonly socketPath?: string;
}

/** The default of `scrape_timeout` of Prometheus. */
const SCRAPE_MS = 10_000;
const RETRY_MS = 10;

/** The status of one request over its own connection; 0 if there is no complete answer, null if the backlog is full. */
function scrapeOnce(where: Where, headers: Record<string, string>): Promise<number | null> {
  return new Promise((done) => {
    const asked = request(
      { ...where, host: '127.0.0.1', path: '/metrics', agent: false, headers, timeout: SCRAPE_MS },
      (answer) => {
        let text = '';
        answer.on('data', (chunk) => {
          text += chunk;
        });
        answer.on('close', () => {
          const isWhole = text.includes('process_start_time_seconds ');
          done(answer.statusCode === 200 && !isWhole ? 0 : (answer.statusCode ?? 0));
        });
      },
    );
    asked.on('timeout', () => asked.destroy());
    asked.on('error', (error: NodeJS.ErrnoException) => done(error.code === 'EAGAIN' ? null : 0));
    asked.end();
  });
}

/** The status of one scrape, which tries again while the backlog is full, as clients of the daemon do. */
async function scrape(where: Where, headers: Record<string, string> = {}): Promise<number> {
  const endMs = performance.now() + SCRAPE_MS;
  while (performance.now() < endMs) {
    const status = await scrapeOnce(where, headers);
    if (status !== null) return status;
    await sleep(RETRY_MS);
  }
  return 0;
}

async function tcp(): Promise<number> {
  return Number(new URL(await serve().listen(metricsAddress('0'))).port);
}

/** Connections that send nothing, and connect again when they are closed. */
function idle(port: number, count: number): void {
  const open = new Set<Socket>();
  let isOver = false;
  const one = () => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    open.add(socket);
    socket.on('close', () => {
      open.delete(socket);
      if (!isOver) setTimeout(one, 1000);
    });
  };
  for (let i = 0; i < count; i++) one();
  cleanUp.push(() => {
    isOver = true;
    for (const socket of open) socket.destroy();
  });
}

describe('on a loopback address', { timeout: 60_000 }, () => {
  test('16 idle connections keep no scrape from its answer', { tags: ['long'] }, async () => {
    const port = await tcp();
    idle(port, 16);
    await sleep(500);
    const statuses: number[] = [];
    for (let i = 0; i < 15; i++) {
      statuses.push(await scrape({ port }));
      await sleep(500);
    }
    expect(statuses).toEqual(Array(15).fill(200));
  });

  test('a request for another host is refused, as from a page that rebinds its name', async () => {
    const port = await tcp();
    for (const host of ['localhost', `127.0.0.1:${port}`, '127.9.9.9', '[::1]:1', 'LOCALHOST:80']) {
      expect([host, await scrape({ port }, { host })]).toEqual([host, 200]);
    }
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1.evil.example',
      '10.0.0.1',
      '[::2]',
      'localhost@x',
    ]) {
      expect([host, await scrape({ port }, { host })]).toEqual([host, 403]);
    }
  });
});

describe.skipIf(reason !== '')('on a Unix socket', { timeout: 60_000 }, () => {
  async function unix() {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-metrics-'));
    chmodSync(folder, 0o755);
    cleanUp.push(() => rmSync(folder, { recursive: true }));
    const socketPath = join(folder, 'metrics.sock');
    const server = serve();
    expect(await server.listen(metricsAddress(socketPath))).toBe(`unix:${socketPath}:/metrics`);
    return { socketPath, server };
  }

  test('the metrics are served with any Host, once per connection', async () => {
    const { socketPath, server } = await unix();
    expect(statSync(socketPath).mode & 0o777).toBe(0o666);
    expect(await scrape({ socketPath }, { host: 'any.example' })).toBe(200);
    const one = connect(socketPath);
    let text = '';
    one.on('data', (chunk) => {
      text += chunk;
    });
    one.write('GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(20));
    await new Promise((ended) => one.once('close', ended));
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(1);
    expect(text).toMatch(/Connection: close/i);
    server.close();
    expect(await scrape({ socketPath })).toBe(0);
  });

  test('a user that asks too often is disconnected at once', async () => {
    const { socketPath } = await unix();
    const statuses = new Set<number>();
    for (let i = 0; i < 100; i++) statuses.add(await scrape({ socketPath }));
    expect(statuses).toEqual(new Set([200, 0]));
  });

  const cannot = !hasPython
    ? 'there is no python3'
    : process.getuid?.() === 0
      ? ''
      : 'only root can connect as several users';
  if (cannot !== '') console.warn(`skipped: ${cannot}`);

  test.skipIf(cannot !== '')(
    'a user with 100 subordinate users keeps no other from its answer',
    { tags: ['long'] },
    async () => {
      const { socketPath } = await unix();
      const uids = [EVIL, ...Array.from({ length: 100 }, (_, i) => SUBORDINATE + i)];
      const { child, ended, printed } = start(join('../../hostile/children/flood-metrics.py'), [
        socketPath,
        ...uids.map(String),
      ]);
      await until(() => printed().includes('flooding'));
      const statuses: number[] = [];
      for (let i = 0; i < 15; i++) {
        statuses.push(await scrape({ socketPath }));
        await sleep(300);
      }
      expect(statuses).toEqual(Array(15).fill(200));
      child.kill('SIGKILL');
      await ended;
    },
  );
});
