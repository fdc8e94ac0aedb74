/**
 * The daemon's metrics. Counters are sums of the host and grow as long as the daemon runs. A tenant that left
 * keeps its counters for an hour (totals.ts). Only the first thousand tenants at devices have their own series, so the
 * number of series is bounded even if the number of tenants is not.
 */
import { cpuUsage, memoryUsage, uptime } from 'node:process';
import type { Registry } from 'prom-client';
import type { FleetCounts } from '../fleet/fleet.ts';
import type { TenantRow } from '../protocol.ts';
import type { Total } from '../tenants/totals.ts';

type Prometheus = typeof import('prom-client');

/** Connections by state, and what was refused or not logged since the daemon started. */
export interface ServerCounts {
  readonly greeting: number;
  readonly shims: number;
  readonly tools: number;
  readonly refused: number;
  readonly suppressedLines: number;
}

export interface MetricsSource {
  tenants(): TenantRow[];
  sentTotals(): Total[];
  counts(): ServerCounts;
  /** Absent: the daemon has no fleet. */
  readonly fleet?: () => FleetCounts;
}

export const MAX_SERIES = 1000;
/** Buckets from 10 us to 0.3 s. */
const PASS_BUCKETS_S = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3];
const BYTES_PER_GBIT = 1e9 / 8;

/** Current values of a tenant at a device; null if it has none. */
const GAUGES: readonly (readonly [name: string, help: string, value: (row: TenantRow) => number | null])[] = [
  ['held_requests', 'Requests held at this moment', (row) => row.heldRequests],
  ['latency_seconds', 'Time from post to completion, sampled', (row) => row.latencyNs / 1e9],
  [
    'granted_bytes_per_second',
    'Rate that the tenant may send on the wire',
    (row) => row.rateGbps * BYTES_PER_GBIT,
  ],
  ['weight', 'Weight of its share of the link', (row) => row.weight],
  ['queue_pairs', 'Queue pairs of its programs', (row) => row.qps],
  ['contexts', 'Contexts that its programs have open', (row) => row.contexts],
  ['processes', 'Its processes', (row) => row.processes],
  ['isolated', '1 if its large messages are split and wait', (row) => (row.split ? 1 : 0)],
  [
    'reference_flows_ratio',
    "Part of the link that the reference flows of the tenant's device take, with headers; absent if there are none",
    (row) => row.referenceShare || null,
  ],
  ['max_queue_pairs', 'Limit on its queue pairs; absent if there is none', (row) => row.maxQps],
  ['max_requests_per_second', 'Limit on its requests; absent if there is none', (row) => row.maxRequestsPerS],
];

export class Metrics {
  private readonly registry: Registry;
  private readonly refreshers: readonly (() => void)[];
  private readonly passSeconds: { observe(seconds: number): void };

  constructor(prometheus: Prometheus, version: string, source: MetricsSource) {
    this.registry = new prometheus.Registry();
    const registers = [this.registry];
    new prometheus.Gauge({
      name: 'isoverbs_build_info',
      help: 'Always 1; labels give the versions of isoverbs and Node.js',
      labelNames: ['version', 'node'],
      registers,
    }).set({ version, node: process.versions.node }, 1);
    this.passSeconds = new prometheus.Histogram({
      name: 'isoverbs_coordinator_pass_seconds',
      help: 'Duration of each pass, which decides for all devices with changes',
      buckets: PASS_BUCKETS_S,
      registers,
    });
    this.refreshers = [
      addSums(prometheus, this.registry, source),
      addTenants(prometheus, this.registry, source),
    ];
    addServer(prometheus, this.registry, source);
    if (source.fleet !== undefined) addFleet(prometheus, this.registry, source.fleet);
    addProcess(prometheus, this.registry);
  }

  observePass(durationNs: number): void {
    this.passSeconds.observe(durationNs / 1e9);
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    for (const refresh of this.refreshers) refresh();
    return this.registry.metrics();
  }
}

const ofTenant = (registry: Registry) => ({
  labelNames: ['device', 'tenant'] as const,
  registers: [registry],
});

/** Returns a function that refreshes both counters at once. */
function addSums(prometheus: Prometheus, registry: Registry, source: MetricsSource): () => void {
  const counter = (name: string, help: string) =>
    new prometheus.Counter({ ...ofTenant(registry), name: `isoverbs_tenant_${name}_total`, help });
  const bytes = counter('sent_bytes', 'Bytes of messages that its programs posted');
  const requests = counter('sent_requests', 'Requests that its programs posted');
  return () => {
    for (const counter of [bytes, requests]) counter.reset();
    for (const { device, tenant, sentBytes, sentRequests } of source.sentTotals().slice(0, MAX_SERIES)) {
      bytes.inc({ device, tenant }, sentBytes);
      requests.inc({ device, tenant }, sentRequests);
    }
  };
}

/**
 * Returns a function that refreshes all these gauges at once. Prometheus collects one metric after another,
 * so they must all be set before.
 */
function addTenants(prometheus: Prometheus, registry: Registry, source: MetricsSource): () => void {
  const of = ofTenant(registry);
  const gauges = GAUGES.map(
    ([name, help, value]) =>
      [new prometheus.Gauge({ ...of, name: `isoverbs_tenant_${name}`, help }), value] as const,
  );
  const info = new prometheus.Gauge({
    name: 'isoverbs_tenant_info',
    help: 'Always 1; the label gives its class',
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
    for (const row of rows.slice(0, MAX_SERIES)) {
      const labels = { device: row.device, tenant: row.tenant };
      info.set({ ...labels, class: row.class || 'none' }, 1);
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
    help: 'Connections by state: greeting (no hello yet), shim (threads of programs), tool',
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
  counter('isoverbs_connections_refused_total', 'Connections refused', ({ refused }) => refused);
  counter(
    'isoverbs_log_lines_left_out_total',
    'Log lines about clients suppressed because there were too many',
    ({ suppressedLines }) => suppressedLines,
  );
}

function addFleet(prometheus: Prometheus, registry: Registry, counts: () => FleetCounts): void {
  const registers = [registry];
  const gauge = (name: string, help: string, value: (counts: FleetCounts) => number) =>
    new prometheus.Gauge({
      ...{ name, help, registers },
      collect() {
        this.set(value(counts()));
      },
    });
  gauge(
    'isoverbs_fleet_connected',
    '1 if the daemon is connected to the NATS server of the fleet',
    ({ isConnected }) => +isConnected,
  );
  gauge('isoverbs_fleet_hosts', 'Daemons of other hosts in the directory', ({ hosts }) => hosts);
  new prometheus.Counter({
    name: 'isoverbs_fleet_messages_ignored_total',
    help: 'Ignored messages of the fleet: malformed, too frequent, or from unknown daemons',
    registers,
    collect() {
      this.reset();
      this.inc(counts().ignored);
    },
  });
}

/**
 * Named as in every Prometheus client. prom-client's own default set would wake an idle daemon a hundred
 * times a second.
 */
function addProcess(prometheus: Prometheus, registry: Registry): void {
  const registers = [registry];
  new prometheus.Counter({
    name: 'process_cpu_seconds_total',
    help: 'CPU time used by the daemon',
    registers,
    collect() {
      const { user, system } = cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new prometheus.Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory of the daemon',
    registers,
    collect() {
      this.set(memoryUsage.rss());
    },
  });
  new prometheus.Gauge({
    name: 'process_start_time_seconds',
    help: 'Start time of the daemon, in seconds since the epoch',
    registers,
  }).set(Date.now() / 1e3 - uptime());
}
