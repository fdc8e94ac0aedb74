// `isoverbs/metrics`: what the shims of this process have counted, as values, for Prometheus and for OpenTelemetry.
import { expect, test } from 'vitest';
import { type Context, IBV_SEND_SIGNALED, IBV_WC_REM_ACCESS_ERR, openDevice } from '../../src/index.ts';
import {
  type MeterLike,
  metrics,
  metricsText,
  type ObservableResultLike,
  observe,
} from '../../src/metrics.ts';
import { LATENCY_BOUNDS_NS } from '../../src/shim/counters.ts';

/** Two connected queue pairs, one large WRITE under `perf`, and one WRITE without access rights. */
async function traffic(): Promise<void> {
  const context = openDevice('sim0', {
    policy: { name: 'perf', options: { isolation: 'always' } },
    tenant: 'a "quoted" one',
  });
  const pd = context.allocPd();
  const cq = context.createCq({ cqe: 16 });
  const [qp, peer] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  const open = pd.allocate(1 << 20, { access: { remoteWrite: true } });
  const closed = pd.allocate(4096, { access: {} });
  const batch = context.sendBatch({ capacity: 2 });
  batch.write(1, IBV_SEND_SIGNALED, open.addr, 1 << 19, open.lkey, open.addr + (1 << 19), open.rkey);
  batch.write(2, IBV_SEND_SIGNALED, open.addr, 64, open.lkey, closed.addr, closed.rkey);
  qp.postSend(batch);
  await cq.next();
  expect((await cq.next()).status).toBe(IBV_WC_REM_ACCESS_ERR);
}

/** A function that executes one WRITE between two queue pairs, which is cut, so that it does not bypass a worker. */
function connectedToItself(context: Context): () => Promise<void> {
  const pd = context.allocPd();
  const cq = context.createCq({ cqe: 16 });
  const [qp, peer] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  const bytes = 1 << 20;
  const mr = pd.allocate(2 * bytes, { access: { remoteWrite: true } });
  const batch = context.sendBatch({ capacity: 1 });
  batch.write(1, IBV_SEND_SIGNALED, mr.addr, bytes, mr.lkey, mr.addr + bytes, mr.rkey);
  return async () => {
    qp.postSend(batch);
    await cq.next();
  };
}

const counted = (name: string, labels = {}) =>
  metrics()
    .find((one) => one.name === `isoverbs_process_${name}_total`)
    ?.samples.find((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
    ?.value;

test('requests, bytes and failures are counted, as values and for Prometheus', async () => {
  const before = counted('requests') ?? 0;
  await traffic();
  expect(counted('requests')).toBe(before + 2);
  expect(counted('bytes')).toBeGreaterThanOrEqual(1 << 19);
  expect(counted('failed_completions', { kind: 'remote' })).toBe(1);
  const text = metricsText();
  expect(text).toMatch(
    /^# HELP isoverbs_process_requests_total Requests .*\.\n# TYPE isoverbs_process_requests_total counter\n/m,
  );
  expect(text).toContain('isoverbs_process_failed_completions_total{kind="remote"} 1\n');
  for (const line of text.trimEnd().split('\n')) expect(line).toMatch(/^# |^\w+(\{.*\})? [\d.e+-]+$/);
});

const latency = () => metrics().find((one) => one.name === 'isoverbs_process_sampled_latency_seconds');

test.each(['inline', 'worker'] as const)(
  'latencies are a histogram like that of the daemon: %s',
  async (driver) => {
    const count = () => latency()?.samples[0].value ?? 0;
    const context = openDevice('sim0', { policy: 'chunk', driver });
    const post = connectedToItself(context);
    const before = count();
    await post();
    // This report samples the next request.
    expect(count()).toBe(before + 1);
    await post();
    await post();
    expect(count()).toBe(before + 2);
    const histogram = latency()?.histogram;
    expect(histogram?.buckets.map(({ le }) => le)).toEqual([
      ...LATENCY_BOUNDS_NS.map((ns) => `${ns / 1e9}`),
      '+Inf',
    ]);
    expect(histogram?.buckets.at(-1)?.count).toBe(before + 2);
    expect(histogram?.sum).toBeGreaterThan(0);
    context.close();
    expect(count()).toBe(before + 2);
    const text = metricsText();
    expect(text).toContain('# TYPE isoverbs_process_sampled_latency_seconds histogram\n');
    expect(text).toContain(`isoverbs_process_sampled_latency_seconds_bucket{le="+Inf"} ${before + 2}\n`);
    expect(text).toContain(`isoverbs_process_sampled_latency_seconds_count ${before + 2}\n`);
  },
);

test('an OpenTelemetry meter gets sampled latencies as values of a histogram', async () => {
  const context = openDevice('sim0', { policy: 'chunk' });
  const post = connectedToItself(context);
  const collect: ((result: ObservableResultLike) => void)[] = [];
  const create = () => ({
    addCallback: (callback: (result: ObservableResultLike) => void) => void collect.push(callback),
    removeCallback: () => {},
  });
  const recorded: number[] = [];
  const bounds: unknown[] = [];
  const end = observe({
    createObservableCounter: create,
    createObservableGauge: create,
    createHistogram(name, options) {
      bounds.push(name, options?.advice?.explicitBucketBoundaries);
      return { record: (value) => void recorded.push(value) };
    },
  });
  const sum = () => latency()?.histogram?.sum ?? 0;
  const before = sum();
  await post();
  for (const callback of collect) callback({ observe: () => {} });
  expect(bounds).toEqual(['isoverbs.process.sampled_latency', LATENCY_BOUNDS_NS.map((ns) => ns / 1e9)]);
  expect(recorded).toHaveLength(1);
  expect(recorded[0]).toBeCloseTo(sum() - before, 12);
  end();
  context.close();
});

test('an OpenTelemetry meter gets all metrics until reports end', () => {
  const callbacks = new Map<string, (result: ObservableResultLike) => void>();
  const create = (name: string) => ({
    addCallback: (callback: (result: ObservableResultLike) => void) => void callbacks.set(name, callback),
    removeCallback: () => void callbacks.delete(name),
  });
  const meter: MeterLike = { createObservableCounter: create, createObservableGauge: create };
  const end = observe(meter);
  expect([...callbacks.keys()]).toContain('isoverbs.process.delayed_requests');
  const seen: unknown[] = [];
  callbacks.get('isoverbs.process.failed_completions')?.({
    observe: (value, labels) => seen.push([value, labels]),
  });
  expect(seen).toContainEqual([1, { kind: 'remote' }]);
  end();
  expect(callbacks.size).toBe(0);
});
