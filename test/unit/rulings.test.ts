import { expect, test } from 'vitest';
import { rulingsOf } from '../../src/cli/rulings.ts';

test('a daemon has each ruler once, with the options of the policy that it names', () => {
  const rulings = rulingsOf('tassel:pieceBytes=8192');
  const names = rulings.map(({ ruler }) => ruler.name);
  expect(new Set(names).size).toBe(names.length);
  expect(rulings.find(({ ruler }) => ruler.name === 'fairWindows')).toMatchObject({
    isNamed: true,
    options: { pieceBytes: 8192 },
  });
});
