// The coordinators of simulated hosts: what happens while they are down, and what their decisions cost.
import { describe, expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import type { MemberPage } from '../../src/coordinator/member-table.ts';
import { registryFor, withCoordinators } from '../../src/coordinator/registry.ts';
import type { Column, Ruler } from '../../src/coordinator/ruler.ts';
import { Coordinators } from '../../src/mix/coordinators.ts';
import { COORDINATOR_COSTS, type CoordinatorCosts } from '../../src/sim/profile/params.ts';
import type { Provider } from '../../src/verbs/provider.ts';
import { eachShort } from '../support/variants.ts';
import { command } from './command.ts';
import { EXACTLY_ONCE, gaugeOf, lineOf, mean, requestsOf, run } from './script-run.ts';

/** The values of steps, which take 0.5 ms, from one time to another. A gauge has its value at the end of a step. */
const between = <T>(values: readonly T[], fromMs: number, toMs: number) => values.slice(2 * fromMs, 2 * toMs);

const PERF_APPS = ['B:name=a', 'B:name=b', 'D:start=4ms'];

describe('coordinator down', () => {
  test('under token-bucket, rates hold while a tenant dies and another gets a higher weight', async () => {
    const apps = ['B:name=a,size=64KiB', 'B:name=b,size=64KiB', 'B:name=c,size=64KiB'];
    const at = ['2100us:coordinator down', '3ms:kill c', '5ms:set b weight=3', '7100us:coordinator up'];
    const policy = `${EXACTLY_ONCE};token-bucket`;
    const result = await run([...at, '9ms:close a', '9ms:close b'], apps, { policy });
    const rates = ['a', 'b'].map((name) => gaugeOf(result, name, 'rate'));
    for (const rate of rates) {
      expect(new Set(between(rate, 1, 7))).toEqual(new Set([rate[0]]));
      expect(rate[0]).toBeCloseTo(100 / 3, 6);
    }
    expect(rates.map((rate) => rate[14])).toEqual([25, 75]);
    const [a, b] = ['a', 'b'].map((name) => lineOf(result, name).throughputGbps);
    for (const gbps of [a, b]) {
      for (const one of between(gbps, 1, 7))
        expect(Math.abs(one - (100 / 3) * (4096 / 4174))).toBeLessThan(1.5);
    }
    expect(mean(between(b, 8, 9)) / mean(between(a, 8, 9))).toBeCloseTo(3, 1);
    for (const name of ['a', 'b']) {
      expect(requestsOf(result, name)).toEqual({ completed: expect.any(Number), outstanding: 0 });
      expect(requestsOf(result, name).completed).toBeGreaterThan(200);
    }
  });

  test('under perf, a tenant that comes has no effect until the coordinator is up', async () => {
    const policy = `${EXACTLY_ONCE};perf`;
    const at = ['2100us:coordinator down', '7100us:coordinator up'];
    const ends = ['9ms:close a', '9ms:close b', '9ms:close D'];
    const down = await run([...at, ...ends], PERF_APPS, { policy });
    const never = await run(ends, PERF_APPS, { policy });
    for (const name of ['a', 'b']) {
      expect(new Set(between(gaugeOf(down, name, 'split'), 1, 7))).toEqual(new Set([0]));
      expect(gaugeOf(down, name, 'split')[14]).toBe(1);
      expect(gaugeOf(never, name, 'split')[9]).toBe(1);
      expect(Math.min(...between(lineOf(down, name).throughputGbps, 1, 9))).toBeGreaterThan(30);
    }
    for (const name of ['a', 'b', 'D']) expect(requestsOf(down, name).outstanding, name).toBe(0);
    const us = lineOf(down, 'D').latencyUs;
    expect(Math.min(...between(lineOf(down, 'D').messageRateMmps, 4.5, 9))).toBeGreaterThan(0);
    // Its messages wait behind the others' unsplit ones until then.
    expect(mean(between(us, 5, 7) as number[])).toBeGreaterThan(2 * mean(between(us, 7.5, 9) as number[]));
  });

  test('under perf, a tenant that dies keeps its effect until the coordinator is up', async () => {
    const at = ['2100us:coordinator 0 down', '3ms:kill D', '7100us:coordinator 0 up'];
    const result = await run(at, ['B:name=a', 'B:name=b', 'D'], { policy: `${EXACTLY_ONCE};perf` });
    for (const name of ['a', 'b']) {
      expect(new Set(between(gaugeOf(result, name, 'split'), 1, 7)), name).toEqual(new Set([1]));
      expect(gaugeOf(result, name, 'split')[14], name).toBe(0);
      expect(Math.min(...between(lineOf(result, name).throughputGbps, 1, 10))).toBeGreaterThan(40);
    }
  });

  test('under perf, tenants rotate on, because their members pass slots on themselves', async () => {
    const apps = ['B:name=a,qps=40', 'B:name=b,qps=40', 'D'];
    const o = { policy: `${EXACTLY_ONCE};perf`, profile: 'cx5-100g' };
    const result = await run(['2100us:coordinator down', '5ms:kill b'], apps, o);
    for (const [name, toMs] of [
      ['a', 10],
      ['b', 4.5],
    ] as const) {
      const gbps = between(lineOf(result, name).throughputGbps, 1, toMs);
      expect(Math.min(...gbps), name).toBeGreaterThan(15);
    }
  });

  test('only the named host is concerned, and bare hosts have none', async () => {
    const apps = ['B:name=a,size=64KiB', 'B:name=b,size=64KiB'];
    const at = (host: string) => [`2100us:coordinator${host} down`, '4ms:set b weight=3'];
    const o = { policy: 'token-bucket' };
    const rate = async (host: string) => gaugeOf(await run(at(host), apps, o), 'b', 'rate').at(-1);
    expect(await rate(' 1')).toBe(75);
    expect(await rate(' 0')).toBe(50);
    expect(await rate('')).toBe(50);
    const bare = await run(at(''), apps);
    expect(bare.coordinator).toBeUndefined();
  });

  test('a run with outages can be repeated, and an outage that changes nothing leaves the trace', async () => {
    const at = ['2100us:coordinator down', '6100us:coordinator up', '7100us:coordinator 0 down'];
    const o = { policy: 'token-bucket;perf', profile: 'cx6-100g', set: { grantNs: '3us', passNs: '1us' } };
    const [one, other] = [await run(at, PERF_APPS, o), await run(at, PERF_APPS, o)];
    expect(other).toEqual(one);
    const token = { policy: 'token-bucket' };
    const plain = await run([], ['B', 'D'], token);
    const steps = await run(['2100us:coordinator down', '3100us:coordinator up'], ['B', 'D'], token);
    expect(steps.traceHash).toBe(plain.traceHash);
  });
});

/** Coordinators of one host, and the time of the simulation, which `runTo` advances. */
function coordinatorsOf(costs: Partial<CoordinatorCosts> = {}) {
  const clock = new Float64Array(1);
  const calls: { timeNs: number; action: () => void }[] = [];
  const callAt = (timeNs: number, action: () => void) => calls.push({ timeNs, action });
  const coordinators = new Coordinators({ clock, callAt }, { ...COORDINATOR_COSTS, ...costs }, 1);
  const runTo = (timeNs: number) => {
    for (;;) {
      const due = calls.filter((one) => one.timeNs <= timeNs).sort((a, b) => a.timeNs - b.timeNs);
      if (due.length === 0) break;
      calls.splice(calls.indexOf(due[0]), 1);
      clock[0] = due[0].timeNs;
      due[0].action();
    }
    clock[0] = timeNs;
  };
  return { coordinators, coordinator: coordinators.scopeOf(0, 0).create('sim0'), runTo };
}

const limit: Column = { name: 'limit', unit: '1', min: 0, max: 9, default: 0, alone: 7 };
const number: Column = { name: 'members', unit: '1', min: 0, max: 9, default: 1 };
/** Grants every member no limit, which is the default, and the number of members. */
const counting: Ruler<null> = {
  name: 'counting',
  reports: [],
  grants: [limit, number],
  rules: { safeParse: () => ({ success: true, data: null }) },
  begin: (members) => ({
    decide(_rules, _nowNs, changed) {
      members.tenants.group();
      for (let member = 0; member < members.tenants.memberLimit; member++) {
        members.grant('limit').set(member, 0);
        if (members.grant('members').set(member, members.tenants.length)) changed(member);
      }
    },
  }),
};
const grants = (page: MemberPage | null) => [...page!.columns(counting).grants];

describe('a context that joins', () => {
  test('while the coordinator is down, is free and unseen until the coordinator is up', () => {
    const { coordinators, coordinator, runTo } = coordinatorsOf();
    let news = 0;
    coordinator.listen!(
      () => news++,
      () => {},
    );
    const first = coordinator.join('a');
    coordinator.decide(counting, null, 0);
    coordinators.takeDown(0);
    const second = coordinator.join('b');
    coordinator.decide(counting, null, 1);
    runTo(1000);
    expect([grants(first), grants(second), coordinator.takeChanges(), news]).toEqual([[0, 1], [7, 1], [], 0]);
    coordinators.bringUp(0);
    expect([grants(first), grants(second), coordinator.takeChanges(), news]).toEqual([
      [0, 2],
      [0, 2],
      [0, 1],
      1,
    ]);
  });

  test('and leaves while grants are on their way, does not get them, and neither does its successor', () => {
    const { coordinator, runTo } = coordinatorsOf({ grantNs: 100 });
    const first = coordinator.join('a');
    coordinator.decide(counting, null, 0);
    const left = coordinator.join('b');
    coordinator.decide(counting, null, 0);
    coordinator.leave(left!);
    const next = coordinator.join('c');
    expect(next!.row).toBe(left!.row);
    runTo(100);
    expect([grants(first), grants(next), coordinator.takeChanges()]).toEqual([[0, 2], [7, 1], [0]]);
    coordinator.decide(counting, null, 100);
    runTo(199);
    expect(grants(next)).toEqual([7, 1]);
    runTo(200);
    expect(grants(next)).toEqual([0, 2]);
  });
});

test('grants that are set without a decision reach members, after grantNs', () => {
  for (const grantNs of [0, 100]) {
    const { coordinator, runTo } = coordinatorsOf({ grantNs });
    const page = coordinator.join('a');
    coordinator.decide(counting, null, 0);
    runTo(100);
    coordinator.takeChanges();
    coordinator.membersOf!(counting).grant('members').set(page!.row, 5);
    coordinator.markChanged!(page!.row);
    runTo(150);
    expect(grants(page)).toEqual([0, grantNs === 0 ? 5 : 1]);
    runTo(200);
    expect(grants(page)).toEqual([0, 5]);
    expect(coordinator.takeChanges()).toEqual([page!.row]);
  }
});

test('coordinators of two providers are separate, and withCoordinators() ends with its function', () => {
  const made: string[] = [];
  const registry = withCoordinators(
    {
      create: (device) => {
        made.push(device);
        return new Coordinator();
      },
      added: () => null,
    },
    () => registryFor({} as Provider),
  );
  registryFor({} as Provider).coordinatorFor('sim0');
  expect(made).toEqual([]);
  registry.coordinatorFor('sim1');
  expect(made).toEqual(['sim1']);
});

describe('costs', () => {
  const apps = ['B:name=a,size=64KiB', 'B:name=b,size=64KiB'];

  test('with grantNs, changed grants become visible so much later', async () => {
    const at = ['2100us:set b weight=3'];
    const rate = async (grantNs: string) =>
      gaugeOf(await run(at, apps, { policy: 'token-bucket', set: { grantNs } }), 'b', 'rate');
    expect(between(await rate('0ns'), 1.5, 3)).toEqual([50, 75, 75]);
    expect(between(await rate('100us'), 1.5, 3)).toEqual([50, 75, 75]);
    expect(between(await rate('500us'), 1.5, 3)).toEqual([50, 50, 75]);
  });

  test('with grantNs, members are free until the first grant arrives', async () => {
    const result = await run([], apps, { policy: 'token-bucket', set: { grantNs: '1200us' } });
    expect(between(gaugeOf(result, 'a', 'rate'), 0, 2)).toEqual([1e5, 1e5, 50, 50]);
  });

  test('with passNs, decisions wait for each other on the core of their host', async () => {
    const o = { policy: 'token-bucket', set: { passNs: '380us' } };
    // A decision that waits reads the latest reports, so the last two changes need only one.
    const changes = ['2600us:set a weight=3', '2700us:set a weight=1', '2800us:set b weight=1'];
    const result = await run(['2100us:set b weight=3', ...changes], apps, o);
    expect(between(gaugeOf(result, 'b', 'rate'), 1.5, 3.5)).toEqual([50, 75, 50, 50]);
    const { hosts, ...costs } = result.coordinator!;
    expect(costs).toEqual({ grantNs: 0, passNs: 380_000 });
    // When the contexts open, one decision is made and one waits.
    expect(hosts).toEqual([0, 1].map((host) => ({ host, passes: 5, busyNs: 1_900_000, messages: 0 })));
  });

  test('while a host stalls, its coordinator decides nothing, and its members notice nothing', async () => {
    const at = ['2100us:set b weight=3', '2110us:stall 0 1ms'];
    for (const name of ['passNs', 'grantNs']) {
      const set = { [name]: '100us' };
      const result = await run(at, apps, { policy: 'token-bucket', set });
      expect(between(gaugeOf(result, 'b', 'rate'), 1.5, 4)).toEqual([50, 50, 50, 75, 75]);
    }
  });

  test('a coordinator that goes down loses the decisions that wait, and makes them when it is up', async () => {
    const at = ['2100us:set b weight=3', '2200us:coordinator down', '4100us:coordinator up'];
    const result = await run(at, apps, { policy: 'token-bucket', set: { passNs: '300us' } });
    expect(between(gaugeOf(result, 'b', 'rate'), 2, 5)).toEqual([50, 50, 50, 50, 75, 75]);
    expect(result.coordinator!.hosts[0].passes).toBe(3);
  });

  eachShort(1, ['perf', 'token-bucket', 'perf;token-bucket'])(
    'under %s, slow coordinators lose no completion',
    async (policy) => {
      const o = {
        policy: `${EXACTLY_ONCE};${policy}`,
        profile: 'cx5-100g',
        set: { grantNs: '20us', passNs: '5us' },
      };
      const mixed = [
        'B:name=a,size=64KiB,qps=40',
        'B:name=b,qps=40',
        'M:op=send,qps=4',
        'M:name=r,op=read',
        'D',
      ];
      const ends = ['a', 'M', 'r', 'D'].map((name) => `7ms:close ${name}`);
      const result = await run(['4ms:kill b', ...ends], mixed, o);
      for (const name of ['a', 'M', 'r', 'D']) {
        expect(requestsOf(result, name).outstanding, name).toBe(0);
        expect(Math.min(...between(lineOf(result, name).throughputGbps, 1, 6)), name).toBeGreaterThan(0);
      }
    },
  );

  test('defaults cost nothing, and are those of COORDINATOR_COSTS', async () => {
    const result = await run([], apps, { policy: 'perf' });
    expect(result.coordinator).toMatchObject({ grantNs: 0, passNs: 0 });
    const [here, there] = result.coordinator!.hosts;
    expect(here).toEqual({ host: 0, passes: expect.any(Number), busyNs: 0, messages: 0 });
    expect(here.passes).toBeGreaterThan(0);
    // The peers post nothing.
    expect(there).toEqual({ host: 1, passes: 0, busyNs: 0, messages: 0 });
    const { grantNs, passNs, livenessNs } = COORDINATOR_COSTS;
    const set = { grantNs, passNs, livenessNs };
    expect((await run([], apps, { policy: 'perf', set })).traceHash).toBe(result.traceHash);
  });

  test('livenessNs is the time until the others have the share of a tenant that died', async () => {
    const o = { policy: 'token-bucket', set: { livenessNs: '2ms' } };
    const rate = gaugeOf(await run(['2100us:kill b'], apps, o), 'a', 'rate');
    expect(between(rate, 3, 5)).toEqual([50, 50, 100, 100]);
  });

  test('isoverbs mix prints them, as text and as JSON', async () => {
    const args = ['mix', '--policy', 'token-bucket', '--duration', '1ms', '--warmup', '100us', '--app', 'B'];
    const costs = ['--set', 'passNs=2us', '--set', 'grantNs=3us'];
    const { out } = await command(...args, ...costs);
    expect(out).toMatch(/^coordinator of host 0: 1 decision, busy for 2 us$/m);
    const json = JSON.parse((await command(...args, ...costs, '--json')).out);
    expect(json.coordinator).toEqual({
      ...{ grantNs: 3000, passNs: 2000 },
      hosts: [
        { host: 0, passes: 1, busyNs: 2000, messages: 0 },
        { host: 1, passes: 1, busyNs: 2000, messages: 0 },
      ],
    });
    expect((await command(...args)).out).not.toMatch(/^coordinator/m);
  });

  test.each<[string, RegExp]>([
    ['grantNs=-1', /grantNs must be a finite number of at least 0, got -1/],
    ['passNs=inf', /passNs must be a finite number of at least 0, got Infinity/],
    ['grantNs=soon', /grantNs must be a finite number of at least 0, got 'soon'/],
    ['grantNs=5Gbps', /set grantNs: unknown unit 'Gbps'; use one of ns, us, ms, s/],
  ])('--set %s is rejected in one sentence', async (set, sentence) => {
    const { code, out, err } = await command('mix', '--app', 'B', '--set', set);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(sentence);
  });
});

describe('agents out of order', () => {
  // B on host 0 READs what D's host WRITEs past: the data of B leaves by host 1, where D has its queue pair.
  const APPS = ['B:op=read', 'D:host=1,to=0'];
  const splits = (result: Awaited<ReturnType<typeof run>>) =>
    result.policyStates!.find(({ tenant }) => tenant === 'B')!.does;
  const o = { policy: 'perf', profile: 'cx6-100g' };

  test('READs of another host are left alone, and isolated again when the agents continue', async () => {
    expect(splits(await run([], APPS, o))).toBe('its messages are split');
    expect(splits(await run(['0us:agent 1 down'], APPS, o))).toBe('left alone');
    expect(splits(await run(['0us:agent 1 down', '4ms:agent up'], APPS, o))).toBe('its messages are split');
  });

  test('the result has the number of messages that the agents of each host sent', async () => {
    const sent = (result: Awaited<ReturnType<typeof run>>) =>
      result.coordinator!.hosts.map(({ messages }) => messages);
    // Each report is answered.
    expect(Math.min(...sent(await run([], APPS, o)))).toBeGreaterThan(0);
    expect(sent(await run(['0us:agent 0 down', '0us:agent 1 down'], APPS, o))).toEqual([0, 0]);
  });

  test('with --set agentLoss=0.5, reports are repeated until they arrive', async () => {
    expect(splits(await run([], APPS, { ...o, set: { agentLoss: 0.5 } }))).toBe('its messages are split');
    expect(splits(await run([], APPS, { ...o, set: { agentLoss: 1 } }))).toBe('left alone');
  });

  test.each([
    ['1ms:agent 2 down', /agent.*host.*2/],
    ['1ms:agent up', /every agent is up already/],
    ['1ms:agent sideways', /'sideways' is not one of down, up/],
  ])('%s is rejected', async (step, sentence) => {
    await expect(run([step], APPS, o)).rejects.toThrow(sentence);
  });
});
