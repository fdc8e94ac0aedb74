/**
 * The quantities that most figures measure. `app` names an application or all its copies; a mixture without it gets no
 * point.
 */

import { avgUs, gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Mix } from '../../mix/mixture.ts';
import type { AppResult, MixResult } from '../../mix/result.ts';
import type { Panel, PaperPoint, X } from './figure.ts';

type Metric = (run: MixResult, app: string) => number;
type More<T extends X> = Partial<Panel<T>>;

const contains = (run: MixResult, app: string) =>
  run.apps.some(({ name }) => name === app || name.startsWith(`${app}.`));

/** The metric of an application, or NaN if the mixture does not contain it. */
export const measured =
  (metric: Metric, app: string) =>
  (run: MixResult): number =>
    contains(run, app) ? metric(run, app) : Number.NaN;

const panelOf =
  (what: string, unit: string, metric: Metric) =>
  <T extends X>(app: string, more: More<T> = {}): Panel<T> => ({
    title: `${what} of ${app}`,
    unit,
    measure: measured(metric, app),
    ...more,
  });

/** Payload; the sum over all copies. */
export const bandwidth = panelOf('Bandwidth', 'Gbps', gbps);
/** Messages; the sum over all copies. */
export const rate = panelOf('Message rate', 'Mmps', mmps);
export const average = panelOf('Average latency', 'us', avgUs);
export const median = panelOf('Median latency', 'us', p50Us);
export const p99 = panelOf('99th-percentile latency', 'us', p99Us);

/** The latencies that most papers plot. */
export const latencies = <T extends X>(app: string): Panel<T>[] => [average(app), p99(app)];

/** A paper's statement about one series: a value or a range at each x. */
export const stated = <T extends X>(
  series: string,
  from: string,
  values: readonly (readonly [x: T, value: PaperPoint['value']])[],
): PaperPoint<T>[] => values.map(([x, value]) => ({ series, x, value, from }));

/** The panel relative to its value in the mixture `alone`; `paper` as in a panel. */
export const toAlone = <T extends X>(
  panel: Panel<T>,
  alone: (x: T) => Mix,
  paper: Panel<T>['paper'] = [],
): Panel<T> => ({
  title: `${panel.title}, relative to alone`,
  unit: 'x',
  log: panel.log,
  base: alone,
  measure: (run, x, base) => panel.measure(run, x, base) / panel.measure(base, x, base),
  paper,
});

/** Three panels: the minimum, the maximum and the sum over the mixture's applications of that kind. */
export function overCopies<T extends X>(
  kind: AppResult['kind'],
  what: string,
  unit: string,
  metricOf: (app: AppResult) => number,
): Panel<T>[] {
  const ends: [string, (values: number[]) => number][] = [
    ['least', (values) => Math.min(...values)],
    ['most', (values) => Math.max(...values)],
    ['all', (values) => values.reduce((sum, value) => sum + value, 0)],
  ];
  return ends.map(([end, from]) => ({
    title: `${what}: ${end}`,
    unit,
    measure: ({ apps }) => from(apps.filter((app) => app.kind === kind).map(metricOf)),
  }));
}
