// Options and labels of justitia as people write them: what is rejected, and what may change at run time.
import { describe, expect, test } from 'vitest';
import { createPolicy } from '../../../src/policies/index.ts';
import { FIXED, justitiaOptions } from '../../../src/policies/justitia/options.ts';
import { createFabric } from '../../../src/providers/sim/index.ts';
import { compose } from '../../../src/shim/compose.ts';
import { ConfigError, InvalidArgumentError } from '../../../src/verbs/errors.ts';

type Options = Record<string, unknown>;

/** Providers of one fabric under justitia with different options. */
function under(...options: Options[]) {
  const { provider } = createFabric({ profile: 'cx6-100g', hosts: 2 });
  return options.map((one) => compose(provider, [createPolicy('justitia', one)]));
}

function thrownBy(act: () => unknown): Error {
  try {
    act();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

describe('options', () => {
  test.each<[Options, RegExp]>([
    [{ targetUs: 0 }, /^justitia\.targetUs: .*above 0/],
    [{ targetUs: Number.NaN }, /^justitia\.targetUs: .*NaN/],
    [{ targetUs: -2 }, /^justitia\.targetUs: .*above 0/],
    [{ targetUs: Number.POSITIVE_INFINITY }, /^justitia\.targetUs: /],
    [{ targetUs: 'soon' }, /^justitia\.targetUs: must be a number, got 'soon'/],
    [{ targetUs: '' }, /^justitia\.targetUs: a value is missing/],
    [{ refPeriodUs: 0 }, /^justitia\.refPeriodUs: .*at least 1/],
    [{ refCount: 9 }, /^justitia\.refCount: .*at least 10/],
    [{ refCount: 1000.5 }, /^justitia\.refCount: .*whole number/],
    [{ chunkBytes: 255 }, /^justitia\.chunkBytes: .*at least 256/],
    [{ chunkBytes: 2 ** 31 }, /^justitia\.chunkBytes: .*at most 1073741824/],
    [{ bulkChunkBytes: 0 }, /^justitia\.bulkChunkBytes: .*at least 256/],
    [{ backlogBytes: 0 }, /^justitia\.backlogBytes: .*at least 1/],
    [{ tokenMessages: 0 }, /^justitia\.tokenMessages: .*at least 1/],
    [{ maxGbps: 0 }, /^justitia\.maxGbps: .*above 0/],
    [{ maxMmps: Number.NaN }, /^justitia\.maxMmps: .*NaN/],
    [{ splitQp: 'sometimes' }, /^justitia\.splitQp: .*always/],
    [{ granularity: 'host' }, /^justitia\.granularity: .*tenant/],
    [{ latencyCounts: 'none' }, /^justitia\.latencyCounts: .*weight/],
    [{ chunks: 'small' }, /^justitia\.chunks: .*dictionary/],
    [{ paper: 'maybe' }, /^justitia\.paper: /],
    [{ target: 2 }, /there is no option 'target'/],
    [{ chunkBytes: '5parsecs' }, /^justitia\.chunkBytes: unknown unit 'parsecs'/],
  ])('%o is rejected with a sentence', (options, sentence) => {
    const error = thrownBy(() => createPolicy('justitia', options));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(sentence);
    expect(error.message).not.toContain('\n');
  });

  test('units and texts are accepted, and defaults are as documented', () => {
    expect(() =>
      createPolicy('justitia', { chunkBytes: '8KiB', targetUs: '15', paper: 'true' }),
    ).not.toThrow();
    expect(justitiaOptions.parse({})).toMatchObject({
      paper: false,
      targetUs: 2,
      refPeriodUs: 20,
      refCount: 10_000,
      chunkBytes: 5000,
      bulkChunkBytes: 1_000_000,
      backlogBytes: 8192,
      splitQp: 'auto',
      granularity: 'application',
      latencyCounts: 'one',
    });
  });
});

describe('two contexts of one device', () => {
  test.each<[Options, Options, RegExp]>([
    [{ targetUs: 2 }, { targetUs: 15 }, /^targetUs: .* targetUs=15, .* sim0 have targetUs=2; /],
    [{}, { chunkBytes: 4096 }, /^chunkBytes: /],
    [{}, { bulkChunkBytes: 4096 }, /^bulkChunkBytes: /],
    [{}, { paper: true }, /^paper: /],
    [{}, { refPeriodUs: 40 }, /^refPeriodUs: /],
    [{}, { refCount: 500 }, /^refCount: /],
    [{}, { granularity: 'tenant' }, /^granularity: /],
    [{}, { latencyCounts: 'weight' }, /^latencyCounts: /],
    [{}, { maxGbps: 40 }, /^maxGbps: /],
    [{}, { maxMmps: 4 }, /^maxMmps: /],
    [{}, { tokenMessages: 1100 }, /^tokenMessages: /],
    [{}, { seed: 2 }, /^seed: /],
  ])('with %o and %o are a ConfigError that names the option', (first, second, message) => {
    const [one, other] = under(first, second);
    const handle = one.openDevice('sim0');
    const error = thrownBy(() => other.openDevice('sim0'));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(message);
    // The rules of another device are its own, and those of a device last as long as its contexts.
    other.closeDevice(other.openDevice('sim1'));
    one.closeDevice(handle);
    other.closeDevice(other.openDevice('sim0'));
  });

  test('may differ in what concerns one context alone', () => {
    const [one, other] = under({}, { splitQp: 'never', backlogBytes: 1, classify: false });
    one.openDevice('sim0');
    other.openDevice('sim0');
  });
});

describe('configurePolicy()', () => {
  test('changes the rules for all contexts of the device', () => {
    const [one, other, third] = under({}, {}, { targetUs: 15, chunkBytes: 4096, backlogBytes: 1 });
    for (const provider of [one, other]) provider.openDevice('sim0');
    one.configurePolicy!('justitia', { targetUs: 15, chunkBytes: '4KiB' });
    third.openDevice('sim0');
    expect(() => other.openDevice('sim0')).toThrow(/^targetUs, chunkBytes: /);
  });

  const fixed: Record<(typeof FIXED)[number], unknown> = {
    paper: true,
    splitQp: 'never',
    granularity: 'flow',
    seed: 2,
    refCount: 500,
  };
  test.each(Object.entries(fixed))('rejects a change of %s, together with all others', (name, value) => {
    const [one, other] = under({}, {});
    one.openDevice('sim0');
    const error = thrownBy(() => one.configurePolicy!('justitia', { targetUs: 15, [name]: value }));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toContain(`justitia.${name}: cannot change while`);
    // Nothing has changed, so a context with the old options may join.
    other.openDevice('sim0');
    expect(FIXED).toHaveLength(Object.keys(fixed).length);
  });

  test.each<Options>([{ targetUs: 0 }, { chunkBytes: 1 }, { targetUs: 15, nonsense: 1 }])(
    'rejects %o as createPolicy() does',
    (options) => {
      const [one, other] = under({}, {});
      one.openDevice('sim0');
      expect(() => one.configurePolicy!('justitia', options)).toThrow(ConfigError);
      other.openDevice('sim0');
    },
  );
});

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e7, '2'])(
  'weight %o is refused by labels',
  (weight) => {
    const [provider] = under({});
    const open = () => provider.openDevice('sim0', { labels: { weight: weight as number } });
    expect(open).toThrow(InvalidArgumentError);
    expect(open).toThrow(/labels\.weight must be a number from 0\.000001 to 1000000/);
  },
);
