import type { PolicyState } from '../../verbs/provider.ts';

/**
 * For each context, the last of the states in which the policy did what it did most often.
 * @param samples the states of all contexts, at several times in a run
 */
export function prevailing(samples: readonly (readonly PolicyState[])[]): PolicyState[] {
  const contexts = groups(samples.flat(), ({ policy, device, tenant }) => `${policy}\n${device}\n${tenant}`);
  return contexts.map((states) => {
    const actions = groups(states, ({ does }) => does);
    const most = Math.max(...actions.map(({ length }) => length));
    return actions.findLast(({ length }) => length === most)!.at(-1)!;
  });
}

function groups<T>(all: readonly T[], keyOf: (one: T) => string): T[][] {
  const byKey = new Map<string, T[]>();
  for (const one of all) {
    const key = keyOf(one);
    byKey.set(key, [...(byKey.get(key) ?? []), one]);
  }
  return [...byKey.values()];
}
