import { describe, expect, it } from 'vitest';
import { Stretch } from '#src/policies/link/stretch.ts';

const WINDOW_BYTES = 20_000;
/** 100 Gbit/s. */
const LINK_PER_NS = 12.5;

/** A path on which a request takes `tripNs` under load, and which carries at most `mostPart` of the link. */
class Path {
  readonly stretch = new Stretch();
  tripNs: number;
  mostPart: number;
  isShort = false;
  mayBeFaster = true;
  private nowNs = 0;
  readonly sizes = { windowBytes: WINDOW_BYTES };
  sentBytes = 0;

  constructor(tripNs: number, mostPart = 1) {
    this.tripNs = tripNs;
    this.mostPart = mostPart;
  }

  /** The part of the link that the window fills. */
  get used(): number {
    return Math.min(this.mostPart, (WINDOW_BYTES * this.stretch.times) / this.tripNs / LINK_PER_NS);
  }

  /** Sends for some periods. Returns the lengths that the window has had. */
  send(periods: number, isLimiting = true): number[] {
    const times: number[] = [];
    for (let i = 0; i < periods; i++) {
      const perNs = this.used * LINK_PER_NS;
      const { sentBytes } = this;
      do this.sentBytes += 4000;
      while (!this.stretch.isOver(this, this.isShort));
      this.nowNs += (this.sentBytes - sentBytes) / perNs;
      this.stretch.next(this.nowNs, this.sentBytes, LINK_PER_NS, isLimiting, this.mayBeFaster);
      times.push(this.stretch.times);
    }
    return times;
  }
}

describe('the window', () => {
  it('becomes longer until it fills the link', () => {
    // It fills four fifths.
    const path = new Path(2000);
    path.send(60);
    expect(path.used).toBeGreaterThanOrEqual(0.95);
    expect(path.stretch.times).toBeLessThanOrEqual(1.25);
  });

  it('has its usual length if that fills the link', () => {
    expect(new Path(1650).send(200).every((times) => times === 1)).toBe(true);
  });

  it('has its usual length, except for a rare trial, if the bottleneck is elsewhere', () => {
    const longer = new Path(2000, 0.6).send(1000).filter((times) => times > 1);
    expect(longer.length).toBeGreaterThan(0);
    expect(longer.length).toBeLessThan(10);
  });

  it('stays at one and a half times its usual length', () => {
    expect(Math.max(...new Path(10_000).send(500))).toBe(1.5);
  });

  it('becomes long enough for several links that appear as one', () => {
    // It fills a tenth more than one of two links.
    const path = new Path(1455, 2);
    path.send(100);
    expect(path.used).toBeGreaterThanOrEqual(1.9);
    expect(path.stretch.times).toBeLessThan(2.3);
  });

  it('has at most eight times its usual length', () => {
    expect(Math.max(...new Path(1455, 100).send(500))).toBe(8);
  });

  it('has its usual length if the link carries no more than its rate', () => {
    expect(new Path(1455, 1.02).send(500).every((times) => times === 1)).toBe(true);
  });

  it('has its usual length if what is sent at once says nothing about the link', () => {
    const path = new Path(1455, 2);
    path.mayBeFaster = false;
    expect(path.send(500).every((times) => times === 1)).toBe(true);
  });

  it('becomes shorter again once a link that was faster is not', () => {
    const path = new Path(1455, 2);
    path.send(100);
    path.mostPart = 1;
    path.send(4000);
    expect(path.stretch.times).toBe(1);
  });

  it('stays as it is while no request waits for it', () => {
    expect(new Path(2000).send(100, false).every((times) => times === 1)).toBe(true);
  });

  it('stays as it is while all messages are short', () => {
    const path = new Path(2000);
    path.isShort = true;
    expect(path.send(200).every((times) => times === 1)).toBe(true);
  });

  it('stays as it is if the link is idle now and then for lack of requests', () => {
    const path = new Path(2000);
    for (let i = 0; i < 100; i++) {
      path.send(2);
      path.stretch.interrupt();
      expect(path.stretch.times).toBe(1);
    }
  });

  it('becomes shorter again once that costs nothing', () => {
    const path = new Path(2000);
    path.send(60);
    expect(path.stretch.times).toBeGreaterThan(1);
    path.tripNs = 1600;
    path.send(2000);
    expect(path.stretch.times).toBe(1);
  });

  it('becomes shorter again once the bottleneck is elsewhere', () => {
    const path = new Path(2000);
    path.send(60);
    expect(path.stretch.times).toBeGreaterThan(1);
    path.mostPart = 0.6;
    path.send(1000);
    expect(path.stretch.times).toBe(1);
  });
});
