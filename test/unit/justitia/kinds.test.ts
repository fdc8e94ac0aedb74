// What queue pairs are under justitia: as declared or by what they send, and the cap on latency applications.
import { describe, expect, test } from 'vitest';
import { BANDWIDTH, Kinds, LATENCY, THROUGHPUT, UNKNOWN } from '../../../src/policies/justitia/kinds.ts';
import { justitiaOptions } from '../../../src/policies/justitia/options.ts';
import { BYTES, COLUMNS, SEEN } from '../../../src/shim/counters.ts';
import type { Actions, QpView } from '../../../src/shim/policy.ts';
import { DEFAULT_LABELS } from '../../../src/verbs/labels.ts';

const SAMPLE_NS = 500_000;
/** Two windows of the classifier. */
const TWO_WINDOWS_NS = 16e6;
const FREE = Number.POSITIVE_INFINITY;

function ground(options: Record<string, unknown> = {}, traffic = UNKNOWN, outstanding = 1) {
  const parsed = justitiaOptions.parse(options);
  const kinds = new Kinds(() => parsed);
  const qp = {
    index: 5,
    broken: false,
    labels: { ...DEFAULT_LABELS, traffic },
    counts: new Float64Array(COLUMNS),
    context: { nic: null },
  } as unknown as QpView;
  let nowNs = SAMPLE_NS;
  const out = { nowNs: () => nowNs, outstanding: () => outstanding } as Partial<Actions> as Actions;
  kinds.set(qp);
  return {
    kinds,
    qp,
    kind: () => kinds.of(qp),
    /** Samples for this long, while messages of `bytes` are sent at a rate. Returns when the kind changed. */
    send(bytes: number, bytesPerNs: number, ns: number, share = FREE, messageBytes = 0): number | null {
      const fromNs = nowNs;
      let changedNs: number | null = null;
      for (; nowNs < fromNs + ns; nowNs += SAMPLE_NS) {
        qp.counts[BYTES] += bytesPerNs * SAMPLE_NS;
        qp.counts[SEEN] += (bytesPerNs * SAMPLE_NS) / bytes;
        if (kinds.sample(qp, share, messageBytes, out)) changedNs ??= nowNs - fromNs;
      }
      return changedNs;
    },
  };
}

describe('undeclared queue pairs', () => {
  test.each([
    ['large requests', 1 << 20, 1, BANDWIDTH],
    ['many small ones at a time', 16, 64, THROUGHPUT],
    ['one small one', 16, 1, LATENCY],
  ])('%s are known from the first post on', (_, bytes, count, expected) => {
    const { kinds, qp, kind } = ground();
    expect(kind()).toBe(UNKNOWN);
    kinds.first(qp, bytes, count);
    expect(kind()).toBe(expected);
  });

  test('one that begins small and goes on large is a bandwidth application within two windows', () => {
    const { kinds, qp, kind, send } = ground();
    kinds.first(qp, 16, 1);
    expect(kind()).toBe(LATENCY);
    const changedNs = send(1 << 20, 10, 2 * TWO_WINDOWS_NS);
    expect(changedNs).not.toBeNull();
    expect(changedNs!).toBeLessThanOrEqual(TWO_WINDOWS_NS);
    expect(kind()).toBe(BANDWIDTH);
  });

  test.each([{ classify: false }, { classify: 'false' }, { paper: true }])(
    'with %o, they are bandwidth applications whatever they send',
    (options) => {
      const { kind, send } = ground(options);
      expect(kind()).toBe(BANDWIDTH);
      send(16, 0.001, TWO_WINDOWS_NS);
      expect(kind()).toBe(BANDWIDTH);
    },
  );
});

describe('declared queue pairs', () => {
  test.each([LATENCY, THROUGHPUT, BANDWIDTH])(
    'kind %i is what was declared, whatever it sends',
    (traffic) => {
      const { kind, send } = ground({}, traffic);
      for (const [bytes, rate] of [
        [1 << 20, 10],
        [16, 0.001],
        [16, 1],
      ]) {
        send(bytes, rate, TWO_WINDOWS_NS);
        expect(kind()).toBe(traffic);
      }
    },
  );

  test.each([true, false])(
    'with classify %s, one that declares latency and sends more than its share is found after two windows',
    (classify) => {
      for (const [bytes, expected] of [
        [1 << 20, BANDWIDTH],
        [64, THROUGHPUT],
      ]) {
        const { kind, send } = ground({ classify }, LATENCY, 64);
        const changedNs = send(bytes, 10, 2 * TWO_WINDOWS_NS, 5);
        expect(changedNs!).toBeGreaterThanOrEqual(TWO_WINDOWS_NS - SAMPLE_NS);
        expect(changedNs!).toBeLessThanOrEqual(TWO_WINDOWS_NS + 2 * SAMPLE_NS);
        expect(kind()).toBe(expected);
      }
    },
  );

  test('one that stays within its share, or sends more for shorter than two windows, is left alone', () => {
    const { kind, send } = ground({}, LATENCY);
    expect(send(1 << 20, 4, 4 * TWO_WINDOWS_NS, 5)).toBeNull();
    for (let i = 0; i < 5; i++) {
      expect(send(1 << 20, 10, TWO_WINDOWS_NS - 4 * SAMPLE_NS, 5)).toBeNull();
      expect(send(1 << 20, 1, 2 * SAMPLE_NS, 5)).toBeNull();
    }
    expect(kind()).toBe(LATENCY);
  });

  test('its messages have the price that tokens have, if many are outstanding at a time', () => {
    // 64 bytes with headers at 0.1 B/ns; 2,500 bytes of tokens each are 39 times as much.
    const send = (outstanding: number, messageBytes: number, classify = true) =>
      ground({ classify }, LATENCY, outstanding).send(64, 0.1, 2 * TWO_WINDOWS_NS, 1, messageBytes);
    expect(send(64, 0)).toBeNull();
    expect(send(64, 2500)).not.toBeNull();
    // Messages one after another are what latency applications send, however many there are.
    expect(send(1, 2500)).toBeNull();
    // Without the classifier, only bytes count.
    expect(send(64, 2500, false)).toBeNull();
  });

  test('a new declaration is believed until the queue pair sends more than its share again', () => {
    const { kinds, qp, kind, send } = ground({}, LATENCY);
    send(1 << 20, 10, 2 * TWO_WINDOWS_NS, 5);
    expect(kind()).toBe(BANDWIDTH);
    kinds.set(qp);
    expect(kind()).toBe(LATENCY);
    expect(send(1 << 20, 1, TWO_WINDOWS_NS, 5)).toBeNull();
    expect(send(1 << 20, 10, TWO_WINDOWS_NS / 2, 5)).toBeNull();
  });

  test('one that declares itself anew again and again is found', () => {
    const { kinds, qp, send } = ground({}, LATENCY);
    let found: number | null = null;
    for (let i = 0; i < 8 && found === null; i++) {
      kinds.set(qp);
      found = send(1 << 20, 10, TWO_WINDOWS_NS / 4, 5);
    }
    expect(found).not.toBeNull();
  });

  test('one whose messages are rarer than samples is found, too', () => {
    const { qp, send } = ground({}, LATENCY);
    let found: number | null = null;
    for (let ms = 0; ms < 24 && found === null; ms++) {
      qp.counts[BYTES] += 1 << 24;
      qp.counts[SEEN]++;
      found = send(1, 0, 4 * SAMPLE_NS, 5);
    }
    expect(found).not.toBeNull();
  });
});
