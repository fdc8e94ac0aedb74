/** A NATS server of a test's own. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './rig.ts';

// Debian installs it where only root's PATH looks.
const ENV = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };

/** Why there is no server; empty if there is one. */
export const natsReason =
  spawnSync('nats-server', ['--version'], { env: ENV }).status === 0
    ? ''
    : 'nats-server is missing; run: apt-get install nats-server';
if (natsReason !== '') console.warn(`skipped: ${natsReason}`);

/** A port on which nothing listens now. */
export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' ? address!.port : 0));
    });
  });
}

export class NatsServer {
  readonly port: number;
  private readonly folder = mkdtempSync(join(tmpdir(), 'isoverbs-nats-'));
  private readonly config: string;
  private child: ChildProcess | null = null;

  /** @param config in the server's own format */
  static async make(config = ''): Promise<NatsServer> {
    return new NatsServer(await freePort(), config);
  }

  private constructor(port: number, config: string) {
    this.port = port;
    this.config = join(this.folder, 'nats.conf');
    writeFileSync(this.config, `listen: "127.0.0.1:${port}"\n${config}\n`);
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    let log = '';
    const child = spawn('nats-server', ['-c', this.config], {
      env: ENV,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr.on('data', (text) => {
      log += text;
    });
    this.child = child;
    await until(() => {
      if (child.exitCode !== null) throw new Error(log);
      return log.includes('Server is ready');
    });
  }

  signal(name: NodeJS.Signals): void {
    this.child?.kill(name);
  }

  async stop(): Promise<void> {
    const { child } = this;
    if (child === null) return;
    this.child = null;
    const ended = new Promise((done) => child.once('exit', done));
    child.kill('SIGKILL');
    await ended;
  }

  async close(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
