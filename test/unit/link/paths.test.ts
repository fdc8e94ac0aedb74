import { describe, expect, it } from 'vitest';
import { Paths } from '#src/policies/link/paths.ts';

const [NEAR, FAR] = [0, 1];
const EXPECTED_NS = 4000;

/** Queue pairs in flight on the paths; samples of these follow. */
function fly(...on: number[]): Paths {
  const paths = new Paths();
  for (const [qp, path] of on.entries()) {
    paths.land(qp);
    paths.fly(qp, path);
  }
  return paths;
}

/** Requests of both queue pairs complete, by this much later than due. */
function time(paths: Paths, lateNs: readonly [number, number], sinceNs = 0): void {
  for (let i = 0; i < 50; i++)
    for (const [qp, late] of lateNs.entries())
      paths.compare(qp, late, EXPECTED_NS + late, sinceNs + i * EXPECTED_NS, EXPECTED_NS);
}

describe('a path that is late', () => {
  it('counts for the part of the time that the least late one explains', () => {
    const paths = fly(NEAR, FAR);
    time(paths, [0, 12_000]);
    expect(paths.partOf(0)).toBeCloseTo(1, 2);
    expect(paths.partOf(1)).toBeCloseTo(1 / 4, 2);
  });

  it('has a window, which its queue pairs share, and others have no such limit', () => {
    const paths = fly(NEAR, FAR, FAR);
    time(paths, [0, 12_000]);
    expect(paths.mostBytes(0, 10_000)).toBe(Number.POSITIVE_INFINITY);
    expect(paths.mostBytes(1, 10_000)).toBe(5000);
    paths.land(2);
    expect(paths.mostBytes(1, 10_000)).toBe(10_000);
  });

  it('counts in full while no other path is in use', () => {
    const paths = fly(NEAR, FAR);
    time(paths, [0, 12_000]);
    paths.land(0);
    expect(paths.partOf(1)).toBe(1);
    expect(paths.mostBytes(1, 10_000)).toBe(Number.POSITIVE_INFINITY);
  });

  it('counts in full again once it is as fast as the others', () => {
    const paths = fly(NEAR, FAR);
    time(paths, [0, 12_000]);
    time(paths, [0, 0], 1e6);
    expect(paths.partOf(1)).toBeCloseTo(1, 2);
  });
});

it('paths that are equally late count in full: the device itself delays them', () => {
  const paths = fly(NEAR, FAR);
  time(paths, [12_000, 12_000]);
  expect(paths.partOf(0)).toBeCloseTo(1, 2);
  expect(paths.partOf(1)).toBeCloseTo(1, 2);
});

it('paths count in full again once the least late one has become late', () => {
  const paths = fly(NEAR, FAR);
  time(paths, [0, 12_000]);
  for (const sinceNs of [1e6, 2e6]) time(paths, [12_000, 12_000], sinceNs);
  expect(paths.partOf(1)).toBeCloseTo(1, 2);
});

it('queue pairs without a known path count in full', () => {
  const paths = fly(NEAR, FAR);
  paths.land(5);
  paths.fly(5, -1);
  paths.compare(5, 1e5, 1e5, 0, EXPECTED_NS);
  expect(paths.partOf(5)).toBe(1);
});
