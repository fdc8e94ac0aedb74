// Metrics for Prometheus: their values are right, sums only grow, and requests are cheap for the daemon.
// @module-tag wide
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import prometheus from 'prom-client';
import { expect, test } from 'vitest';
import { metricsAddress } from '../../src/daemon/metrics/address.ts';
import { hwCounters } from '../../src/daemon/metrics/hw-counters.ts';
import { MAX_SERIES, Metrics } from '../../src/daemon/metrics/metrics.ts';
import type { TenantRow } from '../../src/daemon/protocol.ts';
import { SUM_NAMES } from '../../src/shim/counters.ts';
import { daemon, folder, isoverbs, tenant } from './command-rig.ts';
import { reason, until } from './rig.ts';

test('metricsAddress() accepts loopback addresses only', () => {
  expect(metricsAddress('9464')).toEqual({ host: '127.0.0.1', port: 9464 });
  expect(metricsAddress('127.3.2.1:1')).toEqual({ host: '127.3.2.1', port: 1 });
  expect(metricsAddress('[::1]:0')).toEqual({ host: '::1', port: 0 });
  for (const other of ['0.0.0.0:1', '10.0.0.1:1', '[::]:1', 'localhost:1', ':1', '[::ffff:10.0.0.1]:1']) {
    expect(() => metricsAddress(other)).toThrow(/is not a loopback address/);
  }
  for (const none of ['', 'x', '127.0.0.1', '127.0.0.1:', '127.0.0.1:65536', '::1:80', '1:2:3']) {
    expect(() => metricsAddress(none)).toThrow(/is not an address; use PORT/);
  }
});

test('each answer has only the current tenants, not those of the previous answer', async () => {
  const row: TenantRow = {
    device: 'd',
    tenant: 't',
    weight: 3,
    gbps: null,
    qpWeight: null,
    group: null,
    traffic: null,
    class: 'delay',
    why: '',
    contexts: 1,
    processes: 2,
    qps: 4,
    wireGbps: 0,
    sentRequests: 5,
    sentBytes: 6,
    heldRequests: 7,
    latencyNs: 8000,
    maxQps: 9,
    maxRequestsPerS: null,
    rateGbps: 8,
    split: true,
    qNumAllow: 0,
    referenceShare: 0.0004,
  };
  let rows: TenantRow[] = [row];
  const metrics = new Metrics(prometheus, '1', {
    tenants: () => rows,
    sentTotals: () => [],
    counts: () => ({ greeting: 0, shims: 0, tools: 0, refused: 0, suppressedLines: 0 }),
  });
  const first = await metrics.text();
  expect(first).toContain('isoverbs_tenants 1\n');
  expect(first).toContain('isoverbs_tenant_info{device="d",tenant="t",class="delay"} 1\n');
  const values = first.match(/^isoverbs_tenant_\w+\{device="d",tenant="t"\} .*$/gm);
  expect(values?.map((line) => line.replace(/^isoverbs_tenant_|\{.*\}/g, ''))).toEqual([
    'held_requests 7',
    'latency_seconds 0.000008',
    'granted_bytes_per_second 1000000000',
    'weight 3',
    'queue_pairs 4',
    'contexts 1',
    'processes 2',
    'isolated 1',
    'reference_flows_ratio 0.0004',
    'max_queue_pairs 9',
  ]);
  rows = [];
  expect(await metrics.text()).not.toMatch(/^isoverbs_tenant_\w+\{/m);
});

test('thousands of tenants result in only a thousand series', async () => {
  const names = Array.from({ length: MAX_SERIES + 7 }, (_, i) => `t${i}"\n\\`);
  const metrics = new Metrics(prometheus, '1', {
    tenants: () => [],
    sentTotals: () =>
      names.map((one) => ({
        device: 'd',
        tenant: one,
        sentBytes: 3,
        sentRequests: 1,
        leftNs: 0,
        sums: new Float64Array(SUM_NAMES.length),
      })),
    counts: () => ({ greeting: 1, shims: 2, tools: 3, refused: 4, suppressedLines: 5 }),
  });
  metrics.observePass(2e-3 * 1e9);
  for (let i = 0; i < 2; i++) {
    const text = await metrics.text();
    expect(text.match(/^isoverbs_tenant_sent_bytes_total\{.*\} 3$/gm)).toHaveLength(MAX_SERIES);
    expect(text).toContain('isoverbs_tenant_sent_bytes_total{device="d",tenant="t0\\"\\n\\\\"} 3\n');
    expect(text).toContain('isoverbs_connections_refused_total 4\n');
    expect(text).toContain('isoverbs_log_lines_left_out_total 5\n');
    expect(text).toContain('isoverbs_connections{state="shim"} 2\n');
    expect(text).toContain('isoverbs_coordinator_pass_seconds_bucket{le="0.003"} 1\n');
    expect(text).toContain('isoverbs_coordinator_pass_seconds_bucket{le="0.001"} 0\n');
  }
});

test('tenants have histograms of latency, counts by kind of failure, and counts of what policies did', async () => {
  const sums = new Float64Array(SUM_NAMES.length);
  for (const [name, value] of Object.entries({
    ...{ splitRequests: 2, heldTotal: 3, waits: 4, limited: 5, 'failed: remote': 6, latencySumNs: 3e6 },
    ...{ 'latency up to 2000 ns': 1, 'latency up to 1000000 ns': 2, 'latency above': 1 },
  })) {
    sums[SUM_NAMES.indexOf(name)] = value;
  }
  const metrics = new Metrics(prometheus, '1', {
    tenants: () => [],
    sentTotals: () => [{ device: 'd', tenant: 't', sentBytes: 1, sentRequests: 1, leftNs: 0, sums }],
    counts: () => ({ greeting: 0, shims: 0, tools: 0, refused: 0, suppressedLines: 0 }),
    devices: () => [{ device: 'd', linkGbps: 100, isVirtualTime: false, nic: null }],
    hwCounters: async ([device]) => [{ device, port: '1', counter: 'out_of_sequence', value: 7 }],
  });
  for (let i = 0; i < 2; i++) {
    const text = await metrics.text();
    const of = '{device="d",tenant="t"';
    for (const line of [
      `isoverbs_tenant_split_requests_total${of}} 2`,
      `isoverbs_tenant_delayed_requests_total${of}} 3`,
      `isoverbs_tenant_waits_total${of}} 4`,
      `isoverbs_tenant_limit_waits_total${of}} 5`,
      `isoverbs_tenant_failed_completions_total${of},kind="remote"} 6`,
      '# TYPE isoverbs_tenant_sampled_latency_seconds histogram',
      `isoverbs_tenant_sampled_latency_seconds_bucket${of},le="0.000002"} 1`,
      `isoverbs_tenant_sampled_latency_seconds_bucket${of},le="0.0005"} 1`,
      `isoverbs_tenant_sampled_latency_seconds_bucket${of},le="0.001"} 3`,
      `isoverbs_tenant_sampled_latency_seconds_bucket${of},le="+Inf"} 4`,
      `isoverbs_tenant_sampled_latency_seconds_sum${of}} 0.003`,
      `isoverbs_tenant_sampled_latency_seconds_count${of}} 4`,
      'isoverbs_device_link_bytes_per_second{device="d"} 12500000000',
      'isoverbs_device_hw_counter{device="d",port="1",counter="out_of_sequence"} 7',
    ]) {
      expect(text.split('\n')).toContain(line);
    }
    // Each metric is described in sentences.
    for (const [, help] of text.matchAll(/^# HELP \S+ (.*)$/gm)) expect(help).toMatch(/^[A-Z0-9].*\.$/);
  }
});

test('hardware counters are read from sysfs, and what is no number is left out', async () => {
  const sysfs = folder();
  const port = join(sysfs, 'mlx5_0/ports/1/hw_counters');
  mkdirSync(port, { recursive: true });
  for (const [name, text] of Object.entries({
    out_of_sequence: '12\n',
    lifespan: '10\n',
    odd: 'N/A (no PMA)\n',
  })) {
    writeFileSync(join(port, name), text);
  }
  expect(await hwCounters(['mlx5_0', 'sim0', '../x', '..'], sysfs)).toEqual([
    { device: 'mlx5_0', port: '1', counter: 'out_of_sequence', value: 12 },
  ]);
});

test.skipIf(reason !== '')(
  'a daemon serves them, and refuses other requests and excessive ones',
  { timeout: 60_000 },
  async () => {
    const socket = join(folder(), 's');
    const running = await daemon(socket, ['--policy', 'token-bucket', '--metrics', '0']);
    const url = /"url":"(http:[^"]*)"/.exec(running.err())?.[1] ?? '';
    const ask = async () => (await fetch(url)).text();
    const value = async (name: string) =>
      Number(new RegExp(`^isoverbs_${name}(?:\\{[^}]*\\})? (.*)$`, 'm').exec(await ask())?.[1]);
    const program = await tenant(socket, 'storage');
    await expect.poll(() => value('tenant_queue_pairs'), { timeout: 10_000 }).toBe(2);
    const text = await ask();
    expect(text).toMatch(/^isoverbs_build_info\{version="\d.*",node="\d.*"\} 1$/m);
    expect(text).toMatch(/^isoverbs_tenant_queue_pairs\{device="sim0",tenant="storage"\} 2$/m);
    expect(text).toMatch(/^isoverbs_tenant_processes\{device="sim0",tenant="storage"\} 1$/m);
    expect(text).toMatch(/^isoverbs_tenant_info\{device="sim0",tenant="storage",class="\w+"\} 1$/m);
    expect(await value('coordinator_pass_seconds_count')).toBeGreaterThan(0);
    expect(await (await fetch(url.replace('metrics', 'healthz'))).text()).toBe('ok\n');
    const samples = () => value('tenant_sampled_latency_seconds_count');
    await expect.poll(samples, { timeout: 10_000, interval: 250 }).toBeGreaterThan(0);
    let before = 0;
    for (let i = 0; i < 3; i++) {
      const now = await value('tenant_sent_bytes_total');
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
    }
    await expect.poll(() => value('tenant_sent_bytes_total'), { timeout: 10_000 }).toBeGreaterThan(before);
    before = await value('tenant_sent_bytes_total');
    program.child.kill('SIGTERM');
    await program.ended;
    await expect.poll(() => value('tenants'), { timeout: 10_000 }).toBe(0);
    // The tenant has left, but what it sent still counts.
    expect(await value('tenant_sent_bytes_total')).toBeGreaterThanOrEqual(before);
    expect(await ask()).not.toContain('isoverbs_tenant_weight{');

    // Endless refusals would cost as much as answers, so the first refusal ends its connection.
    const { port } = new URL(url);
    const flood = connect(Number(port), '127.0.0.1').on('error', () => {});
    flood.write('GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(1000));
    let answered = '';
    flood.on('data', (chunk) => {
      answered += chunk;
    });
    await new Promise((resolve) => flood.once('close', resolve));
    expect(answered.match(/HTTP\/1\.1 404/g)).toHaveLength(1);
    expect((await fetch(url, { method: 'POST', body: 'x' })).status).toBe(405);
    expect((await fetch(url.replace('metrics', ''))).status).toBe(404);
    let status = 200;
    for (let i = 0; i < 1000 && status === 200; i++) {
      const answer = await fetch(url);
      await answer.text();
      status = answer.status;
    }
    expect(status).toBe(429);
    // A client that connects and sends nothing uses up connections, but no other resource of the daemon.
    const idle = Array.from({ length: 50 }, () =>
      connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}),
    );
    expect((await isoverbs(['tenants', '--socket', socket]).ended).status).toBe(0);
    for (const one of idle) one.destroy();
    const taken = await isoverbs(['daemon', '--socket', `${socket}2`, '--metrics', new URL(url).port]).ended;
    expect(taken).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/metrics cannot listen on 127\.0\.0\.1.*EADDRINUSE/),
    });
    running.child.kill('SIGTERM');
    expect((await running.ended).status).toBe(0);
    await until(() => running.child.exitCode === 0);
  },
);
