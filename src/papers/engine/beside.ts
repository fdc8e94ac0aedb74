/** What an application has beside others, to what it has alone on the bare device. */
import type { Mix } from './claim.ts';
import type { Panel, X } from './figure.ts';

/** As a factor of `panel` in the mixture `alone`; `paper` as in a panel. */
export const toAlone = <T extends X>(
  panel: Panel<T>,
  alone: (x: T) => Mix,
  paper: Panel<T>['paper'] = [],
): Panel<T> => ({
  title: `${panel.title}, to that alone`,
  unit: 'x',
  log: panel.log,
  base: alone,
  measure: (run, x, base) => panel.measure(run, x, base) / panel.measure(base, x, base),
  paper,
});
