/** A figure as a vega-lite specification: lines or bars for measured values, diamonds for values that the paper states. */
import type { TopLevelSpec } from 'vega-lite';
import type { FigureResult, PanelResult } from '../../papers/engine/evaluate-figure.ts';
import { label } from './figure-table.ts';

/** Panels side by side, or one below the other for a phone. */
export type Layout = 'wide' | 'narrow';

export const FONT = 'system-ui, sans-serif';
const STATED = 'stated in the paper';
const BARE = '#6b6b6b';
/** Okabe and Ito's palette, which colour-blind readers can distinguish. */
const PALETTE = ['#0072b2', '#56b4e9', '#d55e00', '#e69f00', '#009e73', '#cc79a7', '#8c6d1f', '#5b3a8e'];
const BAR_PX = 15;
/** Smaller differences between seeds are not drawn, because they would be dots. */
const SPREAD = 0.02;

interface Shape {
  columns: number;
  width: number;
  height: number;
  /** Columns of the legend. */
  entries: number;
}

function shapeOf(panels: number, layout: Layout): Shape {
  if (layout === 'narrow') return { columns: 1, width: 250, height: 170, entries: 3 };
  const columns = panels === 4 ? 2 : Math.min(panels, 3);
  return { columns, width: [560, 400, 250][columns - 1], height: 220, entries: 6 };
}

/** All series, including those that only the paper has. */
function seriesOf({ panels }: FigureResult): string[] {
  const measured = panels.flatMap(({ series }) => series.map(({ name }) => name));
  const stated = panels.flatMap(({ paper }) => paper.map(({ series }) => series));
  return [...new Set([...measured, ...stated])];
}

function colorsOf(names: readonly string[]): string[] {
  const others = names.filter((name) => name !== 'none');
  return names.map((name) => (name === 'none' ? BARE : PALETTE[others.indexOf(name) % PALETTE.length]));
}

/** Rows for vega. A logarithmic axis only shows values above 0. */
function valuesOf({ series, log }: PanelResult) {
  return series.flatMap(({ name, points }) =>
    points.filter(({ value }) => !log || value > 0).map((point) => ({ ...point, series: label(name) })),
  );
}

function statedOf({ paper }: PanelResult) {
  return paper.map(({ series, x, value }) => {
    const [lowest, highest] = typeof value === 'number' ? [value, value] : value;
    return { series: label(series), x, lowest, highest, value: (lowest + highest) / 2 };
  });
}

/** 65536 as 64Ki; other numbers with a decimal prefix. */
const SIZES =
  "datum.value >= 1048576 && datum.value % 1048576 == 0 ? datum.value / 1048576 + 'Mi' : " +
  "datum.value >= 1024 && datum.value % 1024 == 0 ? datum.value / 1024 + 'Ki' : format(datum.value, '~s')";

/** The axes: x and value for lines, or groups and lengths for bars. */
function axesOf(figure: FigureResult, panel: PanelResult, names: readonly string[]) {
  const { x } = figure;
  const scale = panel.log ? { type: 'log' as const } : {};
  const value = { field: 'value', type: 'quantitative', title: null, scale } as const;
  const span = { from: { ...value, field: 'lowest' }, to: { field: 'highest' } };
  if (isLine(figure)) {
    const labels = x.bytes ? { labelExpr: SIZES } : { format: '~s' };
    const axis = { values: [...x.values], grid: false, labelOverlap: true, ...labels };
    const across = {
      field: 'x',
      type: 'quantitative',
      title: x.title,
      axis,
      scale: { ...(x.log ? { type: 'log' as const } : { zero: false }), nice: false },
    } as const;
    return {
      point: { x: across, y: value },
      span: { x: across, y: span.from, y2: span.to },
    };
  }
  const down = {
    y: {
      field: 'x',
      type: 'nominal',
      sort: [...x.values],
      title: x.title === '' ? null : x.title,
      axis: { labelLimit: 110, ticks: false, domain: false },
      scale: { paddingInner: 0.25 },
    },
    yOffset: { field: 'series', sort: names.map(label) },
  } as const;
  return {
    point: { ...down, x: value },
    span: { ...down, x: span.from, x2: span.to },
  };
}

/** Earlier lines are thicker, so that they remain visible behind later ones. */
const thickness = (i: number) => Math.max(5 - 1.25 * i, 1.25);

const isLine = ({ x }: FigureResult) => x.values.every((one) => typeof one === 'number');

/** One layer per line; one layer for all bars; dots instead of bars on a logarithmic axis, which has no zero. */
function measuredLayers(figure: FigureResult, panel: PanelResult, axes: Axes, color: Color) {
  const values = valuesOf(panel);
  if (!isLine(figure)) {
    const mark = panel.log
      ? { type: 'point' as const, filled: true, size: 60, opacity: 1 }
      : { type: 'bar' as const };
    return [{ data: { values }, mark, encoding: { ...axes.point, color } }];
  }
  return panel.series.map(({ name }, i) => ({
    data: { values: values.filter(({ series }) => series === label(name)) },
    mark: { type: 'line' as const, point: { size: 30 }, strokeWidth: thickness(i) },
    encoding: { ...axes.point, color },
  }));
}

/** A line from the lowest to the highest value of the seeds. */
function spreadLayer(figure: FigureResult, panel: PanelResult, axes: Axes, color: Color) {
  const values = valuesOf(panel).filter(({ lowest, highest }) => highest - lowest > SPREAD * highest);
  const bars = !isLine(figure) && !panel.log;
  return {
    data: { values },
    mark: { type: 'rule' as const, strokeWidth: 1.5, ...(bars && { color: 'black' }) },
    encoding: bars ? axes.span : { ...axes.span, color },
  };
}

function statedLayers(panel: PanelResult, axes: Axes, color: Color) {
  const paper = statedOf(panel);
  const shape = {
    datum: STATED,
    type: 'nominal',
    title: null,
    scale: { domain: [STATED], range: ['diamond'] },
    legend: { symbolFillColor: 'white', symbolStrokeColor: 'black', symbolSize: 80 },
  } as const;
  const mark = {
    type: 'point',
    size: 80,
    filled: true,
    stroke: 'black',
    strokeWidth: 1.2,
    opacity: 1,
  } as const;
  if (paper.length === 0) return [];
  return [
    {
      data: { values: paper.filter(({ lowest, highest }) => highest > lowest) },
      mark: { type: 'rule' as const, strokeWidth: 6, opacity: 0.35, color: 'black' },
      encoding: axes.span,
    },
    { data: { values: paper }, mark, encoding: { ...axes.point, color, shape } },
  ];
}

function colorOf(names: readonly string[], shape: Shape) {
  return {
    field: 'series',
    type: 'nominal',
    title: null,
    scale: { domain: names.map(label), range: colorsOf(names) },
    legend: { columns: shape.entries, symbolType: 'square', symbolStrokeWidth: 0 },
  } as const;
}

type Axes = ReturnType<typeof axesOf>;
type Color = ReturnType<typeof colorOf>;

function panelSpec(figure: FigureResult, panel: PanelResult, names: readonly string[], shape: Shape) {
  const axes = axesOf(figure, panel, names);
  const color = colorOf(names, shape);
  return {
    title: { text: `${panel.title}, ${panel.unit}`, anchor: 'start' as const, fontSize: 12 },
    width: shape.width,
    height: isLine(figure) ? shape.height : { step: BAR_PX },
    layer: [
      ...measuredLayers(figure, panel, axes, color),
      spreadLayer(figure, panel, axes, color),
      ...statedLayers(panel, axes, color),
    ],
  };
}

/** The specification for drawSvg(). */
export function chartOf(figure: FigureResult, layout: Layout): TopLevelSpec {
  const names = seriesOf(figure);
  const shape = shapeOf(figure.panels.length, layout);
  return {
    background: 'white',
    padding: 8,
    columns: shape.columns,
    concat: figure.panels.map((panel) => panelSpec(figure, panel, names, shape)),
    config: {
      aria: false,
      font: FONT,
      axis: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: 'normal', tickCount: 5 },
      legend: {
        orient: 'bottom',
        labelFontSize: 11,
        labelLimit: 220,
        ...(layout === 'narrow' && { layout: { bottom: { anchor: 'start', direction: 'vertical' } } }),
      },
      view: { stroke: null },
    },
  } as TopLevelSpec;
}
