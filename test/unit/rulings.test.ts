import { expect, test } from 'vitest';
import { rulingsOf } from '../../src/cli/rulings.ts';
import { policies } from '../../src/policies/index.ts';

test('a daemon has each ruler once, with the options of the policy that it names', () => {
  const rulings = rulingsOf('tassel:pieceBytes=8192');
  const names = rulings.map(({ ruler }) => ruler.name);
  expect(new Set(names).size).toBe(names.length);
  expect(rulings.find(({ ruler }) => ruler.name === 'fairWindows')).toMatchObject({
    isNamed: true,
    options: { pieceBytes: 8192 },
  });
});

/** Options that only this policy has, among those that share its rulers. */
const OPTIONS: Readonly<Record<string, string>> = {
  perf: 'subMsgSizeBytes=1024',
  justitia: 'maxGbps=10',
  fair: 'targetUs=5',
  palos: 'sums=active',
  tassel: 'qpGbps=5',
  drum: 'alpha=2,agents=true',
  'token-bucket': 'linkGbps=100',
  chunk: 'chunkBytes=512',
  share: 'connectionsPerQp=3',
};

test('a daemon takes the options of each built-in policy', () => {
  expect(Object.keys(OPTIONS)).toEqual(Object.keys(policies));
  for (const [name, options] of Object.entries(OPTIONS)) rulingsOf(`${name}:${options}`);
});

test('a daemon refuses options that the policy does not have', () => {
  expect(() => rulingsOf('drum:topk=3')).toThrow("did you mean 'topK'?");
});
