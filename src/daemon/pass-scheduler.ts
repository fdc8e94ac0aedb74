/**
 * When the coordinators decide: at the end of the turn of the event loop in which something was marked, once, however
 * much it was; and now and then, while anybody is there whose silence would be news.
 */
import type { Host } from './host.ts';

/** Between two looks for those who are silent. */
const TICK_MS = 20;
/**
 * After a pass there is none for so many times as long as it took: a client that wants one after the other has a
 * quarter of the core, and the messages of all others have the rest. The first after quiet waits for nothing.
 */
const REST = 3;

export interface PassOptions {
  readonly host: Host;
  /** Called after each, and counted as part of it. */
  done(): void;
  /** Told how long each took. */
  took?(ns: number): void;
  /** Monotonic. */
  nowNs(): number;
}

export class Passes {
  private readonly options: PassOptions;
  private nextNs = Number.NEGATIVE_INFINITY;
  private isLookDue = false;
  /** What runs the next one, if one is asked for. */
  private soon: NodeJS.Immediate | undefined;
  private later: NodeJS.Timeout | undefined;
  private ticking: NodeJS.Timeout | undefined;

  constructor(options: PassOptions) {
    this.options = options;
  }

  /** Whether there will be one that nothing has to happen for. */
  get isAsked(): boolean {
    return this.soon !== undefined || this.later !== undefined;
  }

  ask(): void {
    if (this.isAsked) return;
    const waitNs = this.nextNs - this.options.nowNs();
    if (waitNs <= 0) this.soon = setImmediate(() => this.run());
    else this.later = setTimeout(() => this.run(), Math.ceil(waitNs / 1e6));
  }

  private run(): void {
    const { host, done, nowNs } = this.options;
    [this.soon, this.later] = [undefined, undefined];
    const beganNs = nowNs();
    if (this.isLookDue) host.step(beganNs);
    else host.pass(beganNs);
    this.isLookDue = false;
    done();
    const endNs = nowNs();
    this.nextNs = endNs + REST * (endNs - beganNs);
    this.options.took?.(endNs - beganNs);
    this.watch(host.isWatching);
  }

  private watch(isWatching: boolean): void {
    if (isWatching === (this.ticking !== undefined)) return;
    clearInterval(this.ticking);
    this.ticking = isWatching ? setInterval(() => this.tick(), TICK_MS) : undefined;
  }

  private tick(): void {
    this.isLookDue = true;
    this.ask();
  }

  close(): void {
    clearImmediate(this.soon);
    clearTimeout(this.later);
    clearInterval(this.ticking);
    [this.soon, this.later, this.ticking] = [undefined, undefined, undefined];
  }
}
