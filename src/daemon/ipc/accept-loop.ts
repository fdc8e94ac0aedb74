/** Accepts connections, and rests while they only cost time. */
import type { UnixListener } from './socket.ts';

/** What became of a waiting connection. `failed`: it keeps waiting, because descriptors have run out. */
export type Accepted = 'none' | 'taken' | 'refused' | 'failed';

/** When descriptors run out, waiting connections are tried again after this long. */
const PAUSE_MS = 20;
/**
 * Connections handled per iteration of the event loop. With one at a time, thousands that come at once would
 * take that many iterations.
 */
const ACCEPTS_PER_ITERATION = 16;
/** After an iteration that refused connections, none is accepted for this many times its duration. */
const REST_FACTOR = 3;

export interface AcceptOptions {
  /** Accepts one connection, if one waits. */
  accept(listener: UnixListener): Accepted;
  /** A monotonic clock. */
  nowNs(): number;
}

export class AcceptLoop {
  private readonly listener: UnixListener;
  private readonly options: AcceptOptions;
  private pauseTimer: NodeJS.Timeout | undefined;

  constructor(listener: UnixListener, options: AcceptOptions) {
    this.listener = listener;
    this.options = options;
    this.watch();
  }

  /** Closes the listener, too. */
  close(): void {
    clearTimeout(this.pauseTimer);
    this.listener.close();
  }

  private watch(): void {
    this.listener.watch(() => this.acceptSome());
  }

  private acceptSome(): void {
    const { accept, nowNs } = this.options;
    const beganNs = nowNs();
    let refused = 0;
    for (let i = 0; i < ACCEPTS_PER_ITERATION; i++) {
      const outcome = accept(this.listener);
      if (outcome === 'none') break;
      if (outcome === 'refused') refused++;
      if (outcome === 'failed') {
        this.pause(PAUSE_MS);
        return;
      }
    }
    if (refused > 0) this.pause(Math.ceil((REST_FACTOR * (nowNs() - beganNs)) / 1e6));
  }

  private pause(ms: number): void {
    this.listener.watch(null);
    this.pauseTimer = setTimeout(() => {
      if (!this.listener.closed) this.watch();
    }, ms);
  }
}
