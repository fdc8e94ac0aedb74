/** What most figures measure. `app` is an app of the mixture, or all copies of it; without it there is no point. */
import { avgUs, gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Panel, PaperPoint, X } from './figure.ts';

type Of = (run: MixResult, app: string) => number;
type More<T extends X> = Partial<Panel<T>>;

const inMix = (run: MixResult, app: string) =>
  run.apps.some(({ name }) => name === app || name.startsWith(`${app}.`));

/** What `of` says of an app, where it is in the mixture. */
export const measured =
  (of: Of, app: string) =>
  (run: MixResult): number =>
    inMix(run, app) ? of(run, app) : Number.NaN;

const kind =
  (what: string, unit: string, of: Of) =>
  <T extends X>(app: string, more: More<T> = {}): Panel<T> => ({
    title: `${what} of ${app}`,
    unit,
    measure: measured(of, app),
    ...more,
  });

/** Payload; of copies, of all together. */
export const bandwidth = kind('Bandwidth', 'Gbps', gbps);
/** Messages; of copies, of all together. */
export const rate = kind('Message rate', 'Mmps', mmps);
export const average = kind('Average latency', 'us', avgUs);
export const median = kind('Median latency', 'us', p50Us);
export const p99 = kind('99 % latency', 'us', p99Us);

/** The latencies that papers show. */
export const latencies = <T extends X>(app: string): Panel<T>[] => [average(app), p99(app)];

/** What the text of a paper states of one series: a value, or from and to, at each x. */
export const stated = <T extends X>(
  series: string,
  from: string,
  values: readonly (readonly [x: T, value: PaperPoint['value']])[],
): PaperPoint<T>[] => values.map(([x, value]) => ({ series, x, value, from }));
