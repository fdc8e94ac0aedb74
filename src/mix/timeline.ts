/** Records how the applications perform over time. */

import type { Dispatcher } from './dispatcher.ts';
import { COMPLETED, LATENCY_COUNT, LATENCY_SUM, type Meter } from './meter.ts';
import type { Timeline } from './result.ts';

// Columns recorded per application at each tick.
const BYTES = 0;
const MESSAGES = 1;
const SUM = 2;
const COUNT = 3;
const COLUMNS = 4;

export class TimelineRecorder {
  private readonly stepNs: number;
  private readonly points: number;
  private readonly meters: readonly Meter[];
  /** By application: totals since the start of the run, at each tick. */
  private readonly totals: Float64Array[];

  constructor(dispatcher: Dispatcher, meters: readonly Meter[], durationNs: number, points: number) {
    this.stepNs = durationNs / points;
    this.points = points;
    this.meters = meters;
    this.totals = meters.map(() => new Float64Array((points + 1) * COLUMNS));
    dispatcher.onTick = (tick) => this.record(tick);
    for (let tick = 1; tick <= points; tick++)
      dispatcher.tickAt(Math.min(durationNs, tick * this.stepNs), tick);
  }

  result(names: readonly string[]): Timeline {
    const steps = Array.from({ length: this.points }, (_, i) => i + 1);
    const apps = this.totals.map((totals, app) => {
      const grown = (tick: number, what: number) =>
        totals[tick * COLUMNS + what] - totals[(tick - 1) * COLUMNS + what];
      return {
        name: names[app],
        throughputGbps: steps.map((tick) => (grown(tick, BYTES) * 8) / this.stepNs),
        messageRateMmps: steps.map((tick) => (grown(tick, MESSAGES) * 1000) / this.stepNs),
        latencyUs: steps.map((tick) => {
          const count = grown(tick, COUNT);
          return count === 0 ? null : grown(tick, SUM) / count / 1000;
        }),
      };
    });
    return { stepNs: this.stepNs, apps };
  }

  private record(tick: number): void {
    this.meters.forEach((meter, app) => {
      const totals = this.totals[app];
      const at = tick * COLUMNS;
      totals[at + BYTES] = meter.deliveredBytes();
      totals[at + MESSAGES] = meter.sums[COMPLETED];
      totals[at + SUM] = meter.sums[LATENCY_SUM];
      totals[at + COUNT] = meter.sums[LATENCY_COUNT];
    });
  }
}
