/**
 * docs/simulation.md lists every parameter once, with the values of all profiles and their sources.
 * ISOVERBS_RECORD=1 rewrites the values.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { override } from '../../src/sim/profile/overrides.ts';
import { MINIMAL_NIC, PROFILES } from '../../src/sim/profile/profiles.ts';
import { ConfigError } from '../../src/verbs/errors.ts';

const FILE = new URL('../../docs/simulation.md', import.meta.url);
const ROW = /^\| `(\w+)` \|/;
/** Cells before those of the profiles: name, unit, meaning. */
const FIRST = 3;
const STATUS = /^(published|set|calibrated)\b/;

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  if (value === Number.POSITIVE_INFINITY) return '∞';
  if (typeof value !== 'number') return String(value);
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}

const cellsOf = (line: string) =>
  line
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim());

/** The lines of the page with the current values of the profiles. */
function recorded(lines: string[]): string[] {
  let columns: string[] = [];
  return lines.map((line) => {
    if (line.startsWith('| parameter |')) columns = cellsOf(line);
    const name = ROW.exec(line)?.[1];
    if (name === undefined || !Object.hasOwn(MINIMAL_NIC, name)) return line;
    const cells = cellsOf(line).map((cell, i) => {
      const profile = PROFILES[columns[i]] as Record<string, unknown> | undefined;
      return profile === undefined ? cell : shown(profile[name]);
    });
    return `| ${cells.join(' | ')} |`;
  });
}

test('docs/simulation.md has the values of the profiles', () => {
  const lines = readFileSync(FILE, 'utf8').split('\n');
  if (process.env.ISOVERBS_RECORD === '1') writeFileSync(FILE, recorded(lines).join('\n'));
  expect(readFileSync(FILE, 'utf8').split('\n')).toEqual(recorded(lines));
});

test('docs/simulation.md has every parameter once, with a unit, a meaning and a source', () => {
  const rows = readFileSync(FILE, 'utf8')
    .split('\n')
    .filter((line) => ROW.test(line))
    .map(cellsOf);
  const parameters = rows.filter((cells) => cells.length > 4);
  expect(parameters.map(([name]) => name.slice(1, -1)).sort()).toEqual(Object.keys(MINIMAL_NIC).sort());
  const headers = readFileSync(FILE, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| parameter |'));
  expect(headers.length).toBeGreaterThan(0);
  for (const header of headers)
    expect(cellsOf(header).slice(FIRST, -1).sort()).toEqual(Object.keys(PROFILES).sort());
  for (const cells of parameters) {
    expect(cells[1].length, `unit of ${cells[0]}`).toBeGreaterThan(0);
    expect(cells[2].length, `meaning of ${cells[0]}`).toBeGreaterThan(0);
    expect(cells.at(-1), `source of ${cells[0]}`).toMatch(STATUS);
  }
});

test('every profile passes the checks for user-defined profiles', () => {
  for (const [name, params] of Object.entries(PROFILES)) {
    expect(override(MINIMAL_NIC, { ...params }), name).toEqual(params);
    expect(Object.isFrozen(params), name).toBe(true);
  }
  expect(() => override(MINIMAL_NIC, { linkGbps: 0 })).toThrow(ConfigError);
});

test('counts must be integers and packet sizes 32-bit, because other values would hang a run', () => {
  const bad = {
    processingUnits: [0.5, 1e300, 2 ** 31],
    dmaReads: [1.5, 1e300],
    wqeFetchBatch: [1e-9],
    qpcEntries: [2.5],
    pageBytes: [1e-9],
    egressFifoBytes: [Number.POSITIVE_INFINITY, 1e300, 0.5],
    headerBytes: [0, 1e-9, 2 ** 31],
    rethBytes: [2 ** 31],
  };
  for (const [name, values] of Object.entries(bad))
    for (const value of values)
      expect(() => override(MINIMAL_NIC, { [name]: value }), `${name}=${value}`).toThrow(ConfigError);
  expect(override(MINIMAL_NIC, { dmaReads: Number.POSITIVE_INFINITY, qpcEntries: 20 }).qpcEntries).toBe(20);
});
