/**
 * Measures a policy across processes: a bandwidth application (file-transfer.mjs) and a delay application (kv-store.mjs),
 * each a separate process: alone, together, and together under `isoverbs run` with the policy and one daemon. Conditions
 * alternate, because a machine's speed changes from minute to minute.
 *   node bench/processes/pair.js [--policy fair] [--json]
 * RXE_DEV, RXE_DEV2: the devices. ISOVERBS_ROUNDS: rounds (3). ISOVERBS_SECONDS: of each measurement (8).
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import Table from 'cli-table3';
import type { TenantRow } from '#src/daemon/protocol.ts';
import { p50 } from '../timing.ts';
import { pollUntil, type RunOptions } from './programs.ts';
import { gbpsOf, TestBed } from './test-bed.ts';

/** The policy; perf also reports the classes of both, and when it released the transfer. */
const { values } = parseArgs({
  options: { policy: { type: 'string', default: 'perf' }, json: { type: 'boolean' } },
});
const { policy: POLICY, json: AS_JSON = false } = values;
const CLASSIFIES = POLICY === 'perf';
const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 3);
const SECONDS = Number(process.env.ISOVERBS_SECONDS ?? 8);
/** Longer than any run, because the transfer is killed when the store has finished. */
const LONG_SECONDS = 3600;
/** Time from when the daemon has classified both until their state is read. */
const SETTLED_MS = 500;
const STARTED_MS = 180_000;

interface Store {
  readonly p50Us: number;
  readonly p99Us: number;
  readonly getsPerS: number;
}

/** The result of one round under one condition. */
interface Measured extends Partial<Store> {
  readonly condition: string;
  readonly gbps?: number;
  /** The daemon's state of both while both ran. */
  readonly bulk?: TenantState;
  readonly store?: TenantState;
  /** Time from the end of the store until the transfer was no longer split. */
  readonly releasedMs?: number;
}

type TenantState = Pick<TenantRow, 'class' | 'why' | 'split'>;

const tenantState = (row: TenantRow | undefined): TenantState => ({
  class: row?.class ?? 'absent',
  why: row?.why ?? '',
  split: row?.split ?? false,
});

function storeOf(output: string): Store {
  const found = /^\d+ GETs: p50 ([\d.]+) us, p99 ([\d.]+) us, (\d+) per second$/m.exec(output);
  if (found === null) throw new Error(`the store printed no result: ${output}`);
  const [p50Us, p99Us, getsPerS] = found.slice(1).map(Number);
  return { p50Us, p99Us, getsPerS };
}

/** The store alone. */
async function storeAlone(ground: TestBed): Promise<Measured> {
  const store = ground.store(null, SECONDS);
  await store.done();
  return { condition: 'store alone', ...storeOf(store.output) };
}

/** The transfer alone. */
async function transferAlone(ground: TestBed): Promise<Measured> {
  const transfer = ground.transfer(null, SECONDS);
  await transfer.done();
  const gbps = gbpsOf(transfer, { fromMs: 0, toMs: Number.POSITIVE_INFINITY });
  return { condition: 'transfer alone', gbps };
}

/** Runs both, either bare (null) or under a policy with the daemon. */
async function together(ground: TestBed, policy: string | null): Promise<Measured> {
  const as = (tenant: string): RunOptions | null => (policy === null ? null : { tenant, policy });
  const transfer = ground.transfer(as('bulk'), LONG_SECONDS);
  await transfer.line(/^\d+ WRITEs$/, STARTED_MS);
  const store = ground.store(as('store'), SECONDS);
  const rows = policy === null || !CLASSIFIES ? null : await statesOfBoth(ground);
  const fromMs = performance.now();
  await store.done();
  const toMs = performance.now();
  const releasedMs = policy === null || !CLASSIFIES ? undefined : await releaseTimeMs(ground, toMs);
  transfer.kill('SIGKILL');
  await transfer.ended;
  const condition = policy ?? 'bare';
  // The store does not report its start, so take the last SECONDS: before that the transfer may have been alone.
  const spanMs = Math.min(toMs - fromMs, SECONDS * 1000);
  const gbps = gbpsOf(transfer, { fromMs: toMs - spanMs, toMs });
  return {
    condition,
    gbps,
    ...storeOf(store.output),
    ...rows,
    ...(releasedMs !== undefined && { releasedMs }),
  };
}

/** The daemon's state of both, soon after it has classified both as active. */
async function statesOfBoth(ground: TestBed): Promise<Pick<Measured, 'bulk' | 'store'>> {
  let last: readonly TenantRow[] = [];
  const one = (tenant: string) => last.find((row) => row.tenant === tenant);
  await pollUntil(
    async () => {
      last = await ground.programs.tenants();
      const isIdle = (one('store')?.class ?? 'idle') === 'idle';
      return !isIdle && one('bulk')?.class === 'bandwidth' ? true : null;
    },
    STARTED_MS,
    () => `the daemon did not see both send: ${JSON.stringify(last)}`,
  );
  await delay(SETTLED_MS);
  last = await ground.programs.tenants();
  return { bulk: tenantState(one('bulk')), store: tenantState(one('store')) };
}

/** Milliseconds from `sinceMs` until the transfer is no longer split. */
async function releaseTimeMs(ground: TestBed, sinceMs: number): Promise<number> {
  const bulk = async () => (await ground.programs.tenants()).find(({ tenant }) => tenant === 'bulk');
  await pollUntil(
    async () => ((await bulk())?.split === false ? true : null),
    20_000,
    () => 'the transfer is still split',
  );
  return performance.now() - sinceMs;
}

const COLUMNS: readonly (readonly [head: string, key: keyof Measured, digits: number])[] = [
  ['transfer Gbit/s', 'gbps', 3],
  ['GET p50 us', 'p50Us', 0],
  ['GET p99 us', 'p99Us', 0],
  ['GETs/s', 'getsPerS', 0],
  ['released ms', 'releasedMs', 0],
];

const CONDITIONS = ['store alone', 'transfer alone', 'bare', POLICY];

/** Medians over the rounds. */
function summaryOf(all: readonly Measured[]) {
  return CONDITIONS.map((condition) => {
    const rounds = all.filter((one) => one.condition === condition);
    const medians = COLUMNS.flatMap(([, key]) => {
      const values = rounds.flatMap((one) => (one[key] as number | undefined) ?? []);
      return values.length === 0 ? [] : [[key, p50(values)]];
    });
    return { condition, rounds: rounds.length, ...Object.fromEntries(medians) };
  });
}

function tableOf(summary: ReturnType<typeof summaryOf>): string {
  const table = new Table({ head: ['', ...COLUMNS.map(([head]) => head)], style: { head: [], border: [] } });
  for (const row of summary) {
    const cells = COLUMNS.map(([, key, digits]) => {
      const value = (row as Record<string, unknown>)[key];
      return typeof value === 'number' ? value.toFixed(digits) : '-';
    });
    table.push([row.condition, ...cells]);
  }
  return table.toString();
}

async function main(): Promise<void> {
  const { RXE_DEV: near, RXE_DEV2: far = near } = process.env;
  if (near === undefined || far === undefined)
    throw new Error('RXE_DEV names the device; see scripts/rxe-run');
  const ground = new TestBed({ near, far });
  const all: Measured[] = [];
  try {
    await Promise.all([ground.serve(), ground.programs.daemon('--policy', POLICY, '--device', near)]);
    for (let round = 1; round <= ROUNDS; round++) {
      for (const measure of [
        () => storeAlone(ground),
        () => transferAlone(ground),
        () => together(ground, null),
        () => together(ground, POLICY),
      ]) {
        const measured = await measure();
        all.push(measured);
        console.error(`round ${round}: ${JSON.stringify(measured)}`);
      }
    }
  } finally {
    await ground.close();
  }
  const summary = summaryOf(all);
  if (AS_JSON) console.log(JSON.stringify({ rounds: all, medians: summary }, null, 2));
  else console.log(`${tableOf(summary)}\nmedians of ${ROUNDS} rounds of ${SECONDS} s`);
}

await main();
