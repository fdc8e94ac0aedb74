import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { createShim } from '../../src/shim/shim.ts';

const { provider } = createFabric({ autoAdvance: false });

function spy(name: string, calls: string[]): Interceptor {
  return {
    name,
    wrap: (next) => ({
      getDeviceList() {
        calls.push(name);
        return next.getDeviceList();
      },
    }),
  };
}

test('the first interceptor listed is the outermost', () => {
  const calls: string[] = [];
  const composed = compose(provider, [spy('a', calls), spy('b', calls)]);
  composed.getDeviceList();
  expect(calls).toEqual(['a', 'b']);
  expect(composed.interceptors).toEqual(['a', 'b']);
});

test('a verb that no interceptor overrides stays the same function', () => {
  const composed = compose(provider, [spy('a', [])]);
  expect(composed.postSend).toBe(provider.postSend);
  expect(Object.isFrozen(composed)).toBe(true);
});

test('compose() refuses an override that is not a verb, and names the interceptor', () => {
  const wrong = { name: 'wrong', wrap: () => ({ postSendd: () => 0 }) } as unknown as Interceptor;
  expect(() => compose(provider, [wrong])).toThrowError(/'wrong' overrides 'postSendd', which is not a verb/);
  const value = { name: 'value', wrap: () => ({ postSend: 7 }) } as unknown as Interceptor;
  expect(() => compose(provider, [value])).toThrowError(/'value' overrides 'postSend' with a number/);
});

test('a policy that requires WAIT throws on a device without it', () => {
  const bare = createFabric({ wait: false, autoAdvance: false }).provider;
  expect(() => compose(bare, [createPolicy('perf', { emulation: false })])).toThrowError(/requires WAIT/);
  expect(compose(bare, [createPolicy('perf')]).wait).toBe('emulated');
  expect(compose(provider, [createPolicy('perf')]).wait).toBe('simulated');
  const strict = createShim(() => ({
    name: 'strict',
    needs: { wait: 'required' },
    slots: 0,
    onload: () => 0,
    feed: () => {},
  }));
  expect(() => compose(bare, [strict])).toThrowError(/policy 'strict' requires WAIT/);
});

test('policy options are checked, and the error has the path of the wrong one', () => {
  expect(() => createPolicy('perv')).toThrowError(
    /^unknown policy 'perv'; did you mean 'perf'\? available: perf/,
  );
  expect(() => createPolicy('perf', { subMsgSizeBytes: 0 })).toThrowError(/perf.subMsgSizeBytes/);
  expect(() => createPolicy('perf', { subMsgSize: 1 })).toThrowError(/subMsgSize/);
  expect(() => createPolicy('perf', { subMsgSizeBytes: 1024, zeroWaitUnitBytes: 2048 })).toThrowError(
    /perf.zeroWaitUnitBytes: must not be larger/,
  );
});
