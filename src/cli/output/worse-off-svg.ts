/** The picture of `isoverbs compare --random`: a panel for each measure, with every ratio to bare in ascending order. */
import type { TopLevelSpec } from 'vega-lite';
import { MEASURES, type Measure, type WorseOff } from '../../compare/worse-off.ts';
import { drawSvg } from './svg.ts';
import { MEASURE_NAMES } from './worse-off-table.ts';

const FONT = 16;
const PANEL_WIDTH = 330;
const PANEL_HEIGHT = 220;
const PANELS_A_LINE = 2;
/** Ratios beyond these are drawn at the edge of the panel. */
const LEAST = 0.05;
const MOST = 20;

interface Dot {
  policy: string;
  /** The percentage of applications or mixtures with this ratio or a smaller one. */
  share: number;
  ratio: number;
}

function dotsOf({ policies }: WorseOff, measure: Measure): Dot[] {
  return policies.flatMap(({ policy, cases }) => {
    const ratios = cases[measure].map(({ ratio }) => ratio).sort((a, b) => a - b);
    return ratios.map((ratio, i) => ({
      policy,
      share: (100 * (i + 1)) / ratios.length,
      ratio: Math.min(MOST, Math.max(LEAST, ratio)),
    }));
  });
}

function panel(result: WorseOff, measure: Measure): object {
  const { title, limit, better } = MEASURES[measure];
  const y = {
    field: 'ratio',
    type: 'quantitative',
    title: null,
    scale: { type: 'log', domain: [LEAST, MOST] },
    axis: { values: [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20], format: '~g', grid: true },
  };
  const x = {
    field: 'share',
    type: 'quantitative',
    title: null,
    scale: { domain: [0, 100] },
    axis: { values: [0, 25, 50, 75, 100], grid: false },
  };
  const color = {
    field: 'policy',
    type: 'nominal',
    title: null,
    sort: result.policies.map(({ policy }) => policy),
    scale: { scheme: 'tableau10' },
  };
  return {
    title: {
      text: title,
      subtitle: `${better} is better; dashed: 10 % worse than bare`,
      anchor: 'start',
      frame: 'group',
      offset: 8,
    },
    width: PANEL_WIDTH,
    height: PANEL_HEIGHT,
    layer: [
      { data: { values: [{ ratio: 1 }] }, mark: { type: 'rule', color: '#444' }, encoding: { y } },
      {
        data: { values: [{ ratio: limit }] },
        mark: { type: 'rule', strokeDash: [4, 3], color: '#c5432f' },
        encoding: { y },
      },
      {
        data: { values: dotsOf(result, measure) },
        mark: { type: 'line', interpolate: 'step', point: { size: 18 } },
        encoding: { x, y, color },
      },
    ],
  };
}

function spec(result: WorseOff): TopLevelSpec {
  const { mixtures, seed, policies } = result;
  return {
    background: 'white',
    padding: 14,
    description: `${mixtures.length} random mixtures relative to bare: ${policies.map(({ policy }) => policy).join(', ')}`,
    title: {
      text: `${mixtures.length} random mixtures of seed ${seed}, relative to bare`,
      subtitle:
        'Upwards: the ratio to bare. To the right: percent of the applications or mixtures, in ascending order.',
      fontSize: FONT + 3,
      anchor: 'start',
      offset: 16,
    },
    columns: PANELS_A_LINE,
    concat: MEASURE_NAMES.map((measure) => panel(result, measure)),
    spacing: 24,
    config: {
      font: 'Helvetica, Arial, sans-serif',
      axis: { labelFontSize: FONT - 3 },
      title: { fontSize: FONT, subtitleFontSize: FONT - 3, subtitleColor: '#555' },
      legend: { orient: 'bottom', labelFontSize: FONT - 2, columns: 4, labelLimit: 300 },
      view: { stroke: null },
    },
  } as unknown as TopLevelSpec;
}

/** SVG text. @throws UnsupportedError when vega is not installed */
export function worseOffSvg(result: WorseOff): Promise<string> {
  return drawSvg(spec(result), 'any');
}
