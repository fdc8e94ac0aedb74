// The agent of justitia among peers that lie, and members that say odd things.
import { describe, expect, test } from 'vitest';
import { rates } from '../../../src/policies/justitia/rates.ts';
import { DEMAND, SHARES } from '../../../src/policies/justitia/updates.ts';
import { DELAY_NS, flowWords, LINK_GBPS, Network, wordsOf } from './agent-network.ts';

const MAX_GBPS = 0.97 * LINK_GBPS;
const MS = 1e6;
const near = (value: number) => expect.closeTo(value, 6);

describe('a peer that lies', () => {
  const LIES: [string, Float64Array[]][] = [
    ['shares above 1', [wordsOf(SHARES, 9, 5, 7), wordsOf(SHARES, 10, 1e9, 1e9)]],
    ['infinite shares', [wordsOf(SHARES, 9, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)]],
    ['shares that are not numbers', [wordsOf(SHARES, 9, Number.NaN, Number.NaN)]],
    ['negative shares', [wordsOf(SHARES, 9, -1, -1)]],
    ['no shares', [wordsOf(SHARES, 9, 0, 0)]],
    ['no latency', [wordsOf(SHARES, 9, 1, 1, false), wordsOf(DEMAND, 9, 0, 0, false)]],
    ['a demand without bounds', [wordsOf(DEMAND, 9, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)]],
    ['a huge demand', [wordsOf(DEMAND, 9, 1e38, 1e38)]],
    ['foreign words', [new Float64Array(0), Float64Array.of(1, 2, 3), Float64Array.of(1e300, -5)]],
  ];

  test.each(LIES)('%s can lower, but never raise, what a host sends', (_, lies) => {
    const network = new Network(2);
    const [a] = network.hosts;
    const pages = [a.bulk(1), a.bulk(1)];
    a.latency(1);
    network.advance(MS);
    const granted = () => {
      a.decide();
      return pages.map((page) => a.coordinator.membersOf(rates).grant('rateGbps').of(page.row));
    };
    const before = granted();
    expect(before).toEqual(Array(2).fill(near(MAX_GBPS / 3)));
    for (const words of lies) a.receive(1, words);
    for (const rate of granted()) {
      expect(rate).toBeGreaterThanOrEqual(0);
      expect(rate).toBeLessThanOrEqual(MAX_GBPS / 3 + 1e-6);
    }
    for (const column of ['rMinGbps', 'receiverPart', 'readWeight'])
      expect(Number.isFinite(a.shown(column))).toBe(true);
  });

  test('a receiver that allows next to nothing holds back only what is sent to it', () => {
    const network = new Network(3);
    const [a] = network.hosts;
    const liars = Array.from({ length: 8 }, () => a.bulk(1));
    const other = a.bulk(2);
    a.latency(2);
    network.advance(MS);
    const granted = (page: typeof other) => a.coordinator.membersOf(rates).grant('rateGbps').of(page.row);
    expect(granted(other)).toBeCloseTo(MAX_GBPS / 10, 3);
    a.receive(1, wordsOf(SHARES, 99, 1e-9));
    expect(granted(other)).toBeGreaterThanOrEqual(0.98 * (MAX_GBPS / 10));
    for (const page of liars) {
      expect(granted(page)).toBeGreaterThan(0);
      expect(granted(page)).toBeLessThan(MAX_GBPS / 1000);
    }
    // A share of 0 says nothing.
    a.receive(1, wordsOf(SHARES, 100, 0, 0));
    for (const page of [...liars, other]) expect(granted(page)).toBeCloseTo(MAX_GBPS / 10, 3);
    a.receive(1, wordsOf(SHARES, 101, 1, 1));
    expect(granted(other)).toBeCloseTo(MAX_GBPS / 10, 3);
  });

  test.each([
    [{}, 64],
    [{ maxPeerWeight: 4 }, 4],
  ])('with %j, a peer that claims any weight counts as %d', (options, most) => {
    const network = new Network(3, options);
    const [a, , sender] = network.hosts;
    const page = a.bulk(1);
    sender.bulk(0);
    network.advance(MS);
    network.copiesOf = ({ from }) => (from === 1 ? 0 : 1);
    a.receive(1, wordsOf(DEMAND, 9, 1e9, 1e9));
    network.advance(MS);
    expect(a.shown('readWeight')).toBe(most);
    const granted = a.coordinator.membersOf(rates).grant('rateGbps').of(page.row);
    expect(granted).toBeCloseTo(MAX_GBPS / (most + 2), 3);
    expect(sender.shown('receiverPart')).toBeCloseTo(1 / (most + 2), 6);
  });

  test('a peer counts for more than maxPeerWeight where the own members do', () => {
    const network = new Network(2);
    const [a, reader] = network.hosts;
    const own = a.bulk(1, 300);
    const page = reader.join({ hungryWeight: 200 });
    reader.tell(page, 0, { reads: 200 });
    network.advance(MS);
    expect(a.shown('readWeight')).toBe(200);
    expect(reader.told.at(-1)!.words[4]).toBeCloseTo(LINK_GBPS / 500, 6);
    a.report(own, { hungryWeight: 100 });
    network.advance(MS);
    expect(a.shown('readWeight')).toBe(100);
    // Together, its readers get no more than what they count for.
    expect(200 * reader.told.at(-1)!.words[4]).toBeCloseTo((LINK_GBPS * 100) / 400, 3);
  });

  test('shares are read as 1 at most, and small ones count', () => {
    const network = new Network(2);
    const [a] = network.hosts;
    a.bulk(1, 0.25);
    a.latency(1);
    const page = a.join({ hungryWeight: 0 });
    a.tell(page, 1, { reads: 1 });
    a.receive(1, wordsOf(SHARES, 9, 5, 7));
    expect(a.shown('receiverPart')).toBe(0.25);
    expect(a.told.at(-1)!.words[4]).toBe(a.shown('maxGbps'));
    a.receive(1, wordsOf(SHARES, 10, 0.125));
    expect([a.shown('receiverPart'), a.shown('rMinGbps')]).toEqual([0.25 / 8, near(MAX_GBPS / 32)]);
  });

  test('a flood gets at most one answer for each message, and sets one timer', () => {
    const network = new Network(2);
    const [a] = network.hosts;
    a.bulk(1);
    a.latency(1);
    network.advance(MS);
    network.copiesOf = () => 0;
    const { sent } = a;
    const COUNT = 5000;
    for (let i = 0; i < COUNT; i++) {
      const kind = i % 3 === 0 ? SHARES : DEMAND;
      a.receive(1, wordsOf(kind, 1 + (i % 1000), (i % 7) / 7, i % 5, i % 2 === 0));
      a.receive(1, Float64Array.of(Math.sin(i) * 1e9, i));
    }
    expect(a.sent - sent).toBeLessThanOrEqual(COUNT);
    expect(a.timers.size).toBeLessThanOrEqual(2);
    expect(a.shown('rMinGbps')).toBeLessThanOrEqual(MAX_GBPS + 1e-6);
  });
});

describe('members that say odd things', () => {
  const odd: [string, Float64Array][] = [
    ['no words', new Float64Array(0)],
    ['too many words', flowWords(1, 0, 1, 1, 1, 1)],
    ['a negative weight', flowWords(1, 0, -1, 0, 1)],
    ['a weight that is not a number', flowWords(1, 0, Number.NaN, 0, 1)],
    ['READs that are not a number', flowWords(1, 0, 0, Number.NaN, 1)],
    ['words that are no GID', flowWords(1, 0, 1, 0, 1).map((word, i) => (i === 2 ? 0.5 : word))],
  ];

  test.each(odd)('%s are ignored', (_, words) => {
    const network = new Network(2);
    const [a] = network.hosts;
    a.agent.onTold(0, words, a.out);
    network.advance(10 * MS);
    expect([network.sent, a.probes.length]).toEqual([0, 0]);
  });

  test('an infinite weight leaves the limits of other hosts in force', () => {
    const network = new Network(2);
    const [a, reader] = network.hosts;
    a.bulk(1);
    const reads = reader.join({ hungryWeight: 1 });
    reader.tell(reads, 0, { reads: 1 });
    network.advance(10 * DELAY_NS);
    expect(reader.told.at(-1)!.words[4]).toBeCloseTo(LINK_GBPS / 2, 3);
    const page = a.join({ hungryWeight: Number.POSITIVE_INFINITY });
    a.agent.onTold(page.row, flowWords(1, 0, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0), a.out);
    network.advance(10 * DELAY_NS);
    // 0 would stand for no limit.
    expect(reader.told.at(-1)!.words[4]).toBeGreaterThan(0);
    expect(reader.told.at(-1)!.words[4]).toBeLessThan(1);
    for (const column of ['rMinGbps', 'receiverPart', 'readWeight'])
      expect(Number.isFinite(a.shown(column)), column).toBe(true);
  });

  test('a member keeps at most 1,024 peers', () => {
    const network = new Network(2);
    const [a] = network.hosts;
    for (let i = 0; i < 1100; i++) {
      const words = flowWords(1, 0, 1, 0, 0);
      words[3] = i;
      a.agent.onTold(0, words, a.out);
    }
    const { sent } = network;
    a.agent.onTold(0, flowWords(1, 0, 1, 0, 1), a.out);
    network.advance(10 * MS);
    expect([network.sent, a.probes.length]).toEqual([sent, 0]);
  });

  /** The words of a member about the peer of a number, which no agent is known at. */
  const unknown = (number: number) => {
    const words = flowWords(1, 0, 1, 0, 0);
    words.set([0x20010db8, number], 0);
    return words;
  };

  test('in a daemon, the members of a tenant keep at most 4,096 peers, and others keep theirs', () => {
    const network = new Network(2, {}, true);
    const [a] = network.hosts;
    for (let i = 0; i < 8; i++) {
      const { row } = a.join({ hungryWeight: 1 }, 'liar');
      for (let k = 0; k < 1000; k++) a.agent.onTold(row, unknown(k), a.out);
    }
    network.advance(20 * MS);
    const { sent } = network;
    // One more peer of the liar, which an agent is known at; then the same of another tenant.
    a.agent.onTold(a.join({ hungryWeight: 1 }, 'liar').row, flowWords(1, 0, 1, 0, 0), a.out);
    network.advance(20 * MS);
    expect(network.sent).toBe(sent);
    a.tell(a.join({ hungryWeight: 1 }, 'other'), 1, { sends: 1 });
    network.advance(20 * MS);
    expect(network.sent).toBeGreaterThan(sent);
  });

  test('in a daemon, thousands of peers are added up once per microsecond and peer', () => {
    const network = new Network(2, {}, true);
    const [a] = network.hosts;
    const { row } = a.join({ hungryWeight: 1 }, 'liar');
    const other = a.join({ hungryWeight: 1 }, 'other');
    for (let k = 0; k < 1000; k++) a.agent.onTold(row, unknown(k), a.out);
    network.advance(20 * MS);
    const { sent } = network;
    // Each of these would send an update.
    for (let i = 0; i < 1000; i++) {
      a.tell(other, 1, { sends: (1 + (i % 2)) / 2 });
      network.advance(2000);
    }
    expect(network.sent).toBeGreaterThan(sent);
    expect(network.sent - sent).toBeLessThanOrEqual(10);
  });
});
