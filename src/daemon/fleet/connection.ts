/**
 * The connection to the NATS servers. The client library reconnects after a loss. This module makes the first
 * connection, subscribes and logs.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import type { Logger } from 'pino';
import type { FleetConfig } from './config.ts';

type Nats = typeof import('@nats-io/transport-node');

const RETRY_MS = 1000;
const TIMEOUT_MS = 5000;
/** Interval of pings. The connection counts as lost when a server has not answered two of them. */
const PING_MS = 5000;
/** The longest time that `close` waits for the last messages to be sent. */
const LAST_MS = 500;

export interface FleetSubscription {
  readonly subject: string;
  received(subject: string, data: Uint8Array): void;
}

export interface FleetConnectionOptions {
  readonly config: FleetConfig;
  readonly log: Logger;
  readonly subscriptions: readonly FleetSubscription[];
  /** Called after each connect and reconnect. */
  connected(): void;
}

export class FleetConnection {
  private readonly options: FleetConnectionOptions;
  private connection: NatsConnection | null = null;
  private isUp = false;
  private isClosed = false;
  /** The last problem that was logged since the daemon was last connected; '' without one. */
  private logged = '';

  constructor(options: FleetConnectionOptions) {
    this.options = options;
  }

  get isConnected(): boolean {
    return this.isUp;
  }

  /** Connects, and reconnects until `close`. */
  async run(): Promise<void> {
    // Loaded only by daemons with a fleet.
    const nats = await import('@nats-io/transport-node');
    while (!this.isClosed) {
      try {
        const connection = await nats.connect(this.clientOptions(nats));
        if (this.isClosed) return void connection.close();
        await this.use(connection);
      } catch (error) {
        this.problem((error as Error).message);
      }
      this.isUp = false;
      await delay(RETRY_MS, undefined, { ref: false });
    }
  }

  private clientOptions({ credsAuthenticator }: Nats): NodeConnectionOptions {
    const { servers, user, pass, token, credentials, tls } = this.options.config;
    return {
      ...{ servers, user, pass, token, tls },
      name: `isoverbs ${hostname()}`,
      // Read at each attempt, because the file may have been replaced.
      authenticator:
        credentials && ((nonce?: string) => credsAuthenticator(readFileSync(credentials))(nonce)),
      ...{ timeout: TIMEOUT_MS, pingInterval: PING_MS, reconnectTimeWait: RETRY_MS },
      maxReconnectAttempts: -1,
      ignoreAuthErrorAbort: true,
    } as NodeConnectionOptions;
  }

  /** Subscribes, and follows the connection until it ends. @throws Error that ended the connection */
  private async use(connection: NatsConnection): Promise<void> {
    this.connection = connection;
    for (const { subject, received } of this.options.subscriptions) {
      connection.subscribe(subject, {
        callback: (error, message) => {
          if (error === null) received(message.subject, message.data);
        },
      });
    }
    this.up();
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') {
        this.isUp = false;
        this.problem(`lost the connection to ${status.server}`);
      } else if (status.type === 'reconnect') this.up();
      else if (status.type === 'error') this.problem(status.error.message);
    }
    const error = await connection.closed();
    if (error) throw error;
  }

  private up(): void {
    this.isUp = true;
    this.logged = '';
    const { config, log } = this.options;
    log.info(
      { event: 'fleet-connected', fleet: config.name },
      `connected to the fleet's server ${this.connection?.getServer()}`,
    );
    this.options.connected();
  }

  private problem(message: string): void {
    if (this.isClosed || message === this.logged) return;
    this.logged = message;
    const { config, log } = this.options;
    log.warn(
      { event: 'fleet-unreachable', servers: config.servers },
      `the fleet's server: ${message}; the daemon tries again every second, and agents of other hosts cannot be reached until it is connected; check the server and fleet.servers`,
    );
  }

  /** Sends a message at once, or drops it if the daemon is not connected. */
  publish(subject: string, data: Uint8Array): void {
    // While the library is not connected, it would keep messages for later.
    if (this.isUp) this.connection?.publish(subject, data);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const { connection } = this;
    if (connection === null || connection.isClosed()) return;
    if (this.isUp) await Promise.race([connection.flush(), delay(LAST_MS)]).catch(() => {});
    this.isUp = false;
    await connection.close();
  }
}
