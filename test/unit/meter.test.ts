import { createHistogram } from 'node:perf_hooks';
import { expect, it } from 'vitest';
import { END, Meter, START } from '#src/mix/meter.ts';

/** Latencies of 1 to `count` us, the longest first. */
function meterOf(count: number): Meter {
  const meter = new Meter(0, 1e9);
  for (let us = count; us > 0; us--) {
    meter.times[START] = 1000;
    meter.times[END] = 1000 + us * 1000;
    meter.complete(1);
  }
  return meter;
}

function percentilesUs(count: number): object {
  const histogram = createHistogram({ lowest: 1, highest: 1e11, figures: 3 });
  for (let us = 1; us <= count; us++) histogram.record(us * 1000);
  const us = (percentile: number) => Math.min(count, histogram.percentile(percentile) / 1000);
  return { avg: (count + 1) / 2, p50: us(50), p80: us(80), p99: us(99), p999: us(99.9), max: count };
}

it('percentiles are those of a histogram, however few or many requests complete', () => {
  const counts = [1, 2, 499, 500, 501, 3000];
  const meters = counts.map(meterOf);
  expect(meters.map((meter) => meter.latencyUs(true))).toEqual(counts.map(percentilesUs));
  expect(new Meter(0, 1).latencyUs()).toBeNull();
});
