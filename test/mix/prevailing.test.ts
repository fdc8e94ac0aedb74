import { expect, test } from 'vitest';
import { prevailing } from '../../src/mix/live/prevailing.ts';
import type { PolicyState } from '../../src/verbs/provider.ts';

function state(tenant: string, does: string, why = ''): PolicyState {
  return { policy: 'perf', device: 'rxe0', tenant, kind: '', because: '', does, why };
}

test('the state of a context is the last one with the most frequent action', () => {
  const samples = [
    [state('a', 'takes turns', 'first'), state('b', 'left alone')],
    [state('a', 'left alone'), state('b', 'left alone', 'last')],
    [state('a', 'takes turns', 'last')],
    [state('a', 'left alone', 'once more')],
    [state('a', 'takes turns', 'at the end')],
  ];
  expect(prevailing(samples)).toEqual([
    state('a', 'takes turns', 'at the end'),
    state('b', 'left alone', 'last'),
  ]);
});

test('between equally frequent actions, the later one counts', () => {
  expect(prevailing([[state('a', 'left alone')], [state('a', 'takes turns')]])).toEqual([
    state('a', 'takes turns'),
  ]);
  expect(prevailing([])).toEqual([]);
});
