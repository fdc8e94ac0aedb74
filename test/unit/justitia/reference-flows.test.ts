// The agent of justitia: updates between hosts, what receivers allow, reference flows, and peers that fail.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rates } from '../../../src/policies/justitia/rates.ts';
import { DEMAND } from '../../../src/policies/justitia/updates.ts';
import { gidToWords } from '../../../src/verbs/gid.ts';
import { DELAY_NS, gidOf, LINK_GBPS, Network, wordsOf } from './agent-network.ts';

const MAX_GBPS = 0.97 * LINK_GBPS;
const MS = 1e6;
const near = (value: number) => expect.closeTo(value, 6);

describe('updates', () => {
  test('an incast of n hosts and a latency application: each is allowed 1/(n + 1), all within a few messages', () => {
    const network = new Network(5);
    const [receiver, ...senders] = network.hosts;
    for (const host of senders) host.bulk(0);
    senders[0].latency(0);
    network.advance(10 * DELAY_NS);
    for (const host of senders) expect(host.shown('rMinGbps')).toBeCloseTo(MAX_GBPS / 5, 3);
    expect(receiver.shown('remoteLatency')).toBe(1);
    expect(network.sent).toBeLessThan(80);
  });

  test('are sent on change only', () => {
    const network = new Network(3);
    const [, a, b] = network.hosts;
    const page = a.bulk(0);
    b.latency(0);
    network.advance(200 * MS);
    const { sent } = network;
    network.advance(1000 * MS);
    for (const host of network.hosts) host.decide();
    a.tell(page, 0, { sends: 1 });
    expect(network.sent).toBe(sent);
    a.tell(page, 0, { sends: 2 });
    network.advance(10 * DELAY_NS);
    expect(network.sent).toBeGreaterThan(sent);
    expect(network.sent).toBeLessThanOrEqual(sent + 6);
  });

  test('without losses, nothing is repeated', () => {
    const network = new Network(3);
    const [, a, b] = network.hosts;
    a.bulk(0);
    const page = b.latency(0);
    network.advance(100 * MS);
    for (const latency of [false, true]) {
      b.tell(page, 0, { latency });
      network.advance(10 * DELAY_NS);
      const { sent } = network;
      network.advance(100 * MS);
      expect(network.sent).toBe(sent);
    }
  });

  test.each([
    ['all messages of the sender', 1],
    ['all messages of the receiver', 0],
  ])('%s are lost for a while: updates are repeated until they are confirmed', (_, from) => {
    const network = new Network(3);
    const [receiver, a, b] = network.hosts;
    network.copiesOf = (message) => (message.from === from ? 0 : 1);
    a.bulk(0);
    b.bulk(0);
    b.latency(0);
    network.advance(50 * MS);
    // Until its receiver speaks, a host follows its own formula: it has no latency application, so it is not held back.
    expect(a.shown('receiverPart')).toBe(1);
    network.copiesOf = () => 1;
    network.advance(250 * MS);
    expect(a.shown('rMinGbps')).toBeCloseTo(MAX_GBPS / 3, 3);
    expect(receiver.sent).toBeGreaterThan(0);
    const { sent } = network;
    network.advance(1000 * MS);
    expect(network.sent).toBe(sent);
  });

  test('repeats become rare: with all messages lost, one in 100 ms', () => {
    const network = new Network(2);
    network.copiesOf = () => 0;
    network.hosts[1].setPeer(0, 'up');
    network.hosts[1].bulk(0);
    network.advance(1000 * MS);
    const { sent } = network;
    expect(sent).toBeGreaterThan(10);
    network.advance(1000 * MS);
    expect(network.sent - sent).toBe(10);
  });

  test('whatever is lost or doubled, hosts agree in the end', { tags: ['long'] }, () => {
    const change = fc.record({
      host: fc.integer({ min: 1, max: 3 }),
      sends: fc.nat(4),
      reads: fc.nat(2),
      latency: fc.boolean(),
      waitNs: fc.constantFrom(0, 1000, 5000, 2e6),
    });
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 12 }),
        fc.infiniteStream(fc.constantFrom(0, 1, 1, 2)),
        (changes, copies) => {
          const network = new Network(4);
          network.copiesOf = () => copies.next().value ?? 1;
          const pages = network.hosts.map((host) => host.join({}));
          const last = new Map<number, (typeof changes)[number]>();
          for (const one of changes) {
            const host = network.hosts[one.host];
            last.set(one.host, one);
            const { sends, reads, latency } = one;
            host.report(pages[one.host], { hungryWeight: sends + reads, latencyWeight: latency ? 1 : 0 });
            host.tell(pages[one.host], 0, { sends, reads, latency });
            network.advance(one.waitNs);
          }
          network.copiesOf = () => 1;
          network.advance(500 * MS);
          const all = [...last.values()];
          const total = (key: 'sends' | 'reads') => all.reduce((sum, one) => sum + one[key], 0);
          const latency = all.some((one) => one.latency) ? 1 : 0;
          expect(network.hosts[0].shown('readWeight')).toBe(total('reads'));
          expect(network.hosts[0].shown('remoteLatency')).toBe(latency);
          for (const [number, { sends, reads }] of last) {
            if (sends === 0 || reads > 0) continue;
            const part = Math.min(1, sends / Math.max(1, total('sends') + latency));
            expect(network.hosts[number].shown('receiverPart')).toBeCloseTo(part, 6);
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});

describe('what receivers allow', () => {
  test('counts each receiver: R is the sum over the members of what theirs allow', () => {
    const network = new Network(4);
    const [x, y, a, b] = network.hosts;
    a.bulk(0);
    a.bulk(1, 2);
    for (let i = 0; i < 3; i++) b.bulk(0);
    b.latency(0);
    network.advance(10 * DELAY_NS);
    // x: four senders and a latency application; y: a weight of two alone.
    expect(a.shown('receiverPart')).toBeCloseTo(Math.min(1, 1 / 5 + 2 / 2), 6);
    expect([x.shown('remoteLatency'), y.shown('remoteLatency')]).toEqual([1, 0]);
    for (let i = 0; i < 7; i++) b.bulk(1);
    network.advance(10 * DELAY_NS);
    expect(a.shown('receiverPart')).toBeCloseTo(1 / 5 + 2 / 9, 6);
    expect(a.shown('rMinGbps')).toBeCloseTo((1 / 5 + 2 / 9) * MAX_GBPS, 3);
  });

  test('with latencyCounts=weight, receivers count the weights of local and remote latency applications', () => {
    for (const [latencyCounts, L] of [
      ['one', 1],
      ['weight', 3.5],
    ] as const) {
      const network = new Network(3, { latencyCounts });
      const [receiver, a, b] = network.hosts;
      a.bulk(0);
      b.bulk(0);
      const page = a.latency(0, 0.5);
      b.latency(0, 3);
      network.advance(10 * DELAY_NS);
      expect([a, b].map((host) => host.shown('receiverPart'))).toEqual(Array(2).fill(near(1 / (2 + L))));
      expect(receiver.shown('remoteLatency')).toBe(L);
      // A READ leaves through the responder, which has latency applications, too.
      receiver.latency(1, 5);
      const reader = b.join({ hungryWeight: 1 });
      b.tell(reader, 0, { reads: 1 });
      network.advance(10 * DELAY_NS);
      const most = latencyCounts === 'one' ? 1 : 5;
      expect(b.told.at(-1)!.words[4]).toBeCloseTo(MAX_GBPS / (1 + most), 3);
      a.report(page, { latencyWeight: 8 });
      network.advance(10 * DELAY_NS);
      expect(receiver.shown('remoteLatency')).toBe(latencyCounts === 'one' ? 1 : 11);
    }
  });

  test('the shares of members whose receivers allow less go down, and those of others stay', () => {
    const network = new Network(4);
    const [, , a] = network.hosts;
    const [crowded, other] = [a.bulk(0), a.bulk(1)];
    a.latency(1);
    for (let i = 0; i < 8; i++) network.hosts[3].bulk(0);
    network.hosts[3].latency(0);
    network.advance(10 * DELAY_NS);
    const granted = (page: typeof other) => a.coordinator.membersOf(rates).grant('rateGbps').of(page.row);
    expect(granted(other)).toBeGreaterThanOrEqual(MAX_GBPS / 3);
    expect(granted(crowded)).toBeGreaterThanOrEqual(MAX_GBPS / 10);
    expect(granted(crowded)).toBeLessThan(MAX_GBPS / 7);
  });

  test('a member that leaves returns its share to the others', () => {
    const network = new Network(3);
    const [, a, b] = network.hosts;
    const left = a.bulk(0);
    b.bulk(0);
    b.latency(0);
    network.advance(10 * DELAY_NS);
    expect(b.shown('receiverPart')).toBeCloseTo(1 / 3, 6);
    a.coordinator.leave(left);
    a.agent.onLeft(left.row, a.out);
    network.advance(10 * DELAY_NS);
    expect(b.shown('receiverPart')).toBeCloseTo(1 / 2, 6);
  });

  test('a peer that goes down: its sender returns to the local formula, and its receiver forgets it', () => {
    const network = new Network(3);
    const [receiver, a, b] = network.hosts;
    a.bulk(0);
    a.latency(0);
    for (let i = 0; i < 8; i++) b.bulk(0);
    network.advance(10 * DELAY_NS);
    expect(a.shown('rMinGbps')).toBeCloseTo(MAX_GBPS / 10, 3);
    a.setPeer(0, 'down');
    expect(a.shown('rMinGbps')).toBeCloseTo(MAX_GBPS / 2, 3);
    receiver.setPeer(2, 'down');
    network.advance(10 * DELAY_NS);
    // Of a, the receiver still knows.
    expect(receiver.shown('remoteLatency')).toBe(1);
    receiver.setPeer(1, 'down');
    expect(receiver.shown('remoteLatency')).toBe(0);
    a.setPeer(0, 'up');
    receiver.setPeer(1, 'up');
    network.advance(10 * DELAY_NS);
    expect([a.shown('rMinGbps'), receiver.shown('remoteLatency')]).toEqual([near(MAX_GBPS / 2), 1]);
  });
});

describe('a peer that is silent', () => {
  test('is watched while it matters, and until it is heard again, only local rules count', () => {
    const network = new Network(3);
    const [receiver, a, b] = network.hosts;
    const page = a.bulk(0);
    b.latency(0);
    const reader = a.join({ hungryWeight: 1 });
    a.tell(reader, 0, { reads: 1 });
    receiver.bulk(2);
    network.advance(10 * DELAY_NS);
    expect([...a.watched, ...receiver.watched].sort()).toEqual([0, 1, 2]);
    const shown = () => [a.shown('receiverPart'), a.shown('remoteLatency'), a.told.at(-1)!.words[4]];
    const before = shown();
    a.agent.onSilent(0, true, a.out);
    expect(shown()).toEqual([1, 0, 0]);
    a.agent.onSilent(0, false, a.out);
    expect(shown()).toEqual(before);
    const readWeight = () => [receiver.shown('readWeight'), receiver.shown('remoteLatency')];
    expect(readWeight()).toEqual([1, 1]);
    for (const [peer, left] of [
      [1, 0],
      [2, 0],
    ] as const) {
      receiver.agent.onSilent(peer, true, receiver.out);
      expect(receiver.shown('readWeight')).toBe(left);
    }
    expect(readWeight()).toEqual([0, 0]);
    for (const peer of [1, 2]) receiver.agent.onSilent(peer, false, receiver.out);
    expect(readWeight()).toEqual([1, 1]);
    a.tell(page, 0, {});
    a.tell(reader, 0, {});
    network.advance(10 * DELAY_NS);
    expect(a.watched.size).toBe(0);
  });

  test('a peer that was down at one end only says again what it does', () => {
    const network = new Network(3);
    const [receiver, a, b] = network.hosts;
    a.bulk(0);
    b.bulk(0);
    a.latency(0);
    network.advance(10 * DELAY_NS);
    receiver.setPeer(1, 'down');
    network.advance(10 * DELAY_NS);
    expect(b.shown('receiverPart')).toBe(1);
    receiver.setPeer(1, 'up');
    network.advance(10 * DELAY_NS);
    expect([b.shown('receiverPart'), receiver.shown('remoteLatency')]).toEqual([near(1 / 3), 1]);
    expect(a.shown('receiverPart')).toBeCloseTo(1 / 3, 6);
  });
});

describe('READs', () => {
  test('the responder counts the reader, and tells it what a unit of weight may READ', () => {
    const network = new Network(2);
    const [responder, reader] = network.hosts;
    responder.bulk(1);
    responder.latency(1);
    const page = reader.join({ hungryWeight: 2 });
    reader.tell(page, 0, { reads: 2 });
    network.advance(10 * DELAY_NS);
    expect(responder.shown('readWeight')).toBe(2);
    expect(responder.shown('rMinGbps')).toBeCloseTo((3 / 4) * MAX_GBPS, 3);
    const last = reader.told.at(-1)!;
    expect(last.member).toBe(page.row);
    expect(last.words.slice(0, 4)).toEqual([...gidToWords(gidOf(0))]);
    expect(last.words[4]).toBeCloseTo(reader.shown('maxGbps') / 4, 3);
    // Without an agent there, nothing is known, and nothing is paced.
    reader.setPeer(0, 'down');
    expect(reader.told.at(-1)!.words[4]).toBe(0);
    reader.tell(page, 0, {});
    responder.setPeer(1, 'down');
    expect(responder.shown('readWeight')).toBe(0);
  });

  test('a reader that begins when its peer is known already is told at once', () => {
    const network = new Network(2);
    const [, reader] = network.hosts;
    reader.bulk(0);
    network.advance(10 * DELAY_NS);
    const page = reader.join({ hungryWeight: 1 });
    reader.tell(page, 0, { reads: 1 });
    expect(reader.told).toHaveLength(1);
  });
});

describe('reference flows', () => {
  /** The times of the probes in a millisecond. */
  function probesOf(options: { seed?: number; refPeriodUs?: number } = {}): number[] {
    const network = new Network(2, options);
    network.hosts[0].latency(1);
    network.advance(MS);
    return network.hosts[0].probes.map(({ atNs }) => atNs);
  }

  test('a flow goes to each host with latency applications at either end, and ends with them', () => {
    const network = new Network(3);
    const [a, b, c] = network.hosts;
    const page = a.latency(1);
    network.advance(MS);
    const peersOf = (host: typeof a) => new Set(host.probes.map(({ peer }) => peer));
    expect([peersOf(a), peersOf(b), peersOf(c)]).toEqual([new Set([1]), new Set([0]), new Set()]);
    // c begins to send to a receiver of latency applications.
    c.bulk(1);
    network.advance(MS);
    expect(peersOf(c)).toEqual(new Set([1]));
    a.tell(page, 1, {});
    a.coordinator.leave(page);
    network.advance(MS);
    const counts = network.hosts.map(({ probes }) => probes.length);
    network.advance(5 * MS);
    expect(network.hosts.map(({ probes }) => probes.length)).toEqual(counts);
    expect(a.shown('estimateNs')).toBe(0);
  });

  test('on a slow path they are sent less often, but never more than 50 periods apart', () => {
    const gapAfter = (latencyNs: number) => {
      const network = new Network(2);
      const [a] = network.hosts;
      a.setPeer(1, 'up');
      a.latency(1);
      a.agent.onProbe(1, latencyNs, a.out);
      network.advance(5 * MS);
      return a.probes[2].atNs - a.probes[1].atNs;
    };
    expect(gapAfter(1000) / 20_000).toBeCloseTo(1, 0);
    expect(gapAfter(10_000) / 80_000).toBeCloseTo(1, 0);
    expect(gapAfter(67e6) / 20_000).toBeLessThanOrEqual(50 * 1.25);
  });

  test('the jitter is at most a quarter of the period, and repeats with its seed', () => {
    const times = probesOf();
    expect(times.length).toBeGreaterThan(40);
    const gaps = times.slice(1).map((ns, i) => ns - times[i]);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(15_000);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(25_000);
    expect(Math.max(...gaps) - Math.min(...gaps)).toBeGreaterThan(5000);
    expect(probesOf()).toEqual(times);
    expect(probesOf({ seed: 2 })).not.toEqual(times);
    expect(probesOf({ refPeriodUs: 100 }).length).toBeLessThan(14);
  });

  test('the estimate is the p99 of the worst receiver with enough samples, which is named', () => {
    const network = new Network(3, { targetUs: 10 });
    const [a] = network.hosts;
    for (const peer of [1, 2]) {
      a.setPeer(peer, 'up');
      a.latency(peer);
    }
    const probe = (peer: number, ns: number, count: number) => {
      for (let i = 0; i < count; i++) a.agent.onProbe(peer, ns, a.out);
    };
    probe(1, 1500, 199);
    expect(a.shown('estimateNs')).toBe(0);
    probe(1, 1500, 1);
    expect([a.shown('estimateNs'), a.worstPeer]).toEqual([1500, gidOf(1)]);
    probe(2, 1400, 198);
    probe(2, 3000, 3);
    expect([a.shown('estimateNs'), a.worstPeer]).toEqual([3000, gidOf(2)]);
    // A peer without a flow has no say.
    probe(0, 9000, 500);
    expect(a.shown('estimateNs')).toBe(3000);
  });

  test('how often reference flows send is measured, and is 0 without any', () => {
    const network = new Network(3);
    const [a] = network.hosts;
    const pages = [1, 2].map((peer) => {
      a.setPeer(peer, 'up');
      return a.latency(peer);
    });
    for (let i = 1; i <= 400; i++) {
      network.nowNs += 20_000;
      for (const peer of i <= 200 ? [1, 2] : [1]) a.agent.onProbe(peer, 1500, a.out);
      if (i === 200) expect(a.shown('probesPerS')).toBeCloseTo(100_000, -4);
    }
    expect(a.shown('probesPerS')).toBeCloseTo(50_000, -3);
    for (const [i, page] of pages.entries()) a.tell(page, i + 1, {});
    expect(a.shown('probesPerS')).toBe(0);
  });

  test('a tail that is certain to be too long counts before there are 200 samples; lost messages were too late', () => {
    const network = new Network(2);
    const [a] = network.hosts;
    a.setPeer(1, 'up');
    a.latency(1);
    a.bulk(1);
    network.nowNs += 1e6;
    for (let i = 0; i < 2; i++) a.agent.onProbe(1, Number.NaN, a.out);
    expect(a.shown('falls')).toBe(0);
    network.nowNs += 1e6;
    a.agent.onProbe(1, Number.NaN, a.out);
    expect(a.shown('falls')).toBe(1);
    // The window begins anew, so that one late message says nothing.
    network.nowNs += 1e6;
    a.agent.onProbe(1, 5000, a.out);
    expect([a.shown('falls'), a.shown('estimateNs')]).toEqual([1, 0]);
  });

  test('an agent whose device has decided nothing begins a flow with the first decision', () => {
    const [network, decided] = [new Network(1), new Network(1)];
    for (const { hosts } of [network, decided]) {
      const [host] = hosts;
      if (hosts === decided.hosts) host.decide();
      host.setPeer(1, 'up');
      host.agent.onMessage(1, wordsOf(DEMAND, 1, 0), host.out);
      host.decide();
    }
    for (const one of [network, decided]) one.advance(MS);
    expect(network.hosts[0].probes.length).toBeGreaterThan(40);
    expect(network.hosts[0].probes).toEqual(decided.hosts[0].probes);
  });
});
