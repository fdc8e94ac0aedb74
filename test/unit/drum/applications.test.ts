import { describe, expect, test } from 'vitest';
import { Applications } from '../../../src/policies/drum/applications.ts';
import { drumOptions } from '../../../src/policies/drum/options.ts';

const DEVICE = { requestsPerS: 1e8, completionsPerS: 1e8 };

/** Applications with these weights, all of which have posted. */
function ground(options: Record<string, unknown>, weights: readonly number[], device = DEVICE): Applications {
  const apps = new Applications(drumOptions.parse(options), device);
  for (const [app, weight] of weights.entries()) {
    apps.begin(app, weight);
    apps.notice(app);
  }
  apps.update();
  return apps;
}

const all = (apps: Applications) => Array.from({ length: apps.count }, (_, app) => app);
const ratesOf = (apps: Applications) => all(apps).map((app) => apps.rateOf(app));
const seatedIn = (apps: Applications) => all(apps).filter((app) => apps.isSeated(app));

describe('rates', () => {
  test('of the applications in use fill the device, in proportion to their weights', () => {
    const rates = ratesOf(ground({}, [1, 2, 4]));
    for (const [i, weight] of [1, 2, 4].entries()) expect(rates[i] / 1e8).toBeCloseTo(weight / 7, 5);
  });

  test('fit the completion rate where it is lower', () => {
    const rates = ratesOf(ground({}, [1, 1], { requestsPerS: 1e8, completionsPerS: 1e7 }));
    expect(rates[0] + rates[1]).toBeCloseTo(1e7, -2);
  });

  describe.each([{}, { alpha: 2 }, { beta: 1 }])('with %j', (options) => {
    test.each([
      ['an application without requests', (apps: Applications) => apps.next((app) => (app === 2 ? 0 : 1))],
      ['an application that has ended', (apps: Applications) => apps.end(2)],
    ])('do not count %s', (_, change) => {
      const apps = ground(options, [1, 1, 4]);
      // All have posted in the first epoch, which ends here.
      apps.next(() => 0);
      expect(apps.rateOf(2)).toBeGreaterThan(apps.rateOf(0));
      change(apps);
      apps.update();
      expect(apps.rateOf(0) / 1e8).toBeCloseTo(0.5, 5);
      expect(apps.rateOf(2)).toBe(0);
    });
  });

  test('need not be solved again without beta when an application pauses', () => {
    const apps = ground({ alpha: 2 }, [1, 4]);
    apps.next(() => 0);
    apps.next((app) => (app === 0 ? 0 : 1));
    expect(apps.update()).toBe(false);
    apps.notice(0);
    expect(apps.update()).toBe(false);
    expect(apps.rateOf(1) / apps.rateOf(0)).toBeCloseTo(2, 5);
  });

  test('follow a weight that changes', () => {
    const apps = ground({}, [1, 1]);
    expect(apps.update()).toBe(false);
    apps.setWeight(1, 3);
    expect(apps.needsNotice(0)).toBe(true);
    expect(apps.update()).toBe(true);
    expect(apps.rateOf(1) / apps.rateOf(0)).toBeCloseTo(3, 5);
  });

  test.each([
    [1, 0, 'linear'],
    [2, 1, 'linear'],
    [16, 1, 'linear'],
    [0.1, 1e9, 'linear'],
    [1, 1, 'logsum'],
    [2, 1, 'logdomain'],
  ])(
    'are above 0 and fit the device with the most extreme weights: alpha %d, beta %d, %s',
    (alpha, beta, capacity) => {
      const rates = ratesOf(ground({ alpha, beta, capacity }, [1e-6, 1, 1e6]));
      for (const rate of rates) expect(rate).toBeGreaterThan(0);
      expect(rates.reduce((a, b) => a + b)).toBeLessThanOrEqual(1e8 * (1 + 1e-9));
    },
  );
});

describe('with topK', () => {
  test('with up to 2 k applications, each is served in at least every second epoch', () => {
    const apps = ground({ topK: 3 }, [1, 9, 1, 4, 1, 1]);
    const last = new Int32Array(6);
    for (let epoch = 1; epoch < 50; epoch++) {
      apps.next(() => 1);
      const seated = seatedIn(apps);
      expect(seated).toHaveLength(3);
      for (const app of seated) last[app] = epoch;
      if (epoch > 1) for (const at of last) expect(epoch - at).toBeLessThan(2);
    }
  });

  test('with more than 2 k applications, each is served equally often', () => {
    const apps = ground({ topK: 2 }, new Array(7).fill(1));
    const counts = new Int32Array(7);
    for (let epoch = 0; epoch < 70; epoch++) {
      apps.next(() => 1);
      for (const app of seatedIn(apps)) counts[app]++;
    }
    expect([...counts]).toEqual(new Array(7).fill(20));
  });

  test('an application that begins to wait does not overtake those that wait already', () => {
    const apps = ground({ topK: 1 }, [1, 1]);
    expect(seatedIn(apps)).toEqual([0]);
    apps.begin(2, 1e6);
    apps.notice(2);
    apps.next(() => 1);
    expect(seatedIn(apps)).toEqual([1]);
    apps.next(() => 1);
    expect(seatedIn(apps)).toEqual([2]);
  });

  test('an idle application has no place, and gets one at once when there is room', () => {
    const apps = ground({ topK: 2 }, [1, 1]);
    apps.next(() => 0);
    apps.next(() => 0);
    expect(seatedIn(apps)).toEqual([]);
    apps.notice(1);
    expect(seatedIn(apps)).toEqual([1]);
  });

  test('select=weight goes by weight and waiting time, select=smallest by the number of waiting requests', () => {
    const heavy = ground({ topK: 1, select: 'weight' }, [1, 5]);
    const order = Array.from({ length: 8 }, () => {
      heavy.next(() => 1);
      return seatedIn(heavy)[0];
    });
    expect(order.filter((app) => app === 0).length).toBeGreaterThan(0);
    expect(order.filter((app) => app === 1).length).toBeGreaterThan(5);
    const small = ground({ topK: 1, select: 'smallest' }, [1, 1]);
    small.next((app) => (app === 0 ? 9 : 2));
    expect(seatedIn(small)).toEqual([1]);
  });
});
