// isoverbs mix --trace: runs as Chrome trace events.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { RunTrace } from '../../src/mix/record/run-trace.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { readPcapng } from '../support/pcapng.ts';
import { command } from './command.ts';

const folder = mkdtempSync(join(tmpdir(), 'trace-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, 'run.json');

interface TraceEvent {
  ph: 'M' | 'X' | 'i' | 'b' | 'e';
  pid: number;
  tid: number;
  /** Microseconds. */
  ts: number;
  dur?: number;
  id?: string;
  name: string;
  args: Record<string, unknown>;
}

const readEvents = (): TraceEvent[] => JSON.parse(readFileSync(file, 'utf8')).traceEvents;

/** The applications post until then, and are measured until then. */
const STOP_NS = 50e3;

/** Runs a mixture whose messages all end, with and without a trace. */
async function traced(apps: string[], more: Partial<MixSpec> = {}) {
  const spec: MixSpec = {
    ...DEFAULTS,
    durationNs: 400e3,
    warmupNs: 0,
    ...more,
    details: true,
    apps: apps.map((app) => parseApp(`${app}${app.includes(':') ? ',' : ':'}stop=${STOP_NS}ns`)),
  };
  const plain = await runMix(spec);
  const result = await runMix(spec, [new RunTrace(file)]);
  expect(result).toEqual(plain);
  return { result, events: readEvents() };
}

const trackOf = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;

/** The events by track. */
function byTrack(events: readonly TraceEvent[]): Map<string, TraceEvent[]> {
  const tracks = new Map<string, TraceEvent[]>();
  for (const one of events) {
    if (one.ph !== 'M') tracks.set(trackOf(one), [...(tracks.get(trackOf(one)) ?? []), one]);
  }
  return tracks;
}

/** The names of all tracks. */
const trackNames = (events: readonly TraceEvent[]) =>
  new Map(
    events.filter(({ name }) => name === 'thread_name').map((one) => [trackOf(one), String(one.args.name)]),
  );

/** Times are rounded to picoseconds. */
const ROUNDING_US = 2e-6;

/** Checks what every trace must satisfy. */
function check(events: readonly TraceEvent[]): void {
  const names = trackNames(events);
  const processes = new Set(events.filter(({ name }) => name === 'process_name').map(({ pid }) => pid));
  for (const [track, some] of byTrack(events)) {
    expect(names.has(track)).toBe(true);
    expect(processes.has(some[0].pid)).toBe(true);
    let lastUs = 0;
    let endUs = 0;
    const open = new Map<string, TraceEvent>();
    for (const one of some) {
      expect(one.ts).toBeGreaterThanOrEqual(lastUs);
      lastUs = one.ts;
      if (one.ph === 'X') {
        expect(one.dur).toBeGreaterThanOrEqual(0);
        expect(one.ts).toBeGreaterThanOrEqual(endUs - ROUNDING_US);
        endUs = one.ts + one.dur!;
      }
      if (one.ph === 'b') {
        expect(open.has(one.id!)).toBe(false);
        open.set(one.id!, one);
      }
      if (one.ph === 'e') {
        expect(open.get(one.id!)?.name).toBe(one.name);
        open.delete(one.id!);
      }
    }
    expect([...open.keys()]).toEqual([]);
  }
}

/** Packets other than acknowledgements and notifications that hosts have sent. */
function packetsOf(events: readonly TraceEvent[]): number {
  const names = trackNames(events);
  const isPacket = (one: TraceEvent) =>
    names.get(trackOf(one))?.startsWith('port host') === true && !['ACK', 'CNP'].includes(one.name);
  return events.filter((one) => one.ph !== 'M' && isPacket(one)).length;
}

/** The events of an application's own queue pairs. */
function eventsOf(events: readonly TraceEvent[], app: string): TraceEvent[] {
  const names = trackNames(events);
  const own = new RegExp(`\\(${app} #\\d+\\)$`);
  return events.filter((one) => one.ph !== 'M' && own.test(names.get(trackOf(one)) ?? ''));
}

/** The requests of an application that completed while it was measured. */
function requestsOf(events: readonly TraceEvent[], app: string): { us: number; status: unknown }[] {
  const own = eventsOf(events, app);
  const keyOf = (one: TraceEvent) => `${trackOf(one)} ${one.id}`;
  const starts = new Map(own.filter(({ ph }) => ph === 'b').map((one) => [keyOf(one), one.ts]));
  return own
    .filter(({ ph, ts }) => ph === 'e' && ts * 1000 <= STOP_NS)
    .map((one) => ({ us: one.ts - starts.get(keyOf(one))!, status: one.args.status }));
}

const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;

const MARKING = { congestionControl: 'dcqcn', ecnKminBytes: 4000 };
const MIXTURES: [name: string, apps: string[], more: Partial<MixSpec>][] = [
  ['a bare device', ['B:size=64KiB', 'D', 'M:qps=2'], {}],
  ['perf', ['B:size=64KiB', 'D', 'M'], { policy: 'perf' }],
  ['READs and atomics', ['B:op=read,size=64KiB', 'D:op=atomic'], { policy: 'palos' }],
  ['datagrams and UC', ['M:op=send,transport=ud', 'D:op=send,transport=uc'], {}],
  [
    'responses',
    ['D:op=send,size=64,reply=200', 'B:size=64KiB'],
    { policy: 'token-bucket', driver: 'worker' },
  ],
  [
    'a switch that marks',
    ['B:to=2,size=64KiB,qps=2', 'B:host=1,to=2,size=64KiB'],
    { hosts: 3, set: MARKING },
  ],
];

describe('isoverbs mix --trace', () => {
  test.each(MIXTURES)('%s: the trace agrees with the result', { timeout: 60_000 }, async (_, apps, more) => {
    const { result, events } = await traced(apps, more);
    check(events);
    expect(packetsOf(events)).toBe(result.packets);
    for (const { name, kind, completed, errors, latencyUs } of result.apps) {
      const requests = requestsOf(events, name);
      expect(errors).toBe(0);
      expect(new Set(requests.map(({ status }) => status))).toEqual(new Set(['SUCCESS']));
      if (apps.some((app) => app.startsWith(name) && app.includes('reply='))) {
        // A message completes with its response.
        const responses = eventsOf(events, name).filter((one) => one.name === 'poll receive');
        expect(responses.filter(({ ts }) => ts * 1000 <= STOP_NS)).toHaveLength(completed);
        continue;
      }
      expect([name, requests.length]).toEqual([name, completed]);
      // In a batch, only the last request has a latency.
      if (kind !== 'M') expect(mean(requests.map(({ us }) => us))).toBeCloseTo(latencyUs!.avg, 5);
    }
  });

  test('tracks are named after cores, queue pairs, units and ports', async () => {
    const { events } = await traced(['B:size=64KiB', 'D'], { hosts: 3 });
    const names = [...trackNames(events).values()];
    for (const name of ['core 0 (B)', 'core 1 (D)', 'unit 0', 'port host0', 'port host2', 'port switch0.1'])
      expect(names).toContain(name);
    expect(names.some((name) => /^QP \d+ \(B #0\)$/.test(name))).toBe(true);
    const processes = events.filter(({ name }) => name === 'process_name').map(({ args }) => args.name);
    expect(processes).toEqual(['host 0', 'host 1', 'host 2', 'switch 0']);
  });

  test('under perf, every piece and WAIT of the result is issued', async () => {
    const { result, events } = await traced(['B:size=64KiB', 'D'], { policy: 'perf' });
    const [{ internal, split }] = result.counters!;
    const issued = events.filter(({ name }) => name.startsWith('issue '));
    const waits = issued.filter(({ name }) => name.endsWith('WAIT'));
    expect(internal.pieces).toBeGreaterThan(0);
    expect(waits.reduce((sum, { args }) => sum + Number(args.times ?? 1), 0)).toBe(internal.waits);
    const posted = events.filter(({ name }) => name === 'post RDMA_WRITE').length;
    const writes = issued.filter(({ name }) => name === 'issue RDMA_WRITE').length;
    expect(writes - posted).toBe(internal.pieces - split);
  });

  test('requests that are outstanding at the end end there', async () => {
    const spec = { ...DEFAULTS, durationNs: 30e3, warmupNs: 0, apps: ['B', 'D'].map(parseApp) };
    await runMix(spec, [new RunTrace(file)]);
    const events = readEvents();
    check(events);
    const outstanding = events.filter(({ args }) => args.status === 'outstanding');
    // B has its four messages of 1 MiB outstanding, and D one.
    expect(outstanding).toHaveLength(5);
  });

  test('a run that fails leaves a valid file', async () => {
    const spec = { ...DEFAULTS, durationNs: 1, warmupNs: 0, apps: [parseApp('D')] };
    await expect(runMix(spec, [new RunTrace(file)])).rejects.toThrow('gives no samples');
    check(readEvents());
  });

  test('the command writes a trace and a capture of one run', async () => {
    const pcap = join(folder, 'run.pcapng');
    const args = ['mix', '--app', 'D', '--duration', '30us', '--warmup', '0us'];
    expect(await command(...args, '--trace', file, '--pcap', pcap)).toMatchObject({ code: 0 });
    const sent = readPcapng(pcap).frames.filter(({ outbound }) => outbound).length;
    const packets = readEvents().filter(({ name }) => ['WRITE', 'ACK'].includes(name));
    expect(packets.length - sent).toBeGreaterThanOrEqual(0);
    expect(packets.length - sent).toBeLessThanOrEqual(1);
    expect((await command(...args, '--trace', join(folder, 'none', 'a'))).err).toContain('create the folder');
    const live = await command(...args, '--provider', 'rdma-core', '--trace', file);
    expect(live.err).toContain('--trace is for simulated devices');
  });
});
