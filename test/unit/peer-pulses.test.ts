// Peers that are asked for signs of life: how soon they are found to be silent, and what it costs.
import { expect, test } from 'vitest';
import { PeerPulses } from '../../src/coordinator/peer-pulses.ts';

const CHECK_NS = 10e6;

function ground(answerNs: (peer: number) => number = () => 1e6) {
  const changes: string[] = [];
  let [nowNs, asked] = [0, 0];
  const answers: { peer: number; atNs: number }[] = [];
  const pulses: PeerPulses = new PeerPulses(CHECK_NS, {
    ask: (peer) => {
      asked++;
      answers.push({ peer, atNs: nowNs + answerNs(peer) });
    },
    silent: (peer, isSilent) => changes.push(`${peer} ${isSilent ? 'silent' : 'heard'} ${nowNs / 1e6}`),
  });
  const pass = (ns: number) => {
    for (const endNs = nowNs + ns; nowNs < endNs; ) {
      nowNs += CHECK_NS;
      for (const { peer, atNs } of answers.splice(0)) {
        if (atNs > nowNs) answers.push({ peer, atNs });
        else pulses.heard(peer, atNs);
      }
      pulses.check(nowNs);
    }
  };
  const stall = (ns: number) => {
    nowNs += ns;
    pulses.check(nowNs);
  };
  return {
    pulses,
    changes,
    pass,
    stall,
    asked: () => asked,
    watch: (peer: number) => pulses.watch(peer, nowNs),
  };
}

test('a peer that answers is never silent, however long answers take, and is asked every 30 ms', () => {
  for (const ns of [1e6, 25e6, 59e6]) {
    const { watch, pass, changes, asked } = ground(() => ns);
    watch(7);
    pass(3e9);
    expect([changes, asked()]).toEqual([[], 100]);
  }
});

test('a peer is silent within 100 ms after it was last heard, and heard again with its next sign of life', () => {
  let isDead = false;
  const { watch, pass, changes, pulses } = ground(() => (isDead ? 1e15 : 1e6));
  watch(7);
  pass(1e9);
  isDead = true;
  pass(1e9);
  expect(changes).toHaveLength(1);
  const [peer, change, ms] = changes[0].split(' ');
  expect([peer, change]).toEqual(['7', 'silent']);
  expect(Number(ms)).toBeLessThanOrEqual(1100);
  pulses.heard(7, 2e9);
  expect(changes[1]).toMatch('7 heard');
});

test('peers are not silent because this process did not run, and none is asked that is not watched', () => {
  const { watch, pass, stall, changes, pulses, asked } = ground();
  watch(7);
  pass(1e9);
  stall(5e9);
  pass(1e9);
  expect(changes).toEqual([]);
  pulses.unwatch(7);
  const before = asked();
  pass(1e9);
  expect(asked()).toBe(before);
});

test('a clock that jumps back makes no peer silent, and all are asked again', () => {
  const { watch, pass, stall, changes, asked } = ground();
  watch(7);
  pass(1e9);
  stall(-0.9e9);
  const before = asked();
  pass(3e8);
  expect(changes).toEqual([]);
  expect(asked() - before).toBe(10);
});

test('the more peers there are, the less often each is asked: 3,200 requests per second at most', () => {
  const { watch, pass, changes, asked } = ground();
  for (let peer = 0; peer < 1000; peer++) watch(peer);
  pass(2e9);
  expect(changes).toEqual([]);
  expect(asked()).toBeLessThanOrEqual(2 * 3200);
  expect(asked()).toBeGreaterThan(2 * 2500);
});
