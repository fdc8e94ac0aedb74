// The closed forms of Palos's claims.
import { expect, test } from 'vitest';
import {
  byteShares,
  cutTimeShares,
  packetRoundGrowth,
  packetShares,
  timeShares,
} from '../../src/papers/palos/closed-form.ts';

const PACKETS = { mtuBytes: 1500, headerBytes: 82, rethBytes: 16 };
const flowsOf = (bytes: number, large = 1) => ({
  small: { count: 16, bytes },
  large: { count: large, bytes: 2e6 },
});
const SIZES = [256, 512, 1024, 2048, 4096];
const rounded = (values: number[]) => values.map((value) => value.toFixed(4));

test('with equal bytes, small and large flows get 16/17 and 1/17 of the payload', () => {
  expect(byteShares(flowsOf(256))).toEqual({ small: 16 / 17, large: 1 / 17 });
});

test('relative to alone, equal bytes in whole packets give shares that depend little on the size', () => {
  const shares = SIZES.map((bytes) => timeShares(flowsOf(bytes), PACKETS));
  expect(rounded(shares.map(({ small }) => small))).toEqual([
    '0.9545',
    '0.9476',
    '0.9433',
    '0.9429',
    '0.9417',
  ]);
  expect(rounded(shares.map(({ large }) => large))).toEqual([
    '0.0455',
    '0.0524',
    '0.0567',
    '0.0571',
    '0.0583',
  ]);
});

test('slices that are cut at the byte need more headers, except where chunks end with messages', () => {
  for (const bytes of SIZES) {
    const [whole, cut] = [timeShares(flowsOf(bytes), PACKETS), cutTimeShares(flowsOf(bytes), 1500, PACKETS)];
    expect(cut.small).toBeLessThan(whole.small);
    expect(cut.small + cut.large).toBeLessThan(1);
  }
  // 3 whole messages of 500 B per chunk: only the large flow is cut, mostly into messages of one packet.
  const { small, large } = cutTimeShares(flowsOf(500), 1500, PACKETS);
  const round = 16 * 3 * (500 + 98) + 1500 + 98;
  expect(small).toBeCloseTo((16 * 3 * (500 + 98)) / round, 5);
  expect(large).toBeCloseTo((1500 * (1 + (1334 * 82 + 16) / 2e6)) / round, 5);
});

test('with one packet per round, a message longer than the MTU counts as its packets', () => {
  expect(packetShares(flowsOf(64), PACKETS).large).toBeCloseTo(2e6 / 1334 / (2e6 / 1334 + 16 * 64), 12);
  expect(packetShares(flowsOf(2048), PACKETS).small).toBeCloseTo((16 * 1024) / (16 * 1024 + 2e6 / 1334), 12);
});

test('with one packet per round, more large flows lengthen the round of all', () => {
  const { small, large } = packetRoundGrowth(flowsOf(64, 8), PACKETS);
  const packet = (2e6 + 1334 * 82 + 16) / 1334;
  expect(small).toBeCloseTo((16 * 162 + packet) / (16 * 162 + 8 * packet), 12);
  expect(large).toBeCloseTo(8 * small, 12);
});
