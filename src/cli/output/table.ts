/** Tables without lines that fit the terminal; 80 columns for output that is not a terminal. */
import Table from 'cli-table3';

const GAP = '  ';
const MIN_LAST_WIDTH = 20;

export interface Columns {
  head: readonly string[];
  indent?: string;
}

/** Wraps the last column so that lines have at most `width` characters. */
export function tableText(
  rows: readonly (readonly string[])[],
  columns: Columns,
  width = outWidth(),
): string {
  const { head, indent = '' } = columns;
  const widths = head.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i].length)));
  const before = widths.slice(0, -1).reduce((sum, one) => sum + one + GAP.length, indent.length);
  widths[widths.length - 1] = Math.max(MIN_LAST_WIDTH, width - before);
  const table = new Table({
    head: [...head],
    colWidths: widths,
    wordWrap: true,
    chars: NO_LINES,
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': 0 },
  });
  table.push(...rows.map((row) => [...row]));
  return table
    .toString()
    .split('\n')
    .map((line) => `${indent}${line}`.trimEnd())
    .join('\n');
}

const NO_LINES = {
  ...Object.fromEntries(
    ['top', 'bottom', 'left', 'right'].flatMap((side) =>
      ['', '-mid', '-left', '-right'].map((end) => [`${side}${end}`, '']),
    ),
  ),
  mid: '',
  'mid-mid': '',
  'left-mid': '',
  'right-mid': '',
  middle: GAP,
};

/** Width of the terminal in columns. */
export function outWidth(): number {
  return process.stdout.columns || 80;
}
