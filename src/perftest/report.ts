/** The output of a test: perftest's headers, rows and JSON. */
import { isMulticastGid, mtuBytes } from '../verbs/index.ts';
import type { Endpoint } from './endpoint.ts';
import type { BandwidthReport, Destination } from './handshake.ts';
import type { LatencyReport } from './latency.ts';
import type { Settings, TestKind } from './settings.ts';

export const LINE = '-'.repeat(87);

const TITLES = { write: 'RDMA_Write', send: 'Send', read: 'RDMA_Read', atomic: 'Atomic' };

function titleOf(
  { verb, measures }: TestKind,
  { atomic_type, bidirectional, post_list, write_with_imm, mcg }: Settings,
): string[] {
  return [
    write_with_imm ? 'RDMA_Write_with_imm' : TITLES[verb],
    ...(verb === 'atomic' ? [atomic_type] : []),
    ...(bidirectional ? ['Bidirectional'] : []),
    ...(post_list > 1 ? ['Post List'] : []),
    measures === 'bw' ? 'BW' : 'Latency',
    ...(mcg ? ['Multicast'] : []),
  ];
}

/** The parameters of the test, under perftest's names. */
function parameters(endpoint: Endpoint): [name: string, value: string | number][] {
  const { settings, context, terms, channel } = endpoint;
  const { kind, bidirectional, post_list } = settings;
  const sends = channel.role === 'client' || bidirectional;
  const receives = settings.takesReceives && (channel.role === 'server' || bidirectional);
  const fetches = kind.verb === 'read' || kind.verb === 'atomic';
  return [
    ['Dual-port', 'OFF'],
    ['Device', context.name],
    ['Number of qps', settings.qp],
    ['Transport type', 'IB'],
    ['Connection type', settings.connection],
    ['Using SRQ', settings.useSrq ? 'ON' : 'OFF'],
    ['ibv_wr* API', 'OFF'],
    ...(sends ? ([['TX depth', settings.txDepth]] as [string, number][]) : []),
    ...(post_list > 1 ? ([['Post List', post_list]] as [string, number][]) : []),
    ...(receives ? ([['RX depth', settings.rxDepth]] as [string, number][]) : []),
    ...(kind.measures === 'bw' ? ([['CQ Moderation', settings.cqMod]] as [string, number][]) : []),
    ['Mtu', `${mtuBytes(terms.mtu)}[B]`],
    ['Link type', context.queryPort(settings.ibPort).linkLayer],
    ...(endpoint.gidIndex === null ? [] : ([['GID index', endpoint.gidIndex]] as [string, number][])),
    fetches ? ['Outstand reads', endpoint.outReads] : ['Max inline data', `${endpoint.inlineBytes}[B]`],
    ['rdma_cm QPs', settings.rdma_cm ? 'ON' : 'OFF'],
    ['Data ex. method', settings.rdma_cm || settings.com_rdma_cm ? 'rdma_cm' : 'Ethernet'],
    ...(settings.policy === undefined ? [] : ([['Policy', settings.policy]] as [string, string][])),
  ];
}

/** Parameters that share a line with the next one, as in perftest. */
const PAIRED = ['Dual-port', 'Number of qps', 'Connection type'];

export function header(endpoint: Endpoint): string {
  const lines = [
    LINE,
    `${' '.repeat(20)}${titleOf(endpoint.settings.kind, endpoint.settings).join(' ')} Test`,
  ];
  if (endpoint.settings.events) lines.push(` Test with events. Using ${endpoint.context.name}_comp0`);
  if (endpoint.settings.mcg) lines.push(' MultiCast runs on UD!');
  let open = '';
  for (const [name, value] of parameters(endpoint)) {
    const text = `${open === '' ? ' ' : ''}${name.padEnd(open === '' ? 16 : 15)}: ${value}`;
    if (PAIRED.includes(name)) open = text;
    else {
      lines.push(open === '' ? text : `${open}\t\t${text}`);
      open = '';
    }
  }
  return [...lines, LINE].join('\n');
}

/** Describes a queue pair of one end: ` local address: ...`. */
export function address(side: 'local' | 'remote', keys: Destination, kind: TestKind): string {
  const { lid, qpNum, psn, outReads, rkey, vaddr, gid } = keys;
  const hex = (value: number | bigint, digits: number) => value.toString(16).padStart(digits, '0');
  const parts = [` ${side} address: LID ${hex(lid, 2)} QPN 0x${hex(qpNum, 4)} PSN 0x${hex(psn, 1)}`];
  if (kind.verb === 'read') parts.push(`OUT 0x${hex(outReads, 2)}`);
  if (kind.verb === 'write' || kind.verb === 'read') {
    parts.push(`RKey 0x${hex(rkey, 6)} VAddr 0x${hex(vaddr, 14)}`);
  }
  if (gid === null) return parts.join(' ');
  return `${parts.join(' ')}\n ${isMulticastGid(gid) ? 'MGID' : 'GID'}: ${gid}`;
}

export function columns({ kind, report_gbits, durationS }: Settings): string {
  if (kind.measures === 'bw') {
    const unit = report_gbits ? 'Gb/sec' : 'MiB/sec';
    return ` #bytes     #iterations    BW peak[${unit}]    BW average[${unit}]   MsgRate[Mpps]`;
  }
  if (durationS > 0) return ' #bytes        #iterations       t_avg[usec]    tps average';
  return (
    ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]' +
    '   99% percentile[usec]   99.9% percentile[usec] '
  );
}

const left = (value: number, width: number, digits: number) => value.toFixed(digits).padEnd(width);

export function bandwidthRow({ sizeBytes, iters, peak, average, messageRate }: BandwidthReport): string {
  return (
    ` ${String(sizeBytes).padEnd(7)}    ${String(iters).padEnd(10)}       ${left(peak, 7, 2)}` +
    `            ${left(average, 7, 2)}\t\t     ${left(messageRate, 7, 6)}`
  );
}

export function latencyRow(report: LatencyReport, byTime: boolean): string {
  const { sizeBytes, iters, min, max, typical, average, stdev, p99, p999 } = report;
  if (byTime) {
    return ` ${String(sizeBytes).padEnd(7)}       ${iters}            ${left(average, 7, 2)}        ${left(report.perS, 7, 2)}`;
  }
  const us = (value: number) => left(value, 7, 2);
  return (
    ` ${String(sizeBytes).padEnd(7)} ${iters}          ${us(min)}        ${us(max)}      ${us(typical)}` +
    `  \t       ${us(average)}     \t${us(stdev)}\t\t${us(p99)} \t\t${us(p999)}`
  );
}

/** Latencies in microseconds, numbered from 1, as perftest lists them. */
export function latencyList(us: Float64Array): string {
  const rows = Array.from(us, (value, i) => `${i + 1}, ${Number(value.toPrecision(6))}`);
  return ['#, usec', ...rows].join('\n');
}

/** How much counters have grown, for the lines under a row. */
export function counterRows(counters: Readonly<Record<string, number>>): string {
  return [...Object.entries(counters).map(([name, value]) => `\t${name}=${value}`), ''].join('\n');
}

/** The results of both directions of a bidirectional test. */
export function bothDirections(
  settings: Settings,
  { local, remote }: { local: BandwidthReport; remote: BandwidthReport },
): string {
  const part = (title: string, report: BandwidthReport) =>
    [LINE, `\n ${title} results: `, LINE, columns(settings), bandwidthRow(report)].join('\n');
  return [part('Local', local), part('Remote', remote)].join('\n');
}

/** The interval with the lowest bandwidth. */
export function lowest({ report_gbits }: Settings, averages: readonly number[]): string {
  const least = Math.min(...averages);
  const at = `interval ${averages.indexOf(least) + 1} of ${averages.length}`;
  return ` BW min[${report_gbits ? 'Gb/sec' : 'MiB/sec'}] : ${least.toFixed(2)} (${at})`;
}

/** One entry of `results` in perftest's JSON, with what the report flags add to it. */
export type Result = Record<string, number | readonly number[] | Record<string, number>>;

export function bandwidthJson(report: BandwidthReport): Record<string, number> {
  const { sizeBytes, iters, peak, average, messageRate } = report;
  return {
    MsgSize: sizeBytes,
    n_iterations: iters,
    BW_peak: peak,
    BW_average: average,
    MsgRate: messageRate,
  };
}

export function latencyJson(report: LatencyReport, byTime: boolean): Record<string, number> {
  const { sizeBytes, iters, min, max, typical, average, stdev, p99, p999, perS } = report;
  const common = { MsgSize: sizeBytes, n_iterations: iters };
  if (byTime) return { ...common, t_avg: average, tps_average: perS };
  return {
    ...common,
    t_min: min,
    t_max: max,
    t_typical: typical,
    t_avg: average,
    t_stdev: stdev,
    percentile_99: p99,
    'percentile_99.9': p999,
  };
}

/** perftest's JSON. `results` is a single result, or the list of all with --all. */
export function json(endpoint: Endpoint, results: readonly Result[]): string {
  const info: Record<string, string | number> = {
    test: [...titleOf(endpoint.settings.kind, endpoint.settings), 'Test'].join('_'),
  };
  for (const [name, value] of parameters(endpoint)) {
    const key = name.replace('ibv_wr* API', 'ibv_wr_API').replace('Data ex. method', 'Data_ex_method');
    info[key.replaceAll(/[- ]/g, '_')] =
      typeof value === 'string' && value.endsWith('[B]') ? Number.parseInt(value, 10) : value;
  }
  return JSON.stringify({ test_info: info, results: results.length === 1 ? results[0] : results }, null, 2);
}
