/** Requests the daemon's tenants periodically, over one connection while it lasts. */
import {
  type Answer,
  type Attempt,
  type Connection,
  connect,
  UNANSWERED,
} from '../daemon/client/connection.ts';
import type { TenantListing } from '../daemon/client/tool-request.ts';
import type { TenantRow } from '../daemon/protocol.ts';
import { HandshakeError } from '../verbs/errors.ts';

/** The tenants at one time of the daemon's clock. */
export interface TenantSample extends TenantListing {
  readonly nowNs: number;
}

export interface WatchListeners {
  sampled(look: TenantSample): void;
  /** The daemon has ended or never ran; the next interval tries again. */
  disconnected(reason: Error): void;
}

/** A daemon that does not answer for this long is considered gone. */
const ANSWER_MS = 5000;

export class TenantWatch {
  private readonly socket: string;
  private readonly on: WatchListeners;
  private readonly timer: NodeJS.Timeout;
  private connection: Connection | null = null;
  private attempt: Attempt | null = null;
  private rows: TenantRow[] = [];
  private about: Pick<TenantSample, 'devices' | 'policy'> = {};
  /** The time at which the unanswered request was sent; null if there is none. */
  private requestedMs: number | null = null;

  /** Requests at once and then every `intervalMs`, until close() is called. */
  constructor(socket: string, intervalMs: number, on: WatchListeners) {
    this.socket = socket;
    this.on = on;
    this.timer = setInterval(() => this.poll(), intervalMs);
    this.poll();
  }

  close(): void {
    clearInterval(this.timer);
    this.attempt?.cancel();
    this.connection?.close();
    this.connection = null;
    this.attempt = null;
  }

  private poll(): void {
    if (this.connection === null) {
      if (this.attempt === null) this.connect();
    } else if (this.requestedMs === null) this.request(this.connection);
    else if (performance.now() - this.requestedMs > ANSWER_MS) {
      this.connection.close();
      this.lost(new HandshakeError(UNANSWERED));
    }
  }

  private connect(): void {
    this.attempt = connect(
      this.socket,
      { role: 'tool' },
      {
        connected: (connection) => {
          this.attempt = null;
          this.connection = connection;
          this.request(connection);
        },
        received: (message) => this.received(message),
        signalled() {},
        ended: (error) => this.lost(error),
      },
      true,
    );
  }

  private request(connection: Connection): void {
    this.requestedMs = performance.now();
    this.rows = [];
    this.about = {};
    connection.send({ type: 'tenants' });
  }

  /** The list may arrive in several messages. */
  private received(message: Answer): void {
    if (message.type !== 'tenants') return;
    this.rows.push(...message.rows);
    const { devices, policy } = message;
    if (devices !== undefined) this.about = { devices, policy };
    if (message.more) return;
    this.requestedMs = null;
    this.on.sampled({ nowNs: message.nowNs, rows: this.rows, ...this.about });
  }

  private lost(reason: Error): void {
    this.connection = null;
    this.attempt = null;
    this.requestedMs = null;
    this.on.disconnected(reason);
  }
}
