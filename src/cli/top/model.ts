/**
 * The state of `isoverbs top` in a terminal, and how keys and samples change it. There is no clock, terminal or socket
 * here: view.ts draws a state, and the command does what `effect` asks for.
 */
import type { DeviceRow } from '../../daemon/protocol.ts';
import type { NicFacts } from '../../verbs/nic.ts';
import type { Key } from '../output/screen.ts';
import type { TenantSample } from '../watch-tenants.ts';
import {
  isIdle,
  ORDERS,
  type Order,
  ordered,
  type ProgramRate,
  programsOf,
  ratesOf,
  type TopRow,
} from './table.ts';
import { type ResourceUse, usesOf } from './uses.ts';

/** How far back the history of a tenant goes, by the daemon's clock. */
export const HISTORY_NS = 60e9;
/** Bounds the memory of samples that are taken quickly. */
const MAX_HISTORY = 1200;
const MAX_INPUT = 64;

/** A rate at a time of the daemon's clock. */
export interface Moment {
  readonly nowNs: number;
  readonly gbps: number;
}

/** A tenant with its processes, and what it uses. */
export interface TopTenant {
  readonly key: string;
  readonly row: TopRow;
  /** Whether it has sent nothing in the last interval, and nothing is held. */
  readonly isIdle: boolean;
  /** Empty for a simulated device, whose time is virtual, and where nothing is known of the NIC. */
  readonly uses: readonly ResourceUse[];
}

/** A line of the list: a tenant, or one of its processes. */
export interface Entry {
  readonly key: string;
  readonly tenant: TopTenant;
  readonly program: ProgramRate | null;
}

/** What is typed: into the filter, or as a weight of the tenant that was selected when typing began. */
export type Prompt =
  | { readonly kind: 'filter'; readonly text: string }
  | { readonly kind: 'weight'; readonly tenant: string; readonly text: string };

export interface TopState {
  readonly socket: string;
  /** Why there is no daemon, or '' */
  readonly missing: string;
  readonly sample: TenantSample | null;
  readonly devices: readonly DeviceRow[];
  readonly tenants: readonly TopTenant[];
  /** The rates of the last minute: of tenants, and of devices by name. */
  readonly history: ReadonlyMap<string, readonly Moment[]>;
  /** Command lines by PID, as far as this user may read them. */
  readonly commands: ReadonlyMap<number, string>;
  readonly order: Order;
  /** Only tenants whose name, device or class contains this are listed. */
  readonly filter: string;
  /** The key of a line; null: the first one. */
  readonly selected: string | null;
  /** Tenants whose processes are listed. */
  readonly unfolded: ReadonlySet<string>;
  readonly hasHelp: boolean;
  readonly prompt: Prompt | null;
  /** What came of the last change; '' for nothing. */
  readonly notice: string;
}

export type TopEvent =
  | { readonly type: 'sampled'; readonly sample: TenantSample }
  | { readonly type: 'disconnected'; readonly reason: string }
  | { readonly type: 'command'; readonly pid: number; readonly command: string }
  | { readonly type: 'notice'; readonly text: string }
  | { readonly type: 'key'; readonly key: Key };

/** What the command must do after an event. */
export type Effect =
  | { readonly type: 'quit' }
  | { readonly type: 'set weight'; readonly tenant: string; readonly weight: number };

export interface Step {
  readonly state: TopState;
  readonly effect?: Effect;
}

/** The state before anything is known. */
export function initialState(socket: string, order: Order): TopState {
  return {
    ...{ socket, order, missing: '', sample: null, devices: [], tenants: [], filter: '', selected: null },
    ...{ history: new Map(), commands: new Map(), unfolded: new Set() },
    ...{ hasHelp: false, prompt: null, notice: '' },
  };
}

/** The state after an event, and what is to be done. */
export function reduce(state: TopState, event: TopEvent): Step {
  switch (event.type) {
    case 'sampled':
      return { state: withSample(state, event.sample) };
    case 'disconnected':
      return { state: { ...state, missing: event.reason, sample: null, tenants: [], devices: [] } };
    case 'command':
      return { state: { ...state, commands: new Map(state.commands).set(event.pid, event.command) } };
    case 'notice':
      return { state: { ...state, notice: event.text } };
    case 'key':
      return state.prompt === null ? keyed(state, event.key) : prompted(state, state.prompt, event.key);
  }
}

function withSample(state: TopState, sample: TenantSample): TopState {
  const { devices = [] } = sample;
  const tenants = ratesOf(state.sample, sample).map((row) => tenantOf(row, devices));
  const history = new Map<string, readonly Moment[]>();
  const add = (key: string, gbps: number) => {
    const all = [...(history.get(key) ?? state.history.get(key) ?? []), { nowNs: sample.nowNs, gbps }];
    const recent = all.filter(({ nowNs }) => nowNs <= sample.nowNs && sample.nowNs - nowNs <= HISTORY_NS);
    history.set(key, recent.slice(-MAX_HISTORY));
  };
  const ofDevice = new Map<string, number>();
  for (const { key, row } of tenants) {
    if (row.sentGbps === null) continue;
    add(key, row.sentGbps);
    ofDevice.set(row.device, (ofDevice.get(row.device) ?? 0) + row.sentGbps);
  }
  for (const { device } of devices) add(device, ofDevice.get(device) ?? 0);
  return { ...state, sample, devices, tenants, history, missing: '' };
}

function tenantOf(row: TopRow, devices: readonly DeviceRow[]): TopTenant {
  const { device, tenant, requestsPerS, sentGbps } = row;
  const about = devices.find((one) => one.device === device);
  const isKnown = about?.nic != null && !about.isVirtualTime;
  const bytesPerS = (sentGbps ?? 0) * (1e9 / 8);
  return {
    key: `${device}\0${tenant}`,
    row,
    isIdle: isIdle(row),
    uses: isKnown ? usesOf(about.nic as unknown as NicFacts, requestsPerS ?? 0, bytesPerS) : [],
  };
}

/** The lines of the list, in order. */
export function entriesOf({ tenants, order, filter, unfolded }: TopState): Entry[] {
  const wanted = filter.toLowerCase();
  const byRow = new Map(tenants.map((one) => [one.row, one]));
  return ordered([...byRow.keys()], order).flatMap((row) => {
    const { device, tenant: name, class: kind } = row;
    if (![device, name, kind].some((text) => text.toLowerCase().includes(wanted))) return [];
    const tenant = byRow.get(row)!;
    const programs = unfolded.has(tenant.key) ? programsOf(row) : [];
    return [
      { key: tenant.key, tenant, program: null },
      ...programs.map((program) => ({ key: `${tenant.key}\0${program.pid}`, tenant, program })),
    ];
  });
}

/** The selected line: the first one until another is selected, or if that is no longer listed; null: there is none. */
export function selectedOf(state: TopState): Entry | null {
  const entries = entriesOf(state);
  return entries.find(({ key }) => key === state.selected) ?? entries[0] ?? null;
}

const ORDER_OF_KEY: Readonly<Record<string, Order>> = {
  b: 'bandwidth',
  r: 'rate',
  l: 'latency',
  t: 'tenant',
};
/** By how many lines a key moves the selection. */
const MOVES: Readonly<Record<string, number>> = {
  ...{ up: -1, k: -1, down: 1, j: 1, pageup: -10, pagedown: 10 },
  ...{ home: Number.NEGATIVE_INFINITY, end: Number.POSITIVE_INFINITY },
};

function keyed(state: TopState, { name, text }: Key): Step {
  if (name === 'q') return { state, effect: { type: 'quit' } };
  if (state.hasHelp) return { state: { ...state, hasHelp: false } };
  if (text === '?' || name === 'f1') return { state: { ...state, hasHelp: true } };
  const now = { ...state, notice: '' };
  if (Object.hasOwn(MOVES, name)) return { state: moved(now, MOVES[name]) };
  if (Object.hasOwn(ORDER_OF_KEY, name)) return { state: { ...now, order: ORDER_OF_KEY[name] } };
  switch (text || name) {
    case 's':
      return { state: { ...now, order: ORDERS[(ORDERS.indexOf(state.order) + 1) % ORDERS.length] } };
    case ' ':
    case '\r':
    case 'return':
    case 'enter':
      return { state: folded(now) };
    case 'a':
      return { state: allFolded(now) };
    case '/':
      return { state: { ...now, prompt: { kind: 'filter', text: state.filter } } };
    case 'escape':
      return { state: { ...now, filter: '' } };
    case 'w':
      return { state: withWeightPrompt(now) };
    case '+':
      return stepWeight(now, 1);
    case '-':
      return stepWeight(now, -1);
  }
  return { state: now };
}

function moved(state: TopState, by: number): TopState {
  const entries = entriesOf(state);
  if (entries.length === 0) return state;
  const at = Math.max(
    0,
    entries.findIndex(({ key }) => key === state.selected),
  );
  const to = Math.max(0, Math.min(entries.length - 1, at + by));
  return { ...state, selected: entries[to].key };
}

/** Lists or hides the processes of the selected tenant. */
function folded(state: TopState): TopState {
  const key = selectedOf(state)?.tenant.key;
  if (key === undefined) return state;
  const unfolded = new Set(state.unfolded);
  if (!unfolded.delete(key)) unfolded.add(key);
  return { ...state, unfolded, selected: key };
}

function allFolded(state: TopState): TopState {
  const keys = state.tenants.map(({ key }) => key);
  const isAny = keys.some((key) => state.unfolded.has(key));
  const selected = selectedOf(state)?.tenant.key ?? null;
  return { ...state, unfolded: new Set(isAny ? [] : keys), selected };
}

/** Rows re-sort with each sample, so the tenant of a change is the one selected at the first key. */
function withWeightPrompt(state: TopState): TopState {
  const entry = selectedOf(state);
  if (entry === null) return state;
  const { tenant, weight } = entry.tenant.row;
  return { ...state, selected: entry.key, prompt: { kind: 'weight', tenant, text: `${weight}` } };
}

/** Weights of at least 1 change by 1, smaller ones by a factor of 2. The next such key changes the same tenant. */
function stepWeight(state: TopState, by: 1 | -1): Step {
  const entry = selectedOf(state);
  if (entry === null) return { state };
  const { tenant, weight } = entry.tenant.row;
  const isSmall = by === 1 ? weight < 1 : weight <= 1;
  return setWeight({ ...state, selected: entry.key }, tenant, isSmall ? weight * 2 ** by : weight + by);
}

function setWeight(state: TopState, tenant: string, weight: number): Step {
  return { state, effect: { type: 'set weight', tenant, weight } };
}

function prompted(state: TopState, prompt: Prompt, { name, text }: Key): Step {
  const isFilter = prompt.kind === 'filter';
  if (name === 'escape') return { state: { ...state, prompt: null, ...(isFilter && { filter: '' }) } };
  if (name === 'return' || name === 'enter') {
    const done = { ...state, prompt: null };
    return isFilter ? { state: done } : enteredWeight(done, prompt.tenant, prompt.text);
  }
  const typed = name === 'backspace' ? [...prompt.text].slice(0, -1).join('') : prompt.text + text;
  const next = { ...prompt, text: typed.slice(0, MAX_INPUT) };
  const changed = { ...state, prompt: next, ...(isFilter && { filter: next.text }) };
  return { state: changed };
}

function enteredWeight(state: TopState, tenant: string, text: string): Step {
  const weight = Number(text);
  const notice = (what: string): Step => ({ state: { ...state, notice: what } });
  if (!(weight >= 1e-6 && weight <= 1e6))
    return notice(`a weight is a number from 1e-6 to 1e6, not '${text}'`);
  if (state.tenants.some(({ row }) => row.tenant === tenant)) return setWeight(state, tenant, weight);
  if (state.missing !== '') return notice(`the daemon does not answer; the weight of ${tenant} is unchanged`);
  return notice(`${tenant} is no longer present; its weight is unchanged`);
}
