// Mixes in real time: the loop of one application over a simulated device (test/device/mix.test.ts uses real ones), its
// reports of corrupted data, and the messages about impossible requests.
import { afterEach, describe, expect, test, vi } from 'vitest';
import { run } from '../../src/cli/program.ts';
import { LiveApp } from '../../src/mix/live/app.ts';
import { Clock } from '../../src/mix/live/clock.ts';
import { type LiveSpec, messageBuffersOf, requireLiveKeys } from '../../src/mix/live/spec.ts';
import { parseApp } from '../../src/mix/parse.ts';
import { appsOf } from '../../src/mix/resolve.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const LIMITS = { linkGbps: 100, mtuBytes: 4096, inlineMaxBytes: 220, rateLimiters: 8 };

function spec(text: string, durationNs = 150e6): LiveSpec {
  const devices = ['sim0', 'sim1'];
  return { devices, policy: 'none', durationNs, warmupNs: 1e6, seed: 1, apps: [parseApp(text)] };
}

function resolved(of: LiveSpec) {
  return appsOf({ ...of, profile: '', set: {}, hosts: 2 }, LIMITS)[0];
}

/** Runs one application briefly. */
function runApp(text: string, interceptors: Interceptor[] = []) {
  const of = spec(text);
  const { provider } = createFabric({ hosts: 2, profile: 'cx6-100g' });
  const clock = new Clock();
  const live = new LiveApp(resolved(of), compose(provider, interceptors), of, clock);
  clock.zeroAt(process.hrtime.bigint());
  const outcome = live.run();
  live.close();
  return outcome;
}

describe('one application', () => {
  test.each([
    'B:size=40000',
    'B:size=1-40000,op=send',
    'B:size=5000,op=read,qps=3,depth=5',
    'M:depth=40,batch=8,qps=2',
    'M:op=send,size=1-30,inline=yes',
    'D',
    'D:size=1-200,depth=2',
    'D:op=atomic,depth=4',
    'D:think=20us',
  ])('%s: every message is verified and correct', (text) => {
    const { result, verified, broken } = runApp(text);
    expect(broken).toEqual([]);
    expect(result.errors).toBe(0);
    expect(result.completed).toBeGreaterThan(0);
    expect(verified).toBeGreaterThanOrEqual(result.completed);
    expect(result.latencyUs?.p50).toBeGreaterThan(0);
  });

  test.each(['D:transport=uc', 'D:op=send,transport=ud'])(
    '%s: unreliable messages are counted but not verified',
    (text) => {
      const { result, verified, broken } = runApp(text);
      expect(broken).toEqual([]);
      expect(verified).toBe(0);
      expect(result.throughputGbps).toBeGreaterThan(0);
    },
  );

  test.each(['B:size=40000', 'B:size=40000,op=send', 'B:size=40000,op=read'])('%s under perf', (text) => {
    const { broken, verified } = runApp(text, [
      createPolicy('perf', { isolation: 'always', qpIsolation: 'always' }),
    ]);
    expect(broken).toEqual([]);
    expect(verified).toBeGreaterThan(0);
  });

  test('a failing queue pair stops its application and is counted as an error', () => {
    let posts = 0;
    const breaking: Interceptor = {
      name: 'breaking',
      wrap: (next) => ({
        postSend(qp, ring, start, count) {
          if (++posts === 50) next.modifyQp(qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
          return next.postSend(qp, ring, start, count);
        },
      }),
    };
    const { result, broken } = runApp('D:size=16', [breaking]);
    expect(broken).toEqual([]);
    expect(result.errors).toBe(1);
  });
});

/** Corrupts the second memory region by `corrupt`, after each poll that returned completions. */
const corrupting = (corrupt: (bytes: Uint8Array) => void): Interceptor => ({
  name: 'corrupting',
  wrap(next) {
    const regions: Uint8Array[] = [];
    return {
      allocMr(pd, lengthBytes, access) {
        const info = next.allocMr(pd, lengthBytes, access);
        regions.push(new Uint8Array(info.memory, info.byteOffset, lengthBytes));
        return info;
      },
      pollCq(cq, ring, start, count) {
        const n = next.pollCq(cq, ring, start, count);
        // WRITEs land in the second region.
        if (n > 0) corrupt(regions[1]);
        return n;
      },
    };
  },
});

describe('corrupted data', () => {
  test('a message without its last byte is reported when it completes', () => {
    const { broken } = runApp('D:size=500,inline=no', [corrupting((to) => to.fill(0, 499))]);
    expect(broken[0]).toMatch(/^D: message 0 of 500 bytes begins with round 1 and ends with 0, not 1$/);
  });

  test('a wrong byte in the middle is reported at the end of the run', () => {
    const { broken } = runApp('D:size=500', [corrupting((to) => to.fill(to[250] ^ 1, 250, 251))]);
    expect(broken).toHaveLength(1);
    expect(broken[0]).toMatch(/^D: message \d+ of 500 bytes arrived with wrong bytes$/);
  });

  test('an atomic with a wrong result is reported', () => {
    const { broken } = runApp('D:op=atomic', [corrupting((counter) => counter.fill(9, 0, 1))]);
    expect(broken[0]).toMatch(/^D: fetch-and-add 1 found 9$/);
  });
});

describe('impossible requests', () => {
  async function errorOf(code: number, ...args: string[]): Promise<string> {
    let text = '';
    vi.spyOn(process.stdout, 'write').mockImplementation(() => true);
    vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
      text += chunk;
      return true;
    });
    const ended = await run(['mix', ...args]);
    vi.restoreAllMocks();
    expect(ended).toBe(code);
    return text;
  }

  test.each<[string[], RegExp]>([
    [['--provider', 'verbs'], /provider: 'verbs' is not one of sim, rdma-core/],
    [['--device', 'rxe0'], /--device is for real devices/],
    [['--provider', 'rdma-core', '--profile', 'cx6-100g'], /--profile is for simulated devices/],
    [['--provider', 'rdma-core', '--set', 'linkGbps=1'], /--set is for simulated devices/],
    [['--provider', 'rdma-core', '--driver', 'worker'], /--driver is for simulated devices/],
    [['--provider', 'rdma-core', '--no-payload'], /--no-payload is for simulated devices/],
  ])('%j is rejected', async (args, sentence) => {
    expect(await errorOf(2, ...args, '--app', 'D')).toMatch(sentence);
  });

  test('an unknown device is rejected', async () => {
    const args = ['--provider', 'rdma-core', '--device', 'mlx5_77', '--app', 'D'];
    expect(await errorOf(1, ...args)).toMatch(/no real device 'mlx5_77'; (none is available|available: )/);
  });

  test.each(['cores=1', 'contexts=1', 'qpLife=1ms', 'contextLife=1ms', 'burst=1ms/1ms'])(
    'an application with %s is rejected',
    (key) => {
      const [name] = key.split('=');
      expect(() => requireLiveKeys([parseApp('B'), parseApp(`M:${key}`)])).toThrow(
        new RegExp(`${name}.* for simulated devices`),
      );
    },
  );

  test.each(['regions=2', 'buffers=2', 'regionSize=1KiB', 'op=send,receives=none', 'op=send,rnrTimer=2'])(
    '%s is for simulated devices',
    (key) => {
      expect(() => requireLiveKeys([parseApp(`M:${key}`)])).toThrow(
        'regions, regionSize, buffers, receives and rnrTimer are for simulated devices: leave them out',
      );
    },
  );

  test.each(['cas', 'register'])('op=%s is for simulated devices', (op) => {
    expect(() => requireLiveKeys([parseApp(`M:op=${op}`)])).toThrow(`op=${op} is for simulated devices`);
  });

  test('an application that needs more than 1 GiB of memory is rejected', () => {
    expect(() => messageBuffersOf(resolved(spec('B:size=1GiB')))).toThrow(
      /app B: 1 queue pairs with 4 outstanding messages of/,
    );
  });
});
