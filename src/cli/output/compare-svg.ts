/** The picture of `isoverbs compare`: a panel for each application, a bar for each scheme. */
import type { TopLevelSpec } from 'vega-lite';
import type { ComparedApp, Comparison, Metric } from '../../compare/compare.ts';
import type { SchemeGroup } from '../../compare/schemes.ts';
import type { Kind } from '../../mix/spec.ts';
import { brief } from './compare-table.ts';
import { drawSvg } from './svg.ts';

/** The metric that matters most for each kind. Each text is shorter than a panel in any font. */
const WANTED: Readonly<Record<Kind, { metric: Metric; title: string; unit: string; better: string }>> = {
  B: { metric: 'throughputGbps', title: 'bandwidth', unit: 'Gbit/s', better: 'more is better' },
  M: { metric: 'messageRateMmps', title: 'messages', unit: 'million/s', better: 'more is better' },
  D: { metric: 'avgUs', title: 'latency', unit: 'us', better: 'less is better' },
};
const COLORS: Readonly<Record<SchemeGroup, string>> = {
  alone: '#9aa0a6',
  bare: '#c5432f',
  policy: '#2a6fb0',
  hardware: '#d99a2b',
};
const LEGEND: Readonly<Record<SchemeGroup, string>> = {
  alone: 'each alone',
  bare: 'together, bare',
  policy: 'a policy',
  hardware: "the NIC's scheduler",
};

/** Legible on a phone that scales 800 points down to 400. */
const FONT = 18;
const PANEL_WIDTH = 175;
const STEP = 30;
const PANELS_A_LINE = 3;
/** The share of the panel's width that the longest bar leaves for its number. */
const FOR_NUMBERS = 0.28;

/** A panel's entry for one scheme. An application that got nothing has a bar without length. */
interface Bar {
  scheme: string;
  group: string;
  value: number;
  p99: number;
  /** Position of the number. */
  end: number;
  label: string;
}

function barsOf({ rows }: Comparison, app: ComparedApp, at: number): Bar[] {
  const { metric } = WANTED[app.kind];
  return rows.map(({ name, group, apps }) => {
    const value = finite(apps[at][metric]);
    const p99 = app.kind === 'D' ? finite(apps[at].p99Us) : value;
    const label = apps[at][metric] === 0 ? 'nothing' : brief(apps[at][metric], 3);
    return { scheme: name, group: LEGEND[group], value, p99, end: Math.max(value, p99), label };
  });
}

function finite(value: number): number {
  return Number.isFinite(value) ? value : 0;
}

function panel(result: Comparison, app: ComparedApp, at: number): object {
  const { title, unit, better } = WANTED[app.kind];
  const values = barsOf(result, app, at);
  const [alone] = values;
  const most = Math.max(...values.map(({ end }) => end)) / (1 - FOR_NUMBERS);
  const scale = { domain: [0, most], nice: false };
  const over = (field: keyof Bar) => ({ field, type: 'quantitative', title: null, scale, axis: null });
  const isFirst = at % PANELS_A_LINE === 0;
  const y = {
    field: 'scheme',
    type: 'nominal',
    sort: values.map(({ scheme }) => scheme),
    title: null,
    axis: isFirst ? { ticks: false, domain: false, labelPadding: 8, labelLimit: 220 } : null,
    scale: { paddingInner: 0.25 },
  };
  const color = {
    field: 'group',
    type: 'nominal',
    title: null,
    scale: { domain: Object.values(LEGEND), range: Object.values(COLORS) },
  };
  const text = { y, x: over('end'), text: { field: 'label' } };
  const toP99 = [
    { mark: { type: 'rule', strokeWidth: 2 }, encoding: { y, x: over('value'), x2: { field: 'p99' } } },
    { mark: { type: 'tick', thickness: 2, size: 12, color: 'black' }, encoding: { y, x: over('p99') } },
  ];
  return {
    title: {
      text: `${app.name}: ${title}`,
      subtitle: [unit, better],
      anchor: 'start',
      frame: 'group',
      offset: 8,
    },
    width: PANEL_WIDTH,
    height: { step: STEP },
    data: { values },
    layer: [
      { mark: 'bar', encoding: { y, x: over('value'), color } },
      {
        data: { values: [alone] },
        mark: { type: 'rule', strokeDash: [4, 3], color: '#444' },
        encoding: { x: over('value') },
      },
      ...(app.kind === 'D' ? toP99 : []),
      // A white outline keeps the dashed line from crossing the numbers.
      { mark: { type: 'text', align: 'left', dx: 6, stroke: 'white', strokeWidth: 6 }, encoding: text },
      { mark: { type: 'text', align: 'left', dx: 6 }, encoding: text },
    ],
  };
}

/** An application by name, kind and keys. */
function described({ name, words }: ComparedApp): string {
  const [kind, rest = ''] = words.split(/:(.*)/s);
  const keys = rest.split(',').filter((key) => key !== '' && !key.startsWith('name='));
  return [name === kind ? `${name}:` : `${name}: ${kind}`, keys.join(', ')].join(' ').replace(/[: ]+$/, '');
}

function spec(result: Comparison): TopLevelSpec {
  const { apps, rows, mix } = result;
  const names = apps.map(({ name }) => name);
  const who = names.length === 1 ? names[0] : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
  const whisker = apps.some(({ kind }) => kind === 'D') ? ' Whisker: 99th percentile.' : '';
  return {
    background: 'white',
    padding: 14,
    description: `What ${who} get on one ${mix.profile}: ${rows.map(({ name }) => name).join(', ')}`,
    title: {
      text: `${who} on one simulated NIC (${mix.profile})`,
      subtitle: [`${apps.map(described).join('; ')}.`, `Dashed: alone.${whisker}`],
      fontSize: FONT + 3,
      anchor: 'start',
      offset: 16,
    },
    columns: PANELS_A_LINE,
    concat: apps.map((app, i) => panel(result, app, i)),
    spacing: 16,
    config: {
      font: 'Helvetica, Arial, sans-serif',
      axis: { labelFontSize: FONT - 1 },
      text: { fontSize: FONT - 2 },
      title: { fontSize: FONT - 1, subtitleFontSize: FONT - 3, subtitleColor: '#555' },
      legend: {
        orient: 'bottom',
        labelFontSize: FONT - 2,
        symbolType: 'square',
        columns: 4,
        labelLimit: 250,
      },
      view: { stroke: null },
    },
  } as unknown as TopLevelSpec;
}

/** SVG text. @throws UnsupportedError when vega is not installed */
export function compareSvg(result: Comparison): Promise<string> {
  return drawSvg(spec(result), 'any');
}
