/** A figure as a vega-lite specification: lines or bars for measured values, diamonds for values that the paper states. */
import type { TopLevelSpec } from 'vega-lite';
import type { FigureResult, PanelResult } from '../../papers/engine/evaluate-figure.ts';
import { label, paperText, valueText } from './figure-table.ts';

/** Panels side by side, or one below the other for a phone. */
export type Layout = 'wide' | 'narrow';

export const FONT = 'system-ui, sans-serif';
const STATED = 'stated in the paper';
const BARE = '#6b6b6b';
/** Okabe and Ito's palette, which colour-blind readers can distinguish. */
const PALETTE = ['#0072b2', '#56b4e9', '#d55e00', '#e69f00', '#009e73', '#cc79a7', '#8c6d1f', '#5b3a8e'];
/** Lighter colours for a dark page, by the colours that they replace. */
export const DARK_COLORS: Readonly<Record<string, string>> = {
  [BARE]: '#a3a3a3',
  '#0072b2': '#4ba6e0',
  '#d55e00': '#f58535',
  '#8c6d1f': '#c4a350',
  '#5b3a8e': '#b08fe8',
};
const BAR_PX = 15;
/** Dashes of lines and shapes of their points, by series, so that series can be told apart without colours. */
const DASHES: readonly (readonly number[])[] = [
  [],
  [6, 2],
  [2, 2],
  [8, 2, 2, 2],
  [12, 3],
  [1, 3],
  [4, 4],
  [9, 2, 2, 2, 2, 2],
];
const SHAPES = [
  'circle',
  'square',
  'triangle-up',
  'cross',
  'triangle-down',
  'wedge',
  'triangle-right',
  'triangle-left',
];
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

/** Rows for vega. A logarithmic axis only shows values above 0. `tip` is what a reader sees when pointing at the mark. */
function valuesOf({ series, log, unit }: PanelResult) {
  return series.flatMap(({ name, points }) =>
    points
      .filter(({ value }) => !log || value > 0)
      .map((point) => ({
        ...point,
        series: label(name),
        tip: `${label(name)}, ${point.x}: ${valueText(point)}${unit === '' ? '' : ` ${unit}`}`,
      })),
  );
}

/** Names marks for the reader who points at them (see titled() in write.ts). */
const TIP = { description: { field: 'tip', type: 'nominal' } } as const;

function statedOf({ paper }: PanelResult) {
  return paper.map((point) => {
    const { series, x, value } = point;
    const [lowest, highest] = typeof value === 'number' ? [value, value] : value;
    const tip = `the paper, ${x}: ${paperText(point)}`;
    return { series: label(series), x, lowest, highest, value: (lowest + highest) / 2, tip };
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
const thickness = (i: number) => Math.max(4 - 0.75 * i, 1.5);
const dashOf = (i: number) => [...DASHES[i % DASHES.length]];
const shapeAt = (i: number) => SHAPES[i % SHAPES.length];

const isLine = ({ x }: FigureResult) => x.values.every((one) => typeof one === 'number');

const isBars = (figure: FigureResult, { log }: PanelResult) => !isLine(figure) && !log;

/** One layer per line; for bars, a layer with all of them and one with their names; dots on a logarithmic axis, which has no zero. */
function measuredLayers(figure: FigureResult, panel: PanelResult, axes: Axes, key: Key) {
  const values = valuesOf(panel);
  const { color, shape } = scalesOf(key, isBars(figure, panel));
  if (!isLine(figure)) {
    if (panel.log) {
      const mark = { type: 'point' as const, filled: true, size: 60, opacity: 1, aria: true };
      return [{ data: { values }, mark, encoding: { ...axes.point, ...TIP, color, shape } }];
    }
    return [
      {
        data: { values },
        mark: { type: 'bar' as const, aria: true },
        encoding: { ...axes.point, ...TIP, color },
      },
      {
        data: { values },
        mark: { type: 'text' as const, align: 'left' as const, dx: 3, fontSize: 8 },
        encoding: { ...axes.point, text: { field: 'series' } },
      },
    ];
  }
  return panel.series.flatMap(({ name }, i) => {
    const data = { values: values.filter(({ series }) => series === label(name)) };
    const at = key.names.indexOf(name);
    return [
      {
        data,
        mark: { type: 'line' as const, strokeWidth: thickness(i), strokeDash: dashOf(at) },
        encoding: { ...axes.point, color },
      },
      {
        data,
        mark: { type: 'point' as const, filled: true, size: 36, opacity: 1, aria: true },
        encoding: { ...axes.point, ...TIP, color, shape },
      },
    ];
  });
}

/** A line from the lowest to the highest value of the seeds. */
function spreadLayer(figure: FigureResult, panel: PanelResult, axes: Axes, key: Key) {
  const values = valuesOf(panel).filter(({ lowest, highest }) => highest - lowest > SPREAD * highest);
  const bars = isBars(figure, panel);
  return {
    data: { values },
    mark: { type: 'rule' as const, strokeWidth: 1.5, ...(bars && { color: 'black' }) },
    encoding: bars ? axes.span : { ...axes.span, color: scalesOf(key, bars).color },
  };
}

function statedLayers(figure: FigureResult, panel: PanelResult, axes: Axes, key: Key) {
  const paper = statedOf(panel);
  const { color, shape } = scalesOf(key, isBars(figure, panel));
  const mark = {
    type: 'point',
    size: 80,
    filled: true,
    stroke: 'black',
    strokeWidth: 1.2,
    opacity: 1,
    aria: true,
  } as const;
  if (paper.length === 0) return [];
  return [
    {
      data: { values: paper.filter(({ lowest, highest }) => highest > lowest) },
      mark: { type: 'rule' as const, strokeWidth: 6, opacity: 0.35, color: 'black' },
      encoding: axes.span,
    },
    {
      data: { values: paper },
      mark,
      encoding: { ...axes.point, ...TIP, color, shape: { ...shape, field: undefined, datum: STATED } },
    },
  ];
}

/**
 * Colours and shapes by series. Lines and dots have one legend for both; bars have one for colours and one for the values
 * that the paper states.
 */
function scalesOf({ names, isStated }: Key, bars: boolean) {
  const domain = isStated ? [...names.map(label), STATED] : names.map(label);
  const field = { field: 'series', type: 'nominal', title: null } as const;
  return {
    color: {
      ...field,
      scale: { domain, range: [...colorsOf(names), 'black'] },
      legend: bars ? { values: names.map(label), symbolType: 'square', symbolStrokeWidth: 0 } : {},
    },
    shape: {
      ...field,
      scale: { domain, range: [...names.map((_name, i) => shapeAt(i)), 'diamond'] },
      legend: !bars ? {} : isStated ? { values: [STATED] } : null,
    },
  } as const;
}

/** The series of a figure, and whether the paper states values. */
interface Key {
  names: readonly string[];
  isStated: boolean;
}

type Axes = ReturnType<typeof axesOf>;

function panelSpec(figure: FigureResult, panel: PanelResult, key: Key, shape: Shape) {
  const axes = axesOf(figure, panel, key.names);
  return {
    title: { text: `${panel.title}, ${panel.unit}`, anchor: 'start' as const, fontSize: 12 },
    width: shape.width,
    height: isLine(figure) ? shape.height : { step: BAR_PX },
    layer: [
      ...measuredLayers(figure, panel, axes, key),
      spreadLayer(figure, panel, axes, key),
      ...statedLayers(figure, panel, axes, key),
    ],
  };
}

/** The specification for drawSvg(). */
export function chartOf(figure: FigureResult, layout: Layout): TopLevelSpec {
  const key = { names: seriesOf(figure), isStated: figure.panels.some(({ paper }) => paper.length > 0) };
  const shape = shapeOf(figure.panels.length, layout);
  return {
    background: 'white',
    padding: 8,
    columns: shape.columns,
    concat: figure.panels.map((panel) => panelSpec(figure, panel, key, shape)),
    config: {
      aria: false,
      font: FONT,
      axis: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: 'normal', tickCount: 5 },
      legend: {
        orient: 'bottom',
        labelFontSize: 11,
        labelLimit: 220,
        columns: shape.entries,
        ...(layout === 'narrow' && { layout: { bottom: { anchor: 'start', direction: 'vertical' } } }),
      },
      view: { stroke: null },
    },
  } as TopLevelSpec;
}
