// What queue pairs are, by what they send.
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  Classifier,
  Hysteresis,
  IDLE,
  LARGE_BYTES,
  TrafficWindows,
} from '../../../src/policies/kit/classifier.ts';
import { BYTES, COLUMNS, SEEN } from '../../../src/shim/counters.ts';
import type { QpView } from '../../../src/shim/policy.ts';
import {
  ISO_TRAFFIC_BANDWIDTH as BANDWIDTH,
  ISO_TRAFFIC_LATENCY as LATENCY,
  ISO_TRAFFIC_THROUGHPUT as THROUGHPUT,
} from '../../../src/verbs/constants.ts';
import { ConfigError } from '../../../src/verbs/errors.ts';

const PART_NS = 1000;
const WINDOW_NS = 8 * PART_NS;
const LONG = 6;

const qpOf = (index: number) => ({ index, broken: false, counts: new Float64Array(COLUMNS) }) as QpView;

function send({ counts }: QpView, bytes: number, messages = 1): void {
  counts[BYTES] += bytes * messages;
  counts[SEEN] += messages;
}

describe('a classifier', () => {
  let classifier: Classifier;
  let qp: QpView;
  let nowNs: number;

  beforeEach(() => {
    classifier = new Classifier({ windowNs: WINDOW_NS });
    qp = qpOf(3);
    classifier.join(qp);
    nowNs = 0;
  });

  /** Samples once per part, while the queue pair sends messages of these sizes. Returns the classes. */
  const sampleParts = (bytesOfParts: readonly number[], outstanding = 1) =>
    bytesOfParts.map((bytes) => {
      nowNs += PART_NS;
      if (bytes > 0) send(qp, bytes);
      return classifier.sample(qp, nowNs, outstanding);
    });

  test.each([
    ['large messages', LARGE_BYTES, 1, BANDWIDTH],
    ['many small messages at a time', LARGE_BYTES - 1, LONG, THROUGHPUT],
    ['few small messages at a time', LARGE_BYTES - 1, LONG - 1, LATENCY],
    ['empty messages', 0, 1, LATENCY],
  ])('%s have a class from the first requests on', (_name, bytes, count, expected) => {
    expect(classifier.classOf(qp)).toBe(IDLE);
    expect(classifier.first(qp, bytes, count)).toBe(expected);
    expect(classifier.classOf(qp)).toBe(expected);
    send(qp, bytes, count);
    expect(classifier.sample(qp, PART_NS, count)).toBe(expected);
  });

  test('only the first requests after an idle time decide the class', () => {
    classifier.first(qp, 16, 1);
    expect(classifier.first(qp, LARGE_BYTES, 1)).toBe(LATENCY);
  });

  test('the first sample may change the class at once, later ones only if the verdict lasts longer than a part', () => {
    classifier.first(qp, 16, 1);
    expect(sampleParts([65_536])).toEqual([BANDWIDTH]);
    // The large message counts until it leaves the window.
    const classes = sampleParts(Array(12).fill(16));
    const leaves = 7;
    expect(classes.slice(0, leaves + 2)).toEqual(Array(leaves + 2).fill(BANDWIDTH));
    expect(classes.slice(leaves + 2)).toEqual(Array(3).fill(LATENCY));
  });

  test('a verdict that lasts no longer than a part changes nothing', () => {
    sampleParts(Array(8).fill(16));
    send(qp, 65_536);
    expect(sampleParts([16, 16])).toEqual([LATENCY, LATENCY]);
    expect(classifier.windows.meanOf(qp)).toBeGreaterThan(LARGE_BYTES);
    send(qp, 16, 100);
    expect(sampleParts(Array(10).fill(16))).toEqual(Array(10).fill(LATENCY));
  });

  test('the longest queue counts for a window', () => {
    classifier.first(qp, 16, 1);
    expect(sampleParts([16], LONG)).toEqual([THROUGHPUT]);
    const classes = sampleParts(Array(11).fill(16));
    expect(classes.lastIndexOf(THROUGHPUT)).toBe(8);
    expect(classes.at(-1)).toBe(LATENCY);
  });

  test('a queue pair is idle at once when nothing is outstanding and the window is empty', () => {
    classifier.first(qp, 65_536, 1);
    sampleParts([65_536]);
    expect(sampleParts(Array(8).fill(0), 0)).toEqual([...Array(7).fill(BANDWIDTH), IDLE]);
    expect(classifier.classOf(qp)).toBe(IDLE);
    expect(classifier.first(qp, 16, 1)).toBe(LATENCY);
  });

  test('a queue pair that waits for its last message keeps its class, unless it has failed', () => {
    classifier.first(qp, 65_536, 1);
    sampleParts([65_536]);
    expect(sampleParts(Array(20).fill(0), 1)).toEqual(Array(20).fill(BANDWIDTH));
    Object.assign(qp, { broken: true });
    expect(sampleParts([0], 1)).toEqual([IDLE]);
  });

  test('nothing of a destroyed queue pair is left to the next one with its index', () => {
    classifier.first(qp, 65_536, 1);
    sampleParts([65_536]);
    classifier.leave({ index: qp.index });
    expect(classifier.classOf(qp)).toBe(IDLE);
    qp = qpOf(qp.index);
    classifier.join(qp);
    expect(classifier.windows.longestQueueOf(qp)).toBe(0);
    classifier.first(qp, 16, 1);
    expect(sampleParts([16])).toEqual([LATENCY]);
  });

  test('queue pairs do not affect each other, whatever their indices', () => {
    const others = [0, 1, 200].map(qpOf);
    for (const other of others) classifier.join(other);
    expect(classifier.first(others[2], 65_536, 1)).toBe(BANDWIDTH);
    send(others[2], 65_536);
    expect(classifier.sample(others[2], PART_NS, 1)).toBe(BANDWIDTH);
    expect([qp, others[0], others[1]].map((one) => classifier.sample(one, PART_NS, 0))).toEqual([
      IDLE,
      IDLE,
      IDLE,
    ]);
    expect(classifier.classOf(qpOf(10_000))).toBe(IDLE);
  });

  test('options can be changed, and restart the windows at their last samples', () => {
    classifier.first(qp, 2048, 1);
    expect(sampleParts(Array(20).fill(2048)).at(-1)).toBe(BANDWIDTH);
    classifier.configure({ windowNs: WINDOW_NS, largeBytes: 4096, longQueue: 0 });
    send(qp, 16, 2);
    expect(classifier.sample(qp, nowNs, 1)).toBe(BANDWIDTH);
    expect(classifier.windows.meanOf(qp)).toBe(16);
    expect(sampleParts([16, 16])).toEqual([BANDWIDTH, THROUGHPUT]);
  });

  test.each([0, 7.9, -1, Number.NaN])('a window of %d ns is rejected, and changes nothing', (windowNs) => {
    expect(() => new Classifier({ windowNs })).toThrow(ConfigError);
    expect(() => classifier.configure({ windowNs })).toThrow(/windowNs must be at least 8/);
    expect(classifier.windows.partAt(WINDOW_NS)).toBe(8);
  });
});

test('windows have the mean and the longest queue of a plain list of samples', () => {
  const event = fc.record({
    waitNs: fc.nat(3 * PART_NS),
    bytes: fc.constantFrom(0, 16, 1000, 5000),
    messages: fc.nat(3),
    outstanding: fc.nat(9),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const windows = new TrafficWindows({ windowNs: WINDOW_NS });
      const qp = qpOf(70);
      windows.join(qp);
      const samples: { part: number; bytes: number; messages: number; queue: number }[] = [];
      let nowNs = 0;
      for (const { waitNs, bytes, messages, outstanding } of events) {
        nowNs += waitNs;
        const part = windows.partAt(nowNs);
        send(qp, bytes, messages);
        expect([windows.newBytesOf(qp), windows.newMessagesOf(qp)]).toEqual([bytes * messages, messages]);
        windows.sample(qp, part, outstanding);
        samples.push({ part, bytes: bytes * messages, messages, queue: outstanding });
        const within = samples.filter((one) => one.part > part - 8);
        const total = within.reduce((sum, one) => sum + one.messages, 0);
        expect(windows.longestQueueOf(qp)).toBe(Math.max(...within.map(({ queue }) => queue)));
        if (total > 0)
          expect(windows.meanOf(qp)).toBe(within.reduce((sum, one) => sum + one.bytes, 0) / total);
        expect([windows.newBytesOf(qp), windows.newMessagesOf(qp)]).toEqual([0, 0]);
      }
    }),
  );
});

test('hysteresis counts from the part where a verdict began', () => {
  const hysteresis = new Hysteresis();
  const settle = (verdict: number, part: number) => hysteresis.settle(LATENCY, verdict, part, false);
  expect([settle(BANDWIDTH, 4), settle(BANDWIDTH, 5), settle(BANDWIDTH, 6)]).toEqual([
    LATENCY,
    LATENCY,
    BANDWIDTH,
  ]);
  // Interrupted, changed to another verdict, or reset, it begins again.
  expect([settle(BANDWIDTH, 7), settle(LATENCY, 8), settle(BANDWIDTH, 9), settle(BANDWIDTH, 10)]).toEqual(
    Array(4).fill(LATENCY),
  );
  expect([settle(THROUGHPUT, 11), settle(THROUGHPUT, 12)]).toEqual([LATENCY, LATENCY]);
  hysteresis.reset();
  expect([settle(THROUGHPUT, 13), settle(THROUGHPUT, 14), settle(THROUGHPUT, 15)]).toEqual([
    LATENCY,
    LATENCY,
    THROUGHPUT,
  ]);
  expect(hysteresis.settle(LATENCY, IDLE, 16, false)).toBe(IDLE);
  expect(hysteresis.settle(IDLE, BANDWIDTH, 16, false)).toBe(BANDWIDTH);
  expect(hysteresis.settle(LATENCY, BANDWIDTH, 16, true)).toBe(BANDWIDTH);
});
