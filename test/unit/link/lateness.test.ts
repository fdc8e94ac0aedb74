// How late polls are, by context: what a thread that polls late has in flight counts in part, and what others have counts whole.
import { beforeEach, expect, test } from 'vitest';
import { Lateness } from '#src/policies/link/lateness.ts';
import type { WindowOptions } from '#src/policies/link/window-options.ts';
import { WindowSizes } from '#src/policies/link/window-sizes.ts';
import type { ContextView, QpView } from '#src/shim/policy.ts';

const PER_NS = 12.5;
const LATE_NS = 50_000;
const WIRE = { mtuBytes: 4096, headerBytes: 60 };
const WINDOW = {
  linkPerNs: PER_NS,
  pieceBytes: 4096,
  sparePieces: 1,
  fetchedPieces: 0,
  endedPieces: 0,
  lengthensPieces: true,
} as WindowOptions;
const [late, prompt] = [{}, {}] as ContextView[];
const qp = (index: number, context: ContextView) => ({ index, context }) as QpView;

let sizes: WindowSizes;
let lateness: Lateness;

beforeEach(() => {
  sizes = new WindowSizes();
  sizes.fit(WINDOW, WIRE, 2000);
  lateness = new Lateness(sizes);
  for (const index of [0, 1]) lateness.add(qp(index, late));
  lateness.add(qp(2, prompt));
  const polls = lateness.of(0);
  polls.suspect(0, { lateNs: LATE_NS, usedPart: 0.1, eachNs: 1600, pieceNs: 300 }, 0);
  expect(polls.next(10)).toBe(true);
  lateness.fit(WINDOW);
});

test('all queue pairs of a context are polled late, and those of others are not', () => {
  expect([0, 1, 2].map((index) => lateness.of(index).ns)).toEqual([LATE_NS, LATE_NS, 0]);
  expect(lateness.coveredNs).toBe(1.25 * LATE_NS);
});

test('a window of what they have in flight covers the lateness; that of the others does not', () => {
  const { windowBytes } = sizes;
  expect(lateness.partOf(1) * (windowBytes + 1.25 * LATE_NS * PER_NS)).toBeCloseTo(windowBytes, 6);
  expect(lateness.partOf(2)).toBe(1);
});

test('a window of a given length is not exceeded', () => {
  lateness.fit({ ...WINDOW, windowBytes: 1e5 });
  expect(lateness.partOf(0)).toBe(1);
});

test('only their pieces are longer, unless pieces keep their length', () => {
  expect(lateness.pieceBytesOf(0, 4096)).toBeGreaterThan(16_384);
  expect(lateness.pieceBytesOf(2, 4096)).toBe(4096);
  lateness.fit({ ...WINDOW, lengthensPieces: false });
  expect(lateness.pieceBytesOf(0, 4096)).toBe(4096);
});

test('a context without queue pairs is forgotten', () => {
  for (const index of [0, 1]) lateness.remove(qp(index, late));
  lateness.fit(WINDOW);
  expect([lateness.coveredNs, lateness.of(0).ns]).toEqual([0, 0]);
  lateness.add(qp(0, late));
  expect(lateness.of(0).ns).toBe(0);
});
