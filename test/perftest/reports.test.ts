/** The detailed reports of `isoverbs bench`: both directions, intervals, lists of latencies, and counters of the port. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { openDevice } from '../../src/index.ts';
import { countersOf, PortCounters, simSource, sysfsCounters } from '../../src/perftest/port-counters.ts';
import { runBothEnds } from '../../src/perftest/run.ts';
import { settingsOf, TESTS } from '../../src/perftest/settings.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { ConfigError } from '../../src/verbs/errors.ts';

const opened: { close(): void }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
});

/** Settings, but with --duration as milliseconds of virtual time. */
function settings(name: string, flags: Record<string, unknown>) {
  const kind = TESTS.find((test) => test.name === name);
  if (kind === undefined) throw new Error(name);
  const given = settingsOf(kind, null, flags);
  const { durationS, marginS, interval } = given;
  const short = interval === undefined ? {} : { interval: interval / 1000 };
  return { ...given, durationS: durationS / 1000, marginS: marginS / 1000, ...short };
}

/** Runs a test on two simulated devices; returns the lines that the client prints. */
async function lines(name: string, flags: Record<string, unknown>): Promise<string[]> {
  const fabric = createFabric({ profile: 'cx6-100g', hosts: 2 });
  const { provider } = fabric;
  const open = (device: string) => openDevice(device, { provider, policy: null });
  const [client, server] = ['sim0', 'sim1'].map(open);
  opened.push(client, server);
  const printed: string[] = [];
  const output = { print: (line: string) => printed.push(line), progress: () => {} };
  const cm = { provider, openDevice: open };
  const given = settings(name, flags);
  const counters = countersOf(given.reportCounters, simSource('sim0', fabric));
  await runBothEnds(given, { client, server }, cm, output, counters);
  return printed.join('\n').split('\n');
}

async function results(name: string, flags: Record<string, unknown>) {
  return JSON.parse((await lines(name, { json: true, ...flags })).join('\n')).results;
}

describe('--report-both', () => {
  test.each([
    ['write_bw', { iters: 200 }],
    ['send_bw', { iters: 200 }],
    ['read_bw', { iters: 200 }],
  ])('%s: both directions add up to the total', async (name, flags) => {
    const total = await results(name, { bidirectional: true, reportBoth: true, ...flags });
    const { local, remote } = total;
    for (const { BW_average, n_iterations } of [local, remote]) {
      expect(BW_average).toBeGreaterThan(9000);
      expect(n_iterations).toBe(200);
    }
    expect(local.BW_average + remote.BW_average).toBeCloseTo(total.BW_average, 6);
    expect(local.MsgRate + remote.MsgRate).toBeCloseTo(total.MsgRate, 6);
  });

  test('SENDs with --duration: this end reports what it has received', async () => {
    const { local, remote } = await results('send_bw', {
      ...{ bidirectional: true, reportBoth: true, duration: 22, margin: 1 },
    });
    expect(remote.n_iterations).toBeGreaterThan(1000);
    expect(Math.abs(remote.BW_average / local.BW_average - 1)).toBeLessThan(0.05);
  });

  test('the table has a section for each direction', async () => {
    const printed = await lines('write_bw', { bidirectional: true, reportBoth: true, iters: 50 });
    expect(printed.filter((line) => / results: $/.test(line))).toEqual([
      ' Local results: ',
      ' Remote results: ',
    ]);
    expect(printed.filter((line) => /^ 65536 /.test(line))).toHaveLength(3);
  });
});

describe('--interval', () => {
  const FLAGS = { duration: 22, margin: 1, interval: 5 };

  test('rows of all intervals, the total, and the lowest bandwidth are printed', async () => {
    const printed = await lines('write_bw', FLAGS);
    const rows = printed.filter((line) => /^ 65536 /.test(line)).map((line) => Number(line.split(/\s+/)[2]));
    expect(rows).toHaveLength(5);
    expect(rows[0] + rows[1] + rows[2] + rows[3]).toBe(rows[4]);
    expect(printed.at(-1)).toMatch(/^ BW min\[MiB\/sec\] : 11\d{3}\.\d\d \(interval [1-4] of 4\)$/);
  });

  test('the JSON has the bandwidth of each interval, and the lowest', async () => {
    const { BW_min, BW_intervals, BW_average } = await results('send_bw', FLAGS);
    expect(BW_intervals).toHaveLength(4);
    expect(BW_min).toBe(Math.min(...BW_intervals));
    const mean = BW_intervals.reduce((sum: number, one: number) => sum + one, 0) / 4;
    expect(mean).toBeCloseTo(BW_average, 6);
  });

  test('an incomplete interval counts only in the total', async () => {
    const { BW_intervals, n_iterations } = await results('write_bw', { ...FLAGS, interval: 8 });
    expect(BW_intervals).toHaveLength(2);
    // 186,900 messages per second for 20 ms.
    expect(n_iterations).toBeGreaterThan(3700);
  });
});

describe('lists of latencies', () => {
  test.each(['read_lat', 'send_lat'])('%s lists one latency per message', async (name) => {
    const { t_unsorted, t_sorted, t_min, t_max } = await results(name, {
      ...{ iters: 100, reportHistogram: true, reportUnsorted: true },
    });
    expect(t_unsorted).toHaveLength(100);
    expect(t_sorted).toEqual([...t_unsorted].sort((a: number, b: number) => a - b));
    // The histogram has four digits.
    expect(t_sorted[0] / t_min).toBeCloseTo(1, 3);
    expect(t_sorted[99] / t_max).toBeCloseTo(1, 3);
  });

  test('the list precedes the table, as in perftest', async () => {
    const printed = await lines('read_lat', { iters: 5, reportUnsorted: true });
    const at = printed.indexOf('#, usec');
    expect(printed.slice(at + 1, at + 6).map((line) => line.split(', ')[0])).toEqual([
      ...['1', '2', '3', '4', '5'],
    ]);
    expect(printed[at + 7]).toMatch(/^ #bytes #iterations/);
    expect(printed.filter((line) => line === '#, usec')).toHaveLength(1);
  });
});

describe('--report-counters', () => {
  test('counters follow the row, and are in the JSON', async () => {
    const printed = await lines('write_bw', { iters: 100, reportCounters: 'sentBytes,lostPackets' });
    const at = printed.findIndex((line) => /^ 65536 /.test(line));
    expect(printed[at + 1]).toMatch(/^\tsentBytes=\d+$/);
    // 100 messages of 64 KiB, and the headers of their packets.
    const sent = Number(printed[at + 1].split('=')[1]);
    expect(sent).toBeGreaterThan(100 * 65536);
    expect(sent).toBeLessThan(103 * 65536);
    expect(printed[at + 2]).toBe('\tlostPackets=0');
    const { counters } = await results('write_bw', { iters: 100, reportCounters: 'sentBytes' });
    expect(counters).toEqual({ sentBytes: sent });
  });

  test('each row of --all has its own counts', async () => {
    const all = await results('write_bw', { all: true, iters: 10, reportCounters: 'packets' });
    expect(all[0].counters.packets).toBeLessThan(40);
    expect(all.at(-1).counters.packets).toBeGreaterThan(20_000);
  });

  test('the counters of a real port are those of sysfs', () => {
    const sysfs = mkdtempSync(join(tmpdir(), 'counters-'));
    for (const [folder, name] of [
      ['counters', 'port_xmit_data'],
      ['hw_counters', 'out_of_buffer'],
      ['hw_counters', 'lifespan'],
    ]) {
      mkdirSync(join(sysfs, 'rxe0/ports/1', folder), { recursive: true });
      writeFileSync(join(sysfs, 'rxe0/ports/1', folder, name), '7\n');
    }
    const source = sysfsCounters('rxe0', 1, sysfs);
    expect(source.names()).toEqual(['counters/port_xmit_data', 'hw_counters/out_of_buffer']);
    const counters = new PortCounters(source, 'counters/port_xmit_data, hw_counters/out_of_buffer');
    writeFileSync(join(sysfs, 'rxe0/ports/1/counters/port_xmit_data'), '12\n');
    expect(counters.differences()).toEqual({ 'counters/port_xmit_data': 5, 'hw_counters/out_of_buffer': 0 });
    expect(counters.differences()).toEqual({ 'counters/port_xmit_data': 0, 'hw_counters/out_of_buffer': 0 });
    expect(() => new PortCounters(source, 'counters/nix')).toThrow(
      "no counter 'counters/nix'; it has counters/port_xmit_data, hw_counters/out_of_buffer",
    );
    expect(() => new PortCounters(sysfsCounters('rxe1', 1, sysfs), 'x')).toThrow('it has no counters');
    rmSync(sysfs, { recursive: true });
  });
});

test.each([
  ['write_bw', { reportBoth: true }, '--report-both is for tests with --bidirectional'],
  ['write_bw', { reportBoth: true, bidirectional: true, all: true }, 'leave out --all'],
  ['write_bw', { reportHistogram: true }, 'are for latency tests'],
  ['read_lat', { reportUnsorted: true, duration: 2 }, 'leave out --duration'],
  ['read_lat', { reportHistogram: true, iters: 20_000_000 }, 'up to 10000000 latencies: reduce --iters'],
  ['read_lat', { interval: 1, duration: 2 }, '--interval is for bandwidth tests with --duration'],
  ['write_bw', { interval: 1 }, '--interval is for bandwidth tests with --duration'],
  ['write_bw', { interval: 0, duration: 2 }, "--interval takes seconds, at least 0.000001, got '0'"],
  ['write_bw', { interval: 2, duration: 2 }, 'is 1 s, and must hold 1 to 100000 intervals'],
  ['write_bw', { interval: 1, duration: 4, bidirectional: true }, 'leave out --bidirectional'],
  ['write_bw', { interval: 1, run_infinitely: true, duration: 4 }, 'leave out --interval'],
])('%s %j is rejected', (name, flags, message) => {
  expect(() => settings(name, flags)).toThrow(ConfigError);
  expect(() => settings(name, flags)).toThrow(message);
});
