/**
 * Decides when the coordinators run a pass: once per iteration of the event loop in which something was marked,
 * and periodically while there are members whose silence would change grants.
 */
import type { Host } from './host.ts';

/** Interval of the checks for silent clients. */
const TICK_MS = 20;
/**
 * After a pass, no other pass starts for this many times its duration. A client that requests one pass after
 * another thus takes at most a quarter of the core and leaves the rest to other clients' messages. The first
 * pass after a quiet time starts at once.
 */
const REST_FACTOR = 3;

export interface PassOptions {
  readonly host: Host;
  /** Called at the end of each pass, and counted as part of it. */
  afterPass(): void;
  /** Called after each pass with its duration. */
  onPass?(durationNs: number): void;
  /** A monotonic clock. */
  nowNs(): number;
}

/** What runs the passes of a host. */
export interface Passes {
  /** Whether a pass is already scheduled. */
  readonly isPending: boolean;
  /** Schedules a pass, unless one is. */
  request(): void;
  close(): void;
}

export class PassScheduler implements Passes {
  private readonly options: PassOptions;
  private nextNs = Number.NEGATIVE_INFINITY;
  private isFullPassDue = false;
  /** The one that is set runs the next pass. */
  private immediate: NodeJS.Immediate | undefined;
  private timer: NodeJS.Timeout | undefined;
  private ticker: NodeJS.Timeout | undefined;

  constructor(options: PassOptions) {
    this.options = options;
  }

  get isPending(): boolean {
    return this.immediate !== undefined || this.timer !== undefined;
  }

  request(): void {
    if (this.isPending) return;
    const waitNs = this.nextNs - this.options.nowNs();
    if (waitNs <= 0) this.immediate = setImmediate(() => this.run());
    else this.timer = setTimeout(() => this.run(), Math.ceil(waitNs / 1e6));
  }

  private run(): void {
    const { host, afterPass, nowNs } = this.options;
    [this.immediate, this.timer] = [undefined, undefined];
    const beganNs = nowNs();
    if (this.isFullPassDue) host.fullPass(beganNs);
    else host.pass(beganNs);
    this.isFullPassDue = false;
    afterPass();
    const endNs = nowNs();
    this.nextNs = endNs + REST_FACTOR * (endNs - beganNs);
    this.options.onPass?.(endNs - beganNs);
    this.setTicking(host.needsTicks);
  }

  private setTicking(isNeeded: boolean): void {
    if (isNeeded === (this.ticker !== undefined)) return;
    clearInterval(this.ticker);
    this.ticker = isNeeded ? setInterval(() => this.tick(), TICK_MS) : undefined;
  }

  private tick(): void {
    this.isFullPassDue = true;
    this.request();
  }

  close(): void {
    clearImmediate(this.immediate);
    clearTimeout(this.timer);
    clearInterval(this.ticker);
    [this.immediate, this.timer, this.ticker] = [undefined, undefined, undefined];
  }
}
