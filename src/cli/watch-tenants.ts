/** Asks the daemon for its tenants again and again, over one connection as long as there is one. */
import { type Answer, type Attempt, type Connection, connect } from '../daemon/client/connection.ts';
import type { TenantRow } from '../daemon/protocol.ts';
import { HandshakeError } from '../verbs/errors.ts';

/** The tenants at a time of the daemon's own clock. */
export interface Look {
  readonly nowNs: number;
  readonly rows: readonly TenantRow[];
}

export interface WatchListeners {
  looked(look: Look): void;
  /** The daemon has gone, or never was there; it is tried again at the next time. */
  gone(reason: Error): void;
}

/** A daemon that is stopped is given up after so long. */
const ANSWER_MS = 5000;

export class TenantsWatch {
  private readonly socket: string;
  private readonly on: WatchListeners;
  private readonly asking: NodeJS.Timeout;
  private connection: Connection | null = null;
  private attempt: Attempt | null = null;
  private rows: TenantRow[] = [];
  /** When it was asked what it has not answered yet. */
  private askedMs: number | null = null;

  /** Asks at once, and then every `intervalMs`, as long as close() is not called. */
  constructor(socket: string, intervalMs: number, on: WatchListeners) {
    this.socket = socket;
    this.on = on;
    this.asking = setInterval(() => this.next(), intervalMs);
    this.next();
  }

  close(): void {
    clearInterval(this.asking);
    this.attempt?.giveUp();
    this.connection?.close();
    this.connection = null;
    this.attempt = null;
  }

  private next(): void {
    if (this.connection === null) {
      if (this.attempt === null) this.connect();
    } else if (this.askedMs === null) this.ask(this.connection);
    else if (performance.now() - this.askedMs > ANSWER_MS) {
      this.connection.close();
      this.lost(new HandshakeError('the daemon does not answer'));
    }
  }

  private connect(): void {
    this.attempt = connect(
      this.socket,
      { role: 'tool' },
      {
        answered: (connection) => {
          this.attempt = null;
          this.connection = connection;
          this.ask(connection);
        },
        heard: (message) => this.heard(message),
        rang() {},
        ended: (error) => this.lost(error),
      },
      true,
    );
  }

  private ask(connection: Connection): void {
    this.askedMs = performance.now();
    this.rows = [];
    connection.say({ type: 'tenants' });
  }

  /** The list comes in pieces. */
  private heard(message: Answer): void {
    if (message.type !== 'tenants') return;
    this.rows.push(...message.rows);
    if (message.more) return;
    this.askedMs = null;
    this.on.looked({ nowNs: message.nowNs, rows: this.rows });
  }

  private lost(reason: Error): void {
    this.connection = null;
    this.attempt = null;
    this.askedMs = null;
    this.on.gone(reason);
  }
}
