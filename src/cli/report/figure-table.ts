/** The numbers of a figure: a row for each panel and x, a column for each series, and the paper's values. */

import type { FigureResult, PanelResult, Point } from '../../papers/engine/evaluate-figure.ts';
import { short } from '../../papers/engine/expect.ts';
import type { PaperPoint, X } from '../../papers/engine/figure.ts';

/** Series names for readers. */
export const label = (series: string) => (series === 'none' ? 'bare' : series);

export interface FigureTable {
  head: string[];
  rows: string[][];
}

const rounded = (value: number) => short(Number(value.toPrecision(3)));

/** The median, followed by the range if the seeds differ. */
export function valueText(point: Point | undefined): string {
  if (point === undefined) return '-';
  const { value, lowest, highest } = point;
  const [middle, from, to] = [value, lowest, highest].map(rounded);
  return from === to ? middle : `${middle} (${from} to ${to})`;
}

/** A value stated by the paper, such as `bare 97.9 (2.3.1)`. */
export function paperText({ series, value, from }: PaperPoint): string {
  const number = typeof value === 'number' ? short(value) : `${short(value[0])} to ${short(value[1])}`;
  return `${label(series)} ${number} (${from})`;
}

function rowOf(panel: PanelResult, x: X): string[] {
  const cells = panel.series.map(({ points }) => valueText(points.find((point) => point.x === x)));
  const paper = panel.paper.filter((point) => point.x === x).map(paperText);
  return [
    panel.unit === '' ? panel.title : `${panel.title}, ${panel.unit}`,
    `${x}`,
    ...cells,
    paper.join('; '),
  ];
}

/** Leaves out rows without any measured or stated value. */
export function figureTable({ x, panels }: FigureResult): FigureTable {
  const names = panels[0].series.map(({ name }) => label(name));
  const rows = panels.flatMap((panel) => x.values.map((one) => rowOf(panel, one)));
  return {
    head: ['panel', x.title === '' ? 'group' : x.title, ...names, 'the paper'],
    rows: rows.filter((cells) => cells.slice(2).some((cell) => cell !== '-' && cell !== '')),
  };
}
