/** The picture of `isoverbs isolation`: a heat map for each scheme, with a cell for each attacker and victim. */
import type { TopLevelSpec } from 'vega-lite';
import type { Isolation, SchemeMeetings } from '../../compare/isolation/matrix.ts';
import { drawSvg } from './svg.ts';

const FONT = 12;
const CELL = 14;
const PANELS_A_LINE = 3;

interface Cell {
  attacker: string;
  victim: string;
  /** The part of what it is due that the victim gets, at most 1. */
  ofDue: number;
  mark: string;
}

function cellsOf({ meetings }: SchemeMeetings): Cell[] {
  return meetings.map(({ attacker, victim, gotGbps, dueGbps, isViolation }) => ({
    attacker,
    victim,
    ofDue: Number(Math.min(1, gotGbps / dueGbps).toFixed(2)),
    mark: isViolation ? '×' : '',
  }));
}

function panel(scheme: SchemeMeetings, attackers: readonly string[], victims: readonly string[]): object {
  const x = { field: 'victim', type: 'nominal', sort: victims, title: null, axis: { labelAngle: -90 } };
  const y = { field: 'attacker', type: 'nominal', sort: attackers, title: null };
  const color = {
    field: 'ofDue',
    type: 'quantitative',
    title: 'of due',
    // Told apart in grey, too.
    scale: { scheme: 'viridis', domain: [0, 1] },
  };
  const violated = scheme.meetings.filter(({ isViolation }) => isViolation).length;
  return {
    title: {
      text: scheme.scheme,
      subtitle: `${violated} of ${scheme.meetings.length} violated (×)`,
      anchor: 'start',
      frame: 'group',
      offset: 8,
    },
    width: { step: CELL },
    height: { step: CELL },
    data: { values: cellsOf(scheme) },
    layer: [
      { mark: 'rect', encoding: { x, y, color } },
      {
        transform: [{ filter: "datum.mark !== ''" }],
        mark: { type: 'text', fontSize: FONT, fontWeight: 'bold' },
        encoding: {
          ...{ x, y },
          text: { field: 'mark' },
          color: { condition: { test: 'datum.ofDue > 0.6', value: 'black' }, value: 'white' },
        },
      },
    ],
  };
}

function spec({ schemes, pairings, fixed, seed }: Isolation): TopLevelSpec {
  const attackers = [...new Set(pairings.map(({ attacker }) => attacker))];
  const victims = [...new Set(pairings.map(({ victim }) => victim))];
  return {
    background: 'white',
    padding: 14,
    description: `What ${victims.length} victims get next to ${attackers.length} attackers: ${schemes.map(({ scheme }) => scheme).join(', ')}`,
    title: {
      text: `What victims get next to attackers, of what they are due: ${fixed.profile}, seed ${seed}`,
      anchor: 'start',
      fontSize: FONT + 4,
      offset: 16,
    },
    columns: PANELS_A_LINE,
    concat: schemes.map((scheme) => panel(scheme, attackers, victims)),
    spacing: 24,
    config: {
      font: 'Helvetica, Arial, sans-serif',
      axis: { labelFontSize: FONT - 2, labelLimit: 200 },
      title: { fontSize: FONT + 1, subtitleFontSize: FONT, subtitleColor: '#555' },
      view: { stroke: null },
    },
  } as unknown as TopLevelSpec;
}

/** SVG text. @throws UnsupportedError when vega is not installed */
export function isolationSvg(result: Isolation): Promise<string> {
  return drawSvg(spec(result), 'any');
}
