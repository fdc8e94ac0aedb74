/**
 * What the daemon tells Prometheus. Sums are those of the host: they grow as long as the daemon runs. Of a tenant that
 * left they are told for an hour (totals.ts), and of more than a thousand tenants at devices the first thousand have
 * series of their own: whoever makes tenants without end makes no series without end.
 */
import { cpuUsage, memoryUsage, uptime } from 'node:process';
import type { Registry } from 'prom-client';
import type { TenantRow } from '../protocol.ts';
import type { Total } from '../totals.ts';

type Prometheus = typeof import('prom-client');

/** Connections by what they are, and what was refused and not logged since the daemon began. */
export interface ServerCounts {
  readonly greeting: number;
  readonly shims: number;
  readonly tools: number;
  readonly refused: number;
  readonly linesLeftOut: number;
}

export interface MetricsSource {
  tenants(): TenantRow[];
  sent(): Total[];
  counts(): ServerCounts;
}

export const MOST_SERIES = 1000;
/** From 10 us to 0.3 s. */
const PASS_BUCKETS_S = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3];
const BYTES_OF_A_GBIT = 1e9 / 8;

/** Of a tenant at a device, as they are now. Null: there is none. */
const GAUGES: readonly (readonly [name: string, help: string, value: (row: TenantRow) => number | null])[] = [
  ['held_requests', 'Requests that are held just now', (row) => row.heldRequests],
  [
    'latency_seconds',
    'From post to completion, of a request picked now and then',
    (row) => row.latencyNs / 1e9,
  ],
  ['granted_bytes_per_second', 'What it may send on the wire', (row) => row.rateGbps * BYTES_OF_A_GBIT],
  ['weight', 'Of its share of the link', (row) => row.weight],
  ['queue_pairs', 'Queue pairs of its programs', (row) => row.qps],
  ['contexts', 'Contexts that its programs have open', (row) => row.contexts],
  ['processes', 'Its processes', (row) => row.processes],
  ['isolated', '1: large messages of it are split and wait', (row) => (row.split ? 1 : 0)],
  ['max_queue_pairs', 'Limit of its queue pairs; absent: none', (row) => row.maxQps],
  ['max_requests_per_second', 'Limit of its requests; absent: none', (row) => row.maxRequestsPerS],
];

export class Metrics {
  private readonly registry: Registry;
  private readonly looks: readonly (() => void)[];
  private readonly pass: { observe(seconds: number): void };

  constructor(prometheus: Prometheus, version: string, source: MetricsSource) {
    this.registry = new prometheus.Registry();
    const registers = [this.registry];
    new prometheus.Gauge({
      name: 'isoverbs_build_info',
      help: '1; the version of isoverbs and of Node.js',
      labelNames: ['version', 'node'],
      registers,
    }).set({ version, node: process.versions.node }, 1);
    this.pass = new prometheus.Histogram({
      name: 'isoverbs_coordinator_pass_seconds',
      help: 'How long each decision about all marked devices took',
      buckets: PASS_BUCKETS_S,
      registers,
    });
    this.looks = [addSums(prometheus, this.registry, source), addTenants(prometheus, this.registry, source)];
    addServer(prometheus, this.registry, source);
    addProcess(prometheus, this.registry);
  }

  passed(tookNs: number): void {
    this.pass.observe(tookNs / 1e9);
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    for (const look of this.looks) look();
    return this.registry.metrics();
  }
}

const ofTenant = (registry: Registry) => ({
  labelNames: ['device', 'tenant'] as const,
  registers: [registry],
});

/** Returns what makes their rows, once for both. */
function addSums(prometheus: Prometheus, registry: Registry, source: MetricsSource): () => void {
  const counter = (name: string, help: string) =>
    new prometheus.Counter({ ...ofTenant(registry), name: `isoverbs_tenant_${name}_total`, help });
  const bytes = counter('sent_bytes', 'Bytes of messages that its programs posted');
  const requests = counter('sent_requests', 'Requests that its programs posted');
  return () => {
    for (const one of [bytes, requests]) one.reset();
    for (const { device, tenant, sentBytes, sentRequests } of source.sent().slice(0, MOST_SERIES)) {
      bytes.inc({ device, tenant }, sentBytes);
      requests.inc({ device, tenant }, sentRequests);
    }
  };
}

/** Returns what makes their rows, once for all these gauges: each is written with what it has before the next is asked. */
function addTenants(prometheus: Prometheus, registry: Registry, source: MetricsSource): () => void {
  const of = ofTenant(registry);
  const gauges = GAUGES.map(
    ([name, help, value]) =>
      [new prometheus.Gauge({ ...of, name: `isoverbs_tenant_${name}`, help }), value] as const,
  );
  const info = new prometheus.Gauge({
    name: 'isoverbs_tenant_info',
    help: '1; what it is taken for',
    labelNames: ['device', 'tenant', 'class'],
    registers: [registry],
  });
  const all = new prometheus.Gauge({
    name: 'isoverbs_tenants',
    help: 'Tenants at devices; the first thousand have series of their own',
    registers: [registry],
  });
  return () => {
    const rows = source.tenants();
    all.set(rows.length);
    for (const gauge of [info, ...gauges.map(([one]) => one)]) gauge.reset();
    for (const row of rows.slice(0, MOST_SERIES)) {
      const labels = { device: row.device, tenant: row.tenant };
      info.set({ ...labels, class: row.class }, 1);
      for (const [gauge, value] of gauges) {
        const now = value(row);
        if (now !== null) gauge.set(labels, now);
      }
    }
  };
}

function addServer(prometheus: Prometheus, registry: Registry, source: MetricsSource): void {
  const registers = [registry];
  new prometheus.Gauge({
    name: 'isoverbs_connections',
    help: 'Connections: greeting (not yet known), shim (threads of programs), tool',
    labelNames: ['state'],
    registers,
    collect() {
      const { greeting, shims, tools } = source.counts();
      this.set({ state: 'greeting' }, greeting);
      this.set({ state: 'shim' }, shims);
      this.set({ state: 'tool' }, tools);
    },
  });
  const counter = (name: string, help: string, value: (counts: ServerCounts) => number) =>
    new prometheus.Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(value(source.counts()));
      },
    });
  counter('isoverbs_connections_refused_total', 'Connections that were not let in', ({ refused }) => refused);
  counter(
    'isoverbs_log_lines_left_out_total',
    'Lines about clients that were not logged: there were too many',
    ({ linesLeftOut }) => linesLeftOut,
  );
}

/** Names as all Prometheus clients have them; prom-client's own set would wake an idle daemon a hundred times a second. */
function addProcess(prometheus: Prometheus, registry: Registry): void {
  const registers = [registry];
  new prometheus.Counter({
    name: 'process_cpu_seconds_total',
    help: 'CPU time of the daemon',
    registers,
    collect() {
      const { user, system } = cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new prometheus.Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Memory of the daemon',
    registers,
    collect() {
      this.set(memoryUsage.rss());
    },
  });
  new prometheus.Gauge({
    name: 'process_start_time_seconds',
    help: 'When the daemon began, since the epoch',
    registers,
  }).set(Date.now() / 1e3 - uptime());
}
