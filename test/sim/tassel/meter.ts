/** What leaves the cycle model: per queue pair its packets, rate and gaps. */
import { TICK_NS } from '../../../src/sim/tassel/flow-tags.ts';
import {
  type OnDeparture,
  type SchedulerOptions,
  TasselScheduler,
} from '../../../src/sim/tassel/scheduler.ts';
import { SystemTime } from '../../../src/sim/tassel/system-time.ts';

export const LINK_BPS = 100e9;
/** Headers of a packet that is a message of its own. */
export const HEADERS = 82 + 16;
export const MTU = 4096;
/** Ticks in a microsecond. */
export const US = 250;
/** More messages than any run sends. */
export const ENDLESS = 1e12;

/** The time of a packet of this size at this rate, in ticks. */
export const packetTicks = (bytes: number, bps: number) => (bytes * 8e9) / TICK_NS / bps;

/** The formula as printed: a factor of max(1, Phi) instead of the division. */
export class PrintedTime extends SystemTime {
  protected override stepOf(phi: number): number {
    return Math.floor(2 ** 32 * phi);
  }
}

/** A rate change that leaves the times of the queue pair as they are. */
export class NoRekeying extends TasselScheduler {
  protected override rekey(qp: number, rate: number): void {
    this.tags.rateBps[qp] = rate;
  }
}

/** Every tick is carried out. */
export class EveryTick extends TasselScheduler {
  protected override idleTicks(): number {
    return 0;
  }
}

type Model = new (options: SchedulerOptions, onDeparture: OnDeparture) => TasselScheduler;

/** A scheduler and a record of every packet that leaves it. */
export class Meter {
  readonly scheduler: TasselScheduler;
  readonly ticks: number[][];
  readonly bytes: number[][];
  /** All packets, in order. */
  readonly log: { tick: number; qp: number; bytes: number }[] = [];

  constructor(options: SchedulerOptions, Scheduler: Model = TasselScheduler) {
    this.ticks = Array.from({ length: options.queuePairs }, () => []);
    this.bytes = Array.from({ length: options.queuePairs }, () => []);
    this.scheduler = new Scheduler(options, (qp, bytes) => {
      const tick = this.scheduler.tick[0];
      this.ticks[qp].push(tick);
      this.bytes[qp].push(bytes);
      this.log.push({ tick, qp, bytes });
    });
  }

  /** Gives a queue pair a rate and endless messages. */
  start(qp: number, bps: number, bytes = MTU): void {
    this.scheduler.setRate(qp, bps);
    this.scheduler.doorbell(qp, ENDLESS, bytes);
  }

  run(ticks: number): void {
    this.scheduler.runUntil(this.scheduler.tick[0] + ticks);
  }

  /** Rate on the wire from the first packet to the last one that left by `toTick`, in bit/s. */
  rate(qp: number, fromTick = 0, toTick = Number.POSITIVE_INFINITY): number {
    const indexes = [...this.ticks[qp].keys()].filter(
      (i) => this.ticks[qp][i] >= fromTick && this.ticks[qp][i] <= toTick,
    );
    const [first, last] = [indexes[0], indexes.at(-1)!];
    const bytes = this.bytes[qp].slice(first, last).reduce((sum, each) => sum + each, 0);
    return (bytes * 8e9) / ((this.ticks[qp][last] - this.ticks[qp][first]) * TICK_NS);
  }

  /** The largest deviation of a gap between packets from this one, in ticks. */
  gapError(qp: number, gap: number): number {
    const ticks = this.ticks[qp];
    return Math.max(...ticks.slice(1).map((tick, i) => Math.abs(tick - ticks[i] - gap)));
  }

  /** Bytes in the window of so many ticks that has the most, less those of its largest packet. */
  mostBytesBeyondPacket(qp: number, windowTicks: number, fromTick: number): number {
    const ticks = this.ticks[qp];
    const bytes = this.bytes[qp];
    let [sum, most, first] = [0, 0, 0];
    for (let i = 0; i < ticks.length; i++) {
      if (ticks[i] < fromTick) {
        first = i + 1;
        continue;
      }
      sum += bytes[i];
      for (; ticks[first] <= ticks[i] - windowTicks; first++) sum -= bytes[first];
      most = Math.max(most, sum - bytes[i]);
    }
    return most;
  }

  /** The first packet of a queue pair at or after this tick; Infinity: none. */
  firstAfter(qp: number, tick: number): number {
    return this.ticks[qp].find((each) => each >= tick) ?? Number.POSITIVE_INFINITY;
  }
}
