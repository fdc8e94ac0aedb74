/** The least, the most and the sum of what copies of an application have. */
import type { AppResult } from '../../mix/result.ts';
import type { Panel, X } from './figure.ts';

/** Three panels; `kind` is all of the mixture's applications of that kind. */
export function overCopies<T extends X>(
  kind: AppResult['kind'],
  what: string,
  unit: string,
  of: (app: AppResult) => number,
): Panel<T>[] {
  const ends: [string, (values: number[]) => number][] = [
    ['least', (values) => Math.min(...values)],
    ['most', (values) => Math.max(...values)],
    ['all', (values) => values.reduce((sum, value) => sum + value, 0)],
  ];
  return ends.map(([end, from]) => ({
    title: `${what}: ${end}`,
    unit,
    measure: ({ apps }) => from(apps.filter((app) => app.kind === kind).map(of)),
  }));
}
