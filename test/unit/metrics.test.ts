// `isoverbs/metrics`: what the shims of this process have counted, as values, for Prometheus and for OpenTelemetry.
import { expect, test } from 'vitest';
import { IBV_SEND_SIGNALED, IBV_WC_REM_ACCESS_ERR, openDevice } from '../../src/index.ts';
import {
  type MeterLike,
  metrics,
  metricsText,
  type ObservableResultLike,
  observe,
} from '../../src/metrics.ts';

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
