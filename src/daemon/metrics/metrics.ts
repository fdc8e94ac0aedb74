/**
 * The daemon's metrics. Counters are sums of the host and grow as long as the daemon runs. A tenant that left
 * keeps its counters for an hour (totals.ts). Only the first thousand tenants at devices have their own series, so the
 * number of series is bounded even if the number of tenants is not.
 */
import { cpuUsage, memoryUsage, uptime } from 'node:process';
import type { Registry } from 'prom-client';
import { cumulativeBuckets, ERROR_KINDS, SUM_BUCKETS, SUM_FAILED, SUM_LATENCY } from '../../shim/counters.ts';
import type { FleetCounts } from '../fleet/fleet.ts';
import type { DeviceRow, TenantRow } from '../protocol.ts';
import type { Total } from '../tenants/totals.ts';
import type { HwCounter } from './hw-counters.ts';

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
  /** The devices that have had tenants. Absent: they have no metrics. */
  devices?(): readonly DeviceRow[];
  /** The hardware counters of these devices. */
  hwCounters?(devices: readonly string[]): Promise<readonly HwCounter[]>;
  /** Absent: the daemon has no fleet. */
  readonly fleet?: () => FleetCounts;
}

export const MAX_SERIES = 1000;
/** Buckets from 10 us to 0.3 s. */
const PASS_BUCKETS_S = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3];
const BYTES_PER_GBIT = 1e9 / 8;

/** Current values of a tenant at a device; null if it has none. */
const GAUGES: readonly (readonly [name: string, help: string, value: (row: TenantRow) => number | null])[] = [
  ['held_requests', 'Requests that the shims of the tenant hold at this moment.', (row) => row.heldRequests],
  [
    'latency_seconds',
    'Smoothed time from post to completion of sampled requests.',
    (row) => row.latencyNs / 1e9,
  ],
  [
    'granted_bytes_per_second',
    'Rate at which the tenant may send on the wire.',
    (row) => row.rateGbps * BYTES_PER_GBIT,
  ],
  ['weight', 'Weight of the share of the link that the tenant has.', (row) => row.weight],
  ['queue_pairs', 'Queue pairs that the programs of the tenant have.', (row) => row.qps],
  ['contexts', 'Contexts that the programs of the tenant have open.', (row) => row.contexts],
  ['processes', 'Processes of the tenant that have the device open.', (row) => row.processes],
  ['isolated', '1 if large messages of the tenant are split and wait, else 0.', (row) => (row.split ? 1 : 0)],
  [
    'reference_flows_ratio',
    "Part of the link that the reference flows of the tenant's device take, with headers. Absent if there are none.",
    (row) => row.referenceShare || null,
  ],
  [
    'max_queue_pairs',
    'Limit on the queue pairs of the tenant. Absent if there is none.',
    (row) => row.maxQps,
  ],
  [
    'max_requests_per_second',
    'Limit on the requests of the tenant. Absent if there is none.',
    (row) => row.maxRequestsPerS,
  ],
];

export class Metrics {
  private readonly registry: Registry;
  private readonly refreshers: readonly (() => void)[];
  private readonly source: MetricsSource;
  private readonly showHardware: (counters: readonly HwCounter[]) => void;
  private readonly passSeconds: { observe(seconds: number): void };

  constructor(prometheus: Prometheus, version: string, source: MetricsSource) {
    this.source = source;
    this.registry = new prometheus.Registry();
    const registers = [this.registry];
    new prometheus.Gauge({
      name: 'isoverbs_build_info',
      help: 'Always 1. The labels give the versions of isoverbs and Node.js.',
      labelNames: ['version', 'node'],
      registers,
    }).set({ version, node: process.versions.node }, 1);
    this.passSeconds = new prometheus.Histogram({
      name: 'isoverbs_coordinator_pass_seconds',
      help: 'Duration of each pass, which decides for all devices with changes.',
      buckets: PASS_BUCKETS_S,
      registers,
    });
    this.refreshers = [
      addSums(prometheus, this.registry, source),
      addTenants(prometheus, this.registry, source),
      addDevices(prometheus, this.registry, source),
    ];
    this.showHardware = addHardware(prometheus, this.registry);
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

  async text(): Promise<string> {
    const { source } = this;
    const devices = source.devices?.().map(({ device }) => device) ?? [];
    this.showHardware((await source.hwCounters?.(devices)) ?? []);
    for (const refresh of this.refreshers) refresh();
    return this.registry.metrics();
  }
}

const ofTenant = (registry: Registry) => ({
  labelNames: ['device', 'tenant'] as const,
  registers: [registry],
});

/** Sums of a tenant at a device, by their place among SUM_NAMES. */
const SUMS: readonly (readonly [name: string, help: string])[] = [
  ['split_requests', 'Requests of the tenant that a policy has cut into pieces.'],
  ['delayed_requests', 'Requests of the tenant that a policy or limit has held back.'],
  ['waits', '0_WAITs that policies have inserted between requests of the tenant.'],
  ['limit_waits', 'Times that a queue pair of the tenant had to wait for its limit on requests.'],
];

/** Returns a function that refreshes all sums at once. */
function addSums(prometheus: Prometheus, registry: Registry, source: MetricsSource): () => void {
  const counter = (name: string, help: string) =>
    new prometheus.Counter({ ...ofTenant(registry), name: `isoverbs_tenant_${name}_total`, help });
  const bytes = counter('sent_bytes', 'Bytes of messages that the programs of the tenant have posted.');
  const requests = counter('sent_requests', 'Requests that the programs of the tenant have posted.');
  const others = SUMS.map(([name, help]) => counter(name, help));
  const failed = new prometheus.Counter({
    name: 'isoverbs_tenant_failed_completions_total',
    help: 'Completions with errors that the device has reported to programs of the tenant, by kind of status.',
    labelNames: ['device', 'tenant', 'kind'],
    registers: [registry],
  });
  const latencies = new LatencyHistogram();
  registry.registerMetric(latencies as unknown as import('prom-client').Metric);
  return () => {
    for (const one of [bytes, requests, failed, ...others]) one.reset();
    const totals = source.sentTotals().slice(0, MAX_SERIES);
    for (const { device, tenant, sentBytes, sentRequests, sums } of totals) {
      bytes.inc({ device, tenant }, sentBytes);
      requests.inc({ device, tenant }, sentRequests);
      for (const [i, one] of others.entries()) one.inc({ device, tenant }, sums[i]);
      for (const [i, kind] of ERROR_KINDS.entries()) {
        const count = sums[SUM_FAILED + i];
        // A thousand tenants that never fail need no thousands of series.
        if (count > 0) failed.inc({ device, tenant, kind }, count);
      }
    }
    latencies.totals = totals;
  };
}

/** What prom-client asks of a metric. Its own histogram accepts single values only, and shims report whole histograms. */
class LatencyHistogram {
  readonly name = 'isoverbs_tenant_sampled_latency_seconds';
  readonly help = 'Time from post to completion of the requests that were sampled, a few in a second.';
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  totals: readonly Total[] = [];

  /** Called by the registry, for each answer. */
  async get() {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: this.totals.flatMap((total) => this.valuesOf(total)) };
  }

  private valuesOf({ device, tenant, sums }: Total) {
    const labels = { device, tenant };
    const cumulative = cumulativeBuckets(sums.slice(SUM_BUCKETS));
    const { count } = cumulative[cumulative.length - 1];
    if (count === 0) return [];
    const buckets = cumulative.map(({ le, count: value }) => ({
      metricName: `${this.name}_bucket`,
      ...{ labels: { ...labels, le }, value },
    }));
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sums[SUM_LATENCY] / 1e9 },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }

  reset(): void {
    this.totals = [];
  }
}

/** Returns a function that refreshes what is known of devices. */
function addDevices(prometheus: Prometheus, registry: Registry, source: MetricsSource): () => void {
  const of = { labelNames: ['device'] as const, registers: [registry] };
  const link = new prometheus.Gauge({
    ...of,
    name: 'isoverbs_device_link_bytes_per_second',
    help: 'Rate of the link of the device. Absent if it is unknown.',
  });
  const virtual = new prometheus.Gauge({
    ...of,
    name: 'isoverbs_device_virtual_time',
    help: '1 if the device is simulated in each process, in virtual time, else 0.',
  });
  return () => {
    for (const one of [link, virtual]) one.reset();
    for (const { device, linkGbps, isVirtualTime } of source.devices?.() ?? []) {
      if (linkGbps > 0) link.set({ device }, linkGbps * BYTES_PER_GBIT);
      virtual.set({ device }, +isVirtualTime);
    }
  };
}

/** Returns a function that shows these counters instead of earlier ones. */
function addHardware(prometheus: Prometheus, registry: Registry): (counters: readonly HwCounter[]) => void {
  const gauge = new prometheus.Gauge({
    name: 'isoverbs_device_hw_counter',
    help: 'Hardware counter of a port, as the driver reports it in sysfs.',
    labelNames: ['device', 'port', 'counter'],
    registers: [registry],
  });
  return (counters) => {
    gauge.reset();
    for (const { value, ...labels } of counters) gauge.set(labels, value);
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
    help: 'Always 1. The label gives the class of the tenant.',
    labelNames: ['device', 'tenant', 'class'],
    registers: [registry],
  });
  const all = new prometheus.Gauge({
    name: 'isoverbs_tenants',
    help: 'Number of tenants at devices. The first thousand have series of their own.',
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
    help: 'Number of connections by state: greeting (no hello yet), shim (threads of programs) or tool.',
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
  counter(
    'isoverbs_connections_refused_total',
    'Connections that were refused since the daemon started.',
    ({ refused }) => refused,
  );
  counter(
    'isoverbs_log_lines_left_out_total',
    'Log lines about clients that were suppressed because there were too many.',
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
    '1 if the daemon is connected to the NATS server of the fleet, else 0.',
    ({ isConnected }) => +isConnected,
  );
  gauge('isoverbs_fleet_hosts', 'Number of daemons of other hosts in the directory.', ({ hosts }) => hosts);
  new prometheus.Counter({
    name: 'isoverbs_fleet_messages_ignored_total',
    help: 'Messages of the fleet that were ignored: malformed, too frequent, or from unknown daemons.',
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
    help: 'CPU time that the daemon has used.',
    registers,
    collect() {
      const { user, system } = cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new prometheus.Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory of the daemon.',
    registers,
    collect() {
      this.set(memoryUsage.rss());
    },
  });
  new prometheus.Gauge({
    name: 'process_start_time_seconds',
    help: 'Start time of the daemon, in seconds since the epoch.',
    registers,
  }).set(Date.now() / 1e3 - uptime());
}
