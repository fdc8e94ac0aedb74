/** Tables without lines that fit the terminal; 80 columns for output that is not a terminal. */
import Table from 'cli-table3';
import { painted, type Style } from './style.ts';

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

/** Like `tableText`. If the columns do not fit into `width`, the last `notes` ones follow below each row. */
export function tableWithNotes(
  rows: readonly (readonly string[])[],
  head: readonly string[],
  notes: number,
  width = outWidth(),
): string {
  const whole = tableText(rows, { head }, width);
  if (widestLine(whole) <= width) return whole;
  const kept = head.length - notes;
  const short = rows.map((row) => row.slice(0, kept));
  const [first, ...lines] = tableText(short, { head: head.slice(0, kept) }, width).split('\n');
  const notesOf = (row: readonly string[]) =>
    head
      .map((name, i) => ({ name, text: i < kept ? '' : row[i] }))
      .filter(({ text }) => text !== '' && text !== '-')
      .map(({ name, text }) => `${name}: ${text}`)
      .join('; ');
  const below = (text: string) =>
    wrapped(text, width - 4)
      .replace(/^/gm, '    ')
      .slice(2);
  const noted = rows.map(notesOf).map((text, i) => (text === '' ? lines[i] : `${lines[i]}\n${below(text)}`));
  return [first, ...noted].join('\n');
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

/** A column of a table that folds. */
export interface FoldingColumn {
  readonly head: string;
  /** Columns of the same part stay together if there is room. */
  readonly part: number;
  readonly align?: 'left';
}

/** A cell: its text, and what it is. */
export type Cell = string | { readonly text: string; readonly style: Style };

const textOf = (cell: Cell) => (typeof cell === 'string' ? cell : cell.text);

/**
 * A table without lines whose numbers are right-aligned. If it is wider than `width`, its columns are folded into
 * several tables, one below the other, each with the first column of names.
 */
export function foldedTable(
  [names, ...columns]: readonly FoldingColumn[],
  rows: readonly (readonly Cell[])[],
  width = outWidth(),
): string {
  const widthOf = ({ head }: FoldingColumn, at: number) =>
    Math.max(head.length, ...rows.map((row) => textOf(row[at]).length));
  const all = columns.map((column, i) => ({ ...column, at: i + 1, width: widthOf(column, i + 1) }));
  const first = { ...names, align: 'left' as const, at: 0, width: widthOf(names, 0) };
  const room = width - first.width;
  const lines = (shown: typeof all) => {
    const pad = (text: string, one: (typeof all)[number]) =>
      one.align === 'left' ? text.padEnd(one.width) : text.padStart(one.width);
    const line = (cells: readonly Cell[]) =>
      [first, ...shown]
        .map((one) => ({ cell: cells[one.at], text: pad(textOf(cells[one.at]), one) }))
        .map(({ cell, text }) => (typeof cell === 'string' ? text : painted(cell.style, text)))
        .join(GAP)
        .trimEnd();
    const heads = [names, ...columns].map(({ head }): Cell => ({ text: head, style: 'head' }));
    return [line(heads), ...rows.map(line)].join('\n');
  };
  return packed(all, room).map(lines).join('\n\n');
}

interface Sized {
  readonly part: number;
  readonly width: number;
}

/** Divides columns into tables of this width: by part if they do not fit together, then wherever the room ends. */
function packed<C extends Sized>(columns: readonly C[], room: number): C[][] {
  const needed = (some: readonly C[]) => some.reduce((sum, one) => sum + GAP.length + one.width, 0);
  if (needed(columns) <= room) return [[...columns]];
  const tables: C[][] = [];
  for (const column of columns) {
    const last = tables.at(-1);
    const fits = last !== undefined && last[0].part === column.part && needed([...last, column]) <= room;
    if (fits) last.push(column);
    else tables.push([column]);
  }
  return tables;
}

/** Characters of the longest line. */
export const widestLine = (text: string) => Math.max(...text.split('\n').map((line) => line.length));

/** Width of the terminal in columns. */
export function outWidth(): number {
  return process.stdout.columns || 80;
}

/**
 * A table that fits the terminal if possible: policies are broken into one line for each option, and if that does not
 * suffice, before each value, too.
 * @param draw draws the table; it gets the function that returns the text of a policy
 */
export function withFittingPolicies(draw: (textOf: (policy: string) => string) => string): string {
  const width = outWidth();
  let table = '';
  for (const ends of [/$/, /[;:,]/g, /[;:,=]/g]) {
    table = draw((policy) => policy.replace(ends, '$&\n').trimEnd());
    if (widestLine(table) <= width) break;
  }
  return table;
}

/** The text in lines of at most `width` characters. A longer word is broken after its commas, colons and semicolons. */
export function wrapped(text: string, width: number): string {
  const lines = [''];
  const add = (word: string, gap: string) => {
    const last = lines[lines.length - 1];
    if (last === '') lines[lines.length - 1] = word;
    else if (last.length + gap.length + word.length <= width)
      lines[lines.length - 1] = `${last}${gap}${word}`;
    else lines.push(word);
  };
  for (const word of text.split(' ')) {
    if (word.length <= width) add(word, ' ');
    else for (const [i, part] of partsOf(word).entries()) add(part, i === 0 ? ' ' : '');
  }
  return lines.join('\n');
}

const partsOf = (word: string) => word.split(/(?<=[,:;])/);

/** The words of a command line for a POSIX shell, still quoted: the command, then each option with its values. */
function optionsOf(command: string): string[] {
  const options: string[] = [];
  for (const [word] of command.matchAll(/(?:'[^']*'|\\.|[^\s'\\])+/g)) {
    if (options.length === 0 || word.startsWith('--')) options.push(word);
    else options[options.length - 1] += ` ${word}`;
  }
  return options;
}

const NEXT_LINE = ' \\';

/**
 * A command line in lines of at most `width` characters, which a shell reads as the same command. It is broken at its
 * options, and an option that is longer than a line after its commas, with its rest at the start of the next line.
 * Quoted words stay whole.
 */
export function foldedCommand(command: string, indent: string, width = outWidth()): string {
  const lines: string[] = [];
  let line = '';
  const options = optionsOf(command);
  for (const [i, option] of options.entries()) {
    const room = i === options.length - 1 ? width : width - NEXT_LINE.length;
    if (line === '') line = `${indent}${option}`;
    else if (line.length + 1 + option.length <= room) line += ` ${option}`;
    else {
      lines.push(`${line}${NEXT_LINE}`);
      line = `${indent}  ${option}`;
    }
    while (line.length > room && !option.includes("'")) {
      const at = line.lastIndexOf(',', width - 2) + 1;
      if (at === 0) break;
      lines.push(`${line.slice(0, at)}\\`);
      line = line.slice(at);
    }
  }
  return [...lines, line].join('\n');
}
