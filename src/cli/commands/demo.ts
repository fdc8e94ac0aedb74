/**
 * `isoverbs demo`: an unchanged key-value store (tenant A) and an unchanged file transfer (tenant B) share one
 * simulated NIC. A runs alone, then both bare, then both under a policy. All times are virtual, so the result is the
 * same on every machine.
 */
import { performance } from 'node:perf_hooks';
import { Context } from '../../objects/index.ts';
import { createPolicy } from '../../policies/index.ts';
import { createFabric } from '../../providers/sim/index.ts';
import { compose } from '../../shim/compose.ts';
import { RandomStream } from '../../sim/kernel/random.ts';
import { demoSvg, type Measured, type Scenario } from '../output/demo-svg.ts';
import { JSON_SCHEMA_VERSION } from '../output/json.ts';
import { progressLine } from '../output/progress.ts';
import { requireDistinct, requirePicture, writeInto, writeOutput } from '../output/svg.ts';
import { foldedTable } from '../output/table.ts';

/** The example programs as modules: the exports that the demo uses. */
interface KeyValueStore {
  server(context: Context, options: { port: number }): Promise<{ port: number }>;
  client(context: Context, options: { host: string; port: number }): Promise<{ close(): void }>;
  load(
    context: Context,
    kv: unknown,
    options: { count: number; seconds: number; pause: () => Promise<void> },
  ): Promise<Samples>;
}
interface FileTransfer {
  server(context: Context, options: { port: number }): Promise<{ port: number }>;
  client(
    context: Context,
    options: { host: string; port: number; data: Uint8Array; seconds: number },
  ): Promise<Samples & { sentBytes: number }>;
}
interface Samples {
  latenciesNs: number[];
  elapsedNs: number;
}

const SCENARIOS: readonly Scenario[] = [
  { name: 'A alone', policy: null, keyValueStore: true, fileTransfer: false },
  { name: 'B alone', policy: null, keyValueStore: false, fileTransfer: true },
  { name: 'A and B, bare', policy: null, keyValueStore: true, fileTransfer: true },
  { name: 'A and B, perf', policy: 'perf', keyValueStore: true, fileTransfer: true },
];
const FILE_BYTES = 8 << 20;
/** Mean pause of A between two GETs. */
const THINK_NS = 500;
const EXAMPLES = new URL('../../../examples/', import.meta.url);

function quantileUs(sortedNs: Float64Array, q: number): number {
  return sortedNs[Math.min(sortedNs.length - 1, Math.floor(q * sortedNs.length))] / 1000;
}

/** Runs one scenario on a fabric of two hosts; A and B both send from the first to the second. */
async function measure(scenario: Scenario, virtualMs: number): Promise<Measured> {
  const kv: KeyValueStore = await import(new URL('kv-store.mjs', EXAMPLES).href);
  const transfer: FileTransfer = await import(new URL('file-transfer.mjs', EXAMPLES).href);
  const fabric = createFabric({ hosts: 2, seed: 1 });
  const provider = compose(fabric.provider, scenario.policy === null ? [] : [createPolicy(scenario.policy)]);
  const open = (device: string, tenant: string) => new Context(provider, device, { tenant });
  const contexts = [open('sim0', 'A'), open('sim1', 'A'), open('sim0', 'B'), open('sim1', 'B')];
  const [clientA, serverA, clientB, serverB] = contexts;
  const seconds = virtualMs / 1000;

  const runA = async () => {
    const { port } = await kv.server(serverA, { port: 7471 });
    const store = await kv.client(clientA, { host: 'sim1', port });
    // Without pauses the client would lock onto the period of B's packets, and see only one latency.
    const random = new RandomStream(1, 'think');
    const pause = () => clientA.sleep(random.exponential(THINK_NS));
    return kv.load(clientA, store, { count: Number.POSITIVE_INFINITY, seconds, pause });
  };
  const runB = async () => {
    const { port } = await transfer.server(serverB, { port: 7472 });
    const data = Buffer.alloc(FILE_BYTES, 'isoverbs ');
    return transfer.client(clientB, { host: 'sim1', port, data, seconds });
  };
  const [a, b] = await Promise.all([
    scenario.keyValueStore ? runA() : null,
    scenario.fileTransfer ? runB() : null,
  ]);
  for (const context of contexts) context.close();
  const sorted = a === null ? null : Float64Array.from(a.latenciesNs).sort();
  return {
    ...scenario,
    latencyUs:
      sorted === null
        ? null
        : { p50: quantileUs(sorted, 0.5), p99: quantileUs(sorted, 0.99), p999: quantileUs(sorted, 0.999) },
    getsPerS: a === null ? null : a.latenciesNs.length / (a.elapsedNs / 1e9),
    bandwidthGbps: b === null ? null : (b.sentBytes * 8) / b.elapsedNs,
    writesPerS: b === null ? null : b.latenciesNs.length / (b.elapsedNs / 1e9),
  };
}

function show(value: number | null | undefined, digits: number): string {
  return value === null || value === undefined ? '-' : value.toFixed(digits);
}

/** Rounds numbers for the JSON: virtual time has many more digits than are useful. */
function thousandths(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Math.round(value * 1000) / 1000 : value;
}

const HEADS = ['', 'A p50 us', 'A p99 us', 'A p99.9 us', 'A GET/s', 'B Gbit/s', 'B WRITE/s'];

function table(rows: readonly Measured[]): string {
  const cells = rows.map((row) => {
    const { latencyUs } = row;
    return [
      row.name,
      show(latencyUs?.p50, 2),
      show(latencyUs?.p99, 2),
      show(latencyUs?.p999, 2),
      show(row.getsPerS, 0),
      show(row.bandwidthGbps, 1),
      show(row.writesPerS, 0),
    ];
  });
  const columns = HEADS.map((head) => ({ head, part: head.startsWith('B') ? 1 : 0 }));
  return foldedTable(columns, cells);
}

export interface DemoOptions {
  /** Virtual time of each run, in milliseconds. */
  ms: number;
  /** File for the JSON; '-' prints it instead of the table. */
  json?: string;
  /** File for the picture. */
  svg?: string;
}

/** Runs `isoverbs demo`. */
export async function runDemo(options: DemoOptions): Promise<void> {
  const startMs = performance.now();
  const quiet = options.json === '-';
  requireDistinct([
    ['json', quiet ? undefined : options.json],
    ['svg', options.svg],
  ]);
  if (options.svg !== undefined) await requirePicture('svg', options.svg);
  if (!quiet) {
    console.log(
      'Tenant A, a key-value store, and tenant B, a file transfer, send through one simulated NIC.',
    );
    console.log(`Each run lasts ${options.ms} ms of virtual time.\n`);
  }
  const rows: Measured[] = [];
  const progress = progressLine();
  for (const scenario of SCENARIOS) {
    rows.push(await measure(scenario, options.ms));
    progress(rows.length, SCENARIOS.length);
  }
  const json = JSON.stringify(
    { schemaVersion: JSON_SCHEMA_VERSION, virtualMs: options.ms, scenarios: rows },
    thousandths,
    2,
  );
  if (quiet) console.log(json);
  else console.log(table(rows));
  if (options.json !== undefined && !quiet) writeInto(options.json, `${json}\n`);
  if (options.svg !== undefined) {
    writeOutput(options.svg, await demoSvg(rows));
    if (!quiet) console.log(`\nPicture: ${options.svg}`);
  }
  if (!quiet) console.log(`Took ${((performance.now() - startMs) / 1000).toFixed(1)} s.`);
}
