/** Records how the applications perform over time. */

import type { Dispatcher } from './dispatcher.ts';
import { COMPLETED, LATENCY_COUNT, LATENCY_SUM, type Meter } from './meter.ts';
import type { GaugeLine, Timeline } from './result.ts';
import type { Stacks } from './stacks.ts';

// Columns recorded per application at each tick.
const BYTES = 0;
const MESSAGES = 1;
const SUM = 2;
const COUNT = 3;
const COLUMNS = 4;

/** What a timeline records. */
export interface TimelineOptions {
  readonly durationNs: number;
  readonly points: number;
  /** Whether it has the gauges of policies. */
  readonly gauges?: boolean | undefined;
}

export class TimelineRecorder {
  private readonly stepNs: number;
  private readonly points: number;
  private readonly meters: readonly Meter[];
  /** By application: totals since the start of the run, at each tick. */
  private readonly totals: Float64Array[];
  private readonly gauges: GaugeRecorder | null;

  constructor(dispatcher: Dispatcher, meters: readonly Meter[], options: TimelineOptions) {
    const { durationNs, points, gauges } = options;
    this.stepNs = durationNs / points;
    this.points = points;
    this.meters = meters;
    this.totals = meters.map(() => new Float64Array((points + 1) * COLUMNS));
    this.gauges = gauges === true ? new GaugeRecorder(dispatcher.stacks, points) : null;
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
    const { stepNs, gauges } = this;
    return { stepNs, apps, ...(gauges !== null && { gauges: gauges.results() }) };
  }

  private record(tick: number): void {
    this.gauges?.record(tick);
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

/** Records the gauges of all policies. */
class GaugeRecorder {
  private readonly stacks: Stacks;
  private readonly points: number;
  private readonly lines = new Map<string, { line: GaugeLine; values: (number | null)[] }>();

  constructor(stacks: Stacks, points: number) {
    this.stacks = stacks;
    this.points = points;
  }

  record(tick: number): void {
    for (const { value, ...gauge } of this.stacks.gauges()) {
      const { policy, device, tenant, name } = gauge;
      const key = [policy, device, tenant, name].join('\n');
      let known = this.lines.get(key);
      if (known === undefined) {
        const values = new Array<number | null>(this.points).fill(null);
        known = { line: { ...gauge, values }, values };
        this.lines.set(key, known);
      }
      known.values[tick - 1] = value;
    }
  }

  /** In the order in which they came up. Lines that stay 0 are left out. */
  results(): GaugeLine[] {
    const all = [...this.lines.values()].map(({ line }) => line);
    return all.filter(({ values }) => values.some((value) => value !== null && value !== 0));
  }
}
