/** Queue pairs labelled `latency` under palos: what goes first, and the cap. */
import { expect, test } from 'vitest';
import type { Qp } from '../../../src/sim/transport/qp.ts';
import { ISO_TRAFFIC_BANDWIDTH, ISO_TRAFFIC_LATENCY } from '../../../src/verbs/constants.ts';
import { MTU, Rig } from './rig.ts';

const LATENCY = { traffic: ISO_TRAFFIC_LATENCY };
const SMALL = 64;

function others(rig: Rig, count: number): Qp[] {
  const qps = Array.from({ length: count }, () => rig.add());
  for (const qp of qps) rig.ready(qp);
  return qps;
}

/** How many of `packets` packets are of the hog, which is always ready, as the others are. */
function packetsOf(rig: Rig, hog: Qp, packets: number): number {
  let count = 0;
  for (let i = 0; i < packets; i++) {
    const qp = rig.send() as Qp;
    rig.ready(qp);
    if (qp === hog) count++;
  }
  return count;
}

test('a labelled queue pair goes before those whose turn it is', () => {
  const rig = new Rig();
  others(rig, 4);
  const urgent = rig.add(LATENCY);
  const declared = rig.add({ traffic: ISO_TRAFFIC_BANDWIDTH });
  rig.ready(declared);
  rig.ready(urgent);
  expect(rig.send(SMALL)?.qpn).toBe(urgent.qpn);
  expect(rig.send()?.qpn).not.toBe(declared.qpn);
});

test.each([
  [0, MTU],
  [4 * MTU, 4 * MTU],
])('palosUrgentBytes %i: a message of %i bytes goes first, a longer one takes its turn', (bytes, most) => {
  const rig = new Rig({ palosUrgentBytes: bytes });
  others(rig, 4);
  const urgent = rig.add(LATENCY);
  urgent.sq.length[0] = most;
  rig.ready(urgent);
  expect(rig.send()?.qpn).toBe(urgent.qpn);
  urgent.sq.length[0] = most + 1;
  rig.ready(urgent);
  expect(rig.send()?.qpn).not.toBe(urgent.qpn);
});

test('the cap is a part of the link, and a queue pair with a smaller share gets no more', () => {
  const rig = new Rig({ palosUrgentShare: 0.2 });
  others(rig, 15);
  const hog = rig.add(LATENCY);
  rig.ready(hog);
  rig.sendMany(100);
  expect(packetsOf(rig, hog, 5000) / 5000).toBeCloseTo(0.2, 2);
});

test('the label does not enlarge a share that exceeds the cap', () => {
  const rig = new Rig();
  others(rig, 3);
  const hog = rig.add(LATENCY);
  rig.ready(hog);
  rig.sendMany(100);
  expect(packetsOf(rig, hog, 4000) / 4000).toBeCloseTo(0.25, 2);
});

test('with palosUrgentShare 1 there is no cap, with 0 no precedence', () => {
  for (const [share, expected] of [
    [1, 1],
    [0, 0.2],
  ]) {
    const rig = new Rig({ palosUrgentShare: share });
    others(rig, 4);
    const hog = rig.add(LATENCY);
    rig.ready(hog);
    rig.sendMany(10);
    expect(packetsOf(rig, hog, 1000) / 1000).toBeCloseTo(expected, 2);
  }
});

test('a labelled queue pair that sends little keeps its precedence alongside one that uses up the cap', () => {
  const rig = new Rig();
  others(rig, 16);
  const hog = rig.add(LATENCY);
  rig.ready(hog);
  const modest = rig.add(LATENCY);
  rig.sendMany(200);
  for (let i = 0; i < 100; i++) {
    rig.ready(modest);
    expect(rig.send(SMALL)?.qpn).toBe(modest.qpn);
    // 146 bytes of 11 packets on the wire are less than half of 5 %.
    rig.sendMany(11);
  }
});

test('a queue pair that loses the label while the cap holds it back takes its turn', () => {
  const rig = new Rig();
  others(rig, 16);
  const hog = rig.add(LATENCY);
  rig.ready(hog);
  rig.sendMany(200);
  rig.label(hog, {});
  expect(packetsOf(rig, hog, 1700) / 1700).toBeCloseTo(1 / 17, 2);
  rig.label(hog, LATENCY);
  rig.ready(hog);
  rig.sendMany(100);
});
