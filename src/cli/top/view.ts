/** Draws a state of `isoverbs top` as lines: the same state and size always give the same lines. */
import type { DeviceRow } from '../../daemon/protocol.ts';
import type { Line, Span } from '../output/screen.ts';
import type { Style } from '../output/style.ts';
import { wrapped } from '../output/table.ts';
import { whyIneffective } from '../weight-effect.ts';
import { type Entry, entriesOf, HISTORY_NS, type Moment, selectedOf, type TopState } from './model.ts';
import { classOf, latencyOf, limitsOf, type ProgramRate, short, type TopRow } from './table.ts';
import { dominantOf, type ResourceUse, sumOf } from './uses.ts';

/** The size of a terminal, in characters. */
export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** The devices of which the header shows more than the name. */
const MAX_HEADER_DEVICES = 2;
const DETAIL_LINES = 4;
const MIN_BAR = 16;
const MAX_BAR = 40;
/** Leaves room for the typed weight behind the name. */
const MAX_PROMPT_NAME = 32;
const SPARKS = '▁▂▃▄▅▆▇█';
const EMPTY_LINE: Line = [];

const span = (text: string, style?: Style): Span => ({ text, style });

/** The text of lines, without colours. */
export function textOf(lines: readonly Line[]): string[] {
  return lines.map((line) =>
    line
      .map(({ text }) => text)
      .join('')
      .trimEnd(),
  );
}

/** The lines of a screen of this size. */
export function view(state: TopState, size: Size): Line[] {
  if (state.hasHelp) return helpLines(size);
  const header = [titleLine(state, size), ...deviceLines(state, size)];
  const detail = detailLines(state, size);
  const room = Math.max(1, size.rows - header.length - detail.length - 2);
  const list = listLines(state, size, room);
  const gap = Array<Line>(Math.max(0, room - list.length + 1)).fill(EMPTY_LINE);
  return [...header, ...list, ...gap, ...detail, footerLine(state)].slice(0, size.rows);
}

const counted = (count: number, noun: string, plural = `${noun}s`) =>
  `${count} ${count === 1 ? noun : plural}`;

function titleLine({ sample, tenants, missing, socket, order, filter }: TopState, { columns }: Size): Line {
  const name = span('isoverbs top', 'head');
  if (missing !== '') return [name, span(`  ${missing}: waiting for a daemon`, 'bad')];
  if (sample === null) return [name, span(`  asking ${socket}`)];
  const processes = tenants.reduce((sum, { row }) => sum + row.processes, 0);
  const policy = sample.policy ? `policy ${sample.policy}` : 'no default policy';
  const left = `  ${policy}  ${counted(tenants.length, 'tenant')}  ${counted(processes, 'process', 'processes')}`;
  const right = `${filter === '' ? '' : `filter ${filter}  `}by ${order}`;
  const gap = Math.max(2, columns - 'isoverbs top'.length - left.length - right.length);
  return [name, span(left), span(' '.repeat(gap)), span(right, 'dim')];
}

/** The part of 1 as a bar. The text lies in it on the right. */
function bar(part: number, text: string, width: number): Span[] {
  const inside = width - 2;
  const full = Math.round(Math.max(0, Math.min(1, part)) * inside);
  const shown = `${'|'
    .repeat(full)
    .padEnd(inside - text.length)
    .slice(0, inside - text.length)}${text}`;
  const style = part >= 0.9 ? 'bad' : part >= 0.7 ? 'warn' : 'good';
  return [span('['), span(shown, style), span(']')];
}

const percent = (part: number) => `${(100 * part).toFixed(1)} %`;

function deviceLines(state: TopState, size: Size): Line[] {
  const { devices } = state;
  const width = Math.max(0, ...devices.map(({ device }) => device.length));
  // The busiest ones, in their usual order.
  const busy = devices
    .toSorted((a, b) => sentGbps(state, b) - sentGbps(state, a))
    .slice(0, MAX_HEADER_DEVICES);
  const lines = devices
    .filter((device) => busy.includes(device))
    .flatMap((device) => [deviceLine(state, device, width, size), sparkLine(state, device, width, size)]);
  const more = devices.filter((device) => !busy.includes(device)).map(({ device }) => device);
  return more.length === 0
    ? lines
    : [...lines, [span(`also: ${more.join(' ')}`.slice(0, size.columns), 'dim')]];
}

/** What the tenants of a device send. */
const sentGbps = ({ tenants }: TopState, { device }: DeviceRow) =>
  tenants.reduce((sum, { row }) => sum + (row.device === device ? (row.sentGbps ?? 0) : 0), 0);

function deviceLine(state: TopState, about: DeviceRow, width: number, { columns }: Size): Line {
  const { device, linkGbps, isVirtualTime } = about;
  const name = span(device.padEnd(width), 'head');
  const rate = linkGbps > 0 ? `${linkGbps} Gbit/s` : 'link rate unknown';
  const own = state.tenants.filter(({ row }) => row.device === device);
  const gbps = sentGbps(state, about);
  if (isVirtualTime) {
    return [
      name,
      span(`  ${rate}  `),
      span('virtual time', 'warn'),
      span(`  sent ${gbps.toFixed(2)} Gbit/s of real time`),
    ];
  }
  // The other bar is for what limits tenants before the link does.
  const others = sumOf(own.map(({ uses }) => uses)).filter(({ resource }) => !resource.startsWith('link'));
  const most = dominantOf(others);
  const label = most === null ? '' : `  ${most.resource} `;
  const left = columns - width - rate.length - 3 - label.length;
  const wide = Math.max(MIN_BAR, Math.min(MAX_BAR, Math.floor(left / (most === null ? 1 : 2))));
  const link: readonly Span[] =
    linkGbps > 0
      ? bar(gbps / linkGbps, `${gbps.toFixed(1)} Gbit/s`, wide)
      : [span(`${gbps.toFixed(2)} Gbit/s`)];
  const use = most === null ? [] : [span(label), ...bar(most.part, percent(most.part), wide)];
  return [name, span(`  ${rate} `), ...link, ...use];
}

/** The last minute in this many characters, the newest on the right; a space where nothing is known. */
export function sparkline(moments: readonly Moment[], width: number, most?: number): string {
  const endNs = moments.at(-1)?.nowNs ?? 0;
  const cells = Array<number | null>(width).fill(null);
  for (const { nowNs, gbps } of moments) {
    const cell = width - 1 - Math.floor(((endNs - nowNs) / HISTORY_NS) * width);
    if (cell >= 0) cells[cell] = Math.max(cells[cell] ?? 0, gbps);
  }
  const top = Math.max(most ?? 0, ...cells.map((value) => value ?? 0));
  return cells
    .map((value, at) => {
      // Between two samples, the earlier one holds.
      const known = value ?? cells.slice(0, at).findLast((one) => one !== null) ?? null;
      if (known === null) return ' ';
      return SPARKS[top === 0 ? 0 : Math.min(SPARKS.length - 1, Math.floor((known / top) * SPARKS.length))];
    })
    .join('');
}

function sparkLine(
  { history }: TopState,
  { device, linkGbps, isVirtualTime }: DeviceRow,
  width: number,
  { columns }: Size,
): Line {
  const moments = history.get(device) ?? [];
  const most = Math.max(0, ...moments.map(({ gbps }) => gbps));
  const lead = `${''.padEnd(width)}  last minute `;
  const end = ` most ${most.toFixed(2)}`;
  const sparks = sparkline(
    moments,
    Math.max(10, Math.min(60, columns - lead.length - end.length)),
    isVirtualTime ? 0 : linkGbps,
  );
  return [span(lead, 'dim'), span(sparks, 'bar'), span(end, 'dim')];
}

interface Column {
  readonly head: string;
  readonly width: number;
  readonly isLeft?: boolean;
  /** The least width of the terminal that has room for it. */
  readonly from?: number;
  readonly tenant: (row: TopRow, entry: Entry, state: TopState) => string;
  readonly program?: (program: ProgramRate) => string;
}

const rateText = (value: number | null) => (value === null || value === 0 ? '-' : value.toFixed(2));
const countText = (value: number | null) => (value === null || value === 0 ? '-' : short(value));
const usText = (ns: number) => (ns === 0 ? '-' : (ns / 1e3).toFixed(1));
const useText = (use: ResourceUse | null) =>
  use === null ? '-' : `${use.resource} ${(100 * use.part).toFixed(0)} %`;

const COLUMNS: readonly Column[] = [
  { head: 'DEVICE', width: 8, isLeft: true, from: 100, tenant: (row) => row.device },
  { head: 'CLASS', width: 9, isLeft: true, tenant: classOf },
  {
    head: 'GBIT/S',
    width: 7,
    tenant: (row) => rateText(row.sentGbps),
    program: (one) => rateText(one.sentGbps),
  },
  {
    head: 'REQ/S',
    width: 7,
    tenant: (row) => countText(row.requestsPerS),
    program: (one) => countText(one.requestsPerS),
  },
  { head: 'MAY', width: 7, tenant: (row) => rateText(row.rateGbps) },
  {
    head: 'WEIGHT',
    width: 6,
    tenant: (row) => (row.gbps === null ? `${Number(row.weight.toPrecision(4))}` : 'own'),
  },
  {
    head: 'HELD',
    width: 6,
    tenant: (row) => countText(row.heldRequests),
    program: (one) => countText(one.heldRequests),
  },
  { head: 'US', width: 7, tenant: (row) => usText(latencyOf(row)), program: (one) => usText(latencyOf(one)) },
  { head: 'QPS', width: 5, tenant: (row) => `${row.qps}`, program: (one) => `${one.qps}` },
  {
    head: 'MOST USED',
    width: 20,
    isLeft: true,
    from: 120,
    tenant: (_, entry) => useText(dominantOf(entry.tenant.uses)),
  },
];

const cut = (text: string, width: number) => {
  const letters = [...text];
  return letters.length <= width ? text : `${letters.slice(0, Math.max(0, width - 1)).join('')}…`;
};
const cell = (text: string, { width, isLeft = false }: Pick<Column, 'width' | 'isLeft'>) =>
  isLeft ? cut(text, width).padEnd(width) : cut(text, width).padStart(width);

function listLines(state: TopState, { columns }: Size, room: number): Line[] {
  const shown = COLUMNS.filter(({ from = 0 }) => columns >= from);
  const nameWidth = Math.max(8, columns - shown.reduce((sum, { width }) => sum + 1 + width, 0));
  const first = { width: nameWidth, isLeft: true };
  const head = [cell('TENANT', first), ...shown.map((column) => cell(column.head, column))].join(' ');
  const entries = entriesOf(state);
  if (entries.length === 0) {
    const isHidden = state.tenants.length > 0;
    const none = isHidden ? `no tenant matches '${state.filter}'; Esc clears the filter` : 'no tenants';
    return [[span(head, 'selected')], [span(state.sample === null ? '' : none, 'dim')]];
  }
  const selected = selectedOf(state)?.key;
  const at = entries.findIndex(({ key }) => key === selected);
  const from = Math.max(0, Math.min(at - Math.floor(room / 2), entries.length - room));
  const lines = entries.slice(from, from + room).map((entry): Line => {
    const { tenant, program } = entry;
    const cells = shown.map((column) =>
      cell(
        program === null ? column.tenant(tenant.row, entry, state) : (column.program?.(program) ?? ''),
        column,
      ),
    );
    const text = [cell(nameOf(entry, state), first), ...cells].join(' ');
    const style = entry.key === selected ? 'selected' : tenant.isIdle || program !== null ? 'dim' : undefined;
    return [span(text, style)];
  });
  return [[span(head, 'head')], ...lines];
}

function nameOf({ tenant, program }: Entry, { unfolded, commands }: TopState): string {
  const { row, key } = tenant;
  if (program === null) return `${unfolded.has(key) ? '-' : '+'} ${row.tenant}`;
  const { pid } = program;
  return pid === 0 ? '  └ unknown process' : `  └ ${pid} ${commands.get(pid) ?? ''}`;
}

/** What does not fit into the line of the selected tenant. */
function detailLines(state: TopState, { columns, rows }: Size): Line[] {
  const entry = selectedOf(state);
  if (entry === null || rows < 16) return [];
  const { row, uses, key } = entry.tenant;
  const { program } = entry;
  const most = dominantOf(uses);
  const command = program === null ? '' : `  ${program.pid} ${state.commands.get(program.pid) ?? ''}`;
  const kind = row.split ? `${classOf(row)}, isolated` : classOf(row);
  const sparks = sparkline(state.history.get(key) ?? [], Math.min(60, columns - 14));
  const uses1 = most === null ? '' : `   most used: ${useText(most)}`;
  const hidden = row.morePrograms === undefined ? '' : ` (${row.morePrograms} not listed)`;
  const lines: Line[] = [
    [
      span(cut(`${row.tenant} at ${row.device}${command}`, columns), 'head'),
      span(`  ${kind}, ${counted(row.processes, 'process', 'processes')}${hidden}`, 'dim'),
    ],
    [span('last minute  ', 'dim'), span(sparks, 'bar')],
    [span('limits       ', 'dim'), span(cut(`${limitsOf(row)}${uses1}`, columns - 13))],
    [span('why          ', 'dim'), span(cut(row.why || '-', columns - 13))],
  ];
  return lines.slice(0, DETAIL_LINES);
}

function footerLine(state: TopState): Line {
  const { prompt, notice, sample } = state;
  if (prompt !== null) {
    const isWeight = prompt.kind === 'weight';
    const what = isWeight ? `weight of ${cut(prompt.tenant, MAX_PROMPT_NAME)}` : 'filter';
    const ineffective = isWeight && sample !== null ? whyIneffective(prompt.tenant, sample) : null;
    const problem = ineffective === null ? '' : `  no effect: ${ineffective.reason}`;
    return [
      span(`${what}: ${prompt.text}`, 'head'),
      span('_'),
      span('  Enter applies, Esc cancels', 'dim'),
      span(problem, 'warn'),
    ];
  }
  if (notice !== '') return [span(notice, 'warn')];
  if (sample === null) return [span('? help   q quit', 'dim')];
  return [span('? help  / filter  s sort  space processes  w weight  + - weight  q quit', 'dim')];
}

const HELP: readonly (readonly [keys: string, what: string])[] = [
  ['up down k j', 'select a line; also PgUp, PgDn, Home, End'],
  ['space Enter', 'list or hide the processes of the tenant; a: of all tenants'],
  ['b r l t', 'sort by bandwidth, requests, latency or tenant; s: the next order'],
  ['/', 'list only tenants whose name, device or class contains a text; Esc: all'],
  ['w', 'set the weight of the selected tenant on all devices, until the daemon ends'],
  ['+ -', 'raise or lower that weight'],
  ['q Ctrl-C', 'quit'],
  ['', ''],
  ['GBIT/S REQ/S', 'message bytes and requests posted in the last interval'],
  ['MAY', 'share or fixed rate on the wire; not every policy enforces it'],
  ['WEIGHT', 'weight of the share; own: a fixed rate'],
  ['HELD', 'requests that the shims of the tenant hold now'],
  ['US', 'time from post to completion in microseconds, sampled'],
  ['MOST USED', 'the resource of the NIC of which the tenant uses most: an estimate'],
  ['virtual time', 'the device is simulated, and its use of the link has no meaning here'],
];

const HELP_INDENT = 14;

function helpLines({ columns, rows }: Size): Line[] {
  const lines = HELP.flatMap(([keys, what]): Line[] =>
    wrapped(what, columns - HELP_INDENT)
      .split('\n')
      .map((text, i) => [span((i === 0 ? keys : '').padEnd(HELP_INDENT), 'bar'), span(text)]),
  );
  return [
    [span('isoverbs top: keys and columns', 'head')],
    EMPTY_LINE,
    ...lines,
    EMPTY_LINE,
    [span('any key returns', 'dim')] as Line,
  ].slice(0, rows);
}
