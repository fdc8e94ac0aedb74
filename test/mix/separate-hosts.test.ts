// The hosts of a mix are separate: policies, shims and coordinators of one are unreachable from another.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Agent, AgentActions } from '../../src/coordinator/agent.ts';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import type { Column, Ruler } from '../../src/coordinator/ruler.ts';
import { Coordinators } from '../../src/mix/coordinators.ts';
import { Dispatcher } from '../../src/mix/dispatcher.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { Stacks } from '../../src/mix/stacks.ts';
import { createCoordinatedShim, type PolicyEntry, policies } from '../../src/policies/index.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../src/shim/policy.ts';
import type { Resources } from '../../src/shim/resources.ts';
import { NoDeviceError } from '../../src/verbs/errors.ts';

const column = (name: string): Column => ({
  ...{ name, unit: 'members', min: 0, max: Number.MAX_SAFE_INTEGER, default: 0, explanation: '' },
});

/** Grants each member the number of members. */
const census: Ruler<unknown> = {
  name: 'census',
  reports: [column('reported')],
  grants: [column('members')],
  rules: z.object({}),
  begin: (members) => ({
    decide(_rules, _nowNs, changed) {
      for (let row = 0; row < members.rowLimit; row++) {
        if (members.grant('members').set(row, members.rowLimit)) changed(row);
      }
    },
  }),
};

class Greeter implements Agent {
  out!: AgentActions;
  readonly received: number[] = [];

  onStart(out: AgentActions): void {
    this.out = out;
  }

  onMessage(_peer: number, words: Float64Array): void {
    this.received.push(...words);
  }
}

const greeters = { name: 'greeter', create: () => new Greeter() };

/** A policy with a ruler and an agent, which says the number of its host to each peer. */
class Probing implements Policy {
  readonly name = 'probing';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 0;
  readonly registry: CoordinatorRegistry;
  readonly contexts: ContextView[] = [];
  readonly gids = new Map<string, string>();
  agent: Greeter | null = null;
  out: Actions | null = null;

  constructor(registry: CoordinatorRegistry) {
    this.registry = registry;
  }

  setup({ context }: Resources, out: Actions): void {
    if (this.contexts.length === 0) hosts.set(context.device, [...(hosts.get(context.device) ?? []), this]);
    this.contexts.push(context);
    this.out = out;
    this.registry.govern(context, census, {});
    this.registry.page(context);
    this.registry.decide(context, census, out.nowNs(context));
    this.agent = this.registry.agent(context.device, greeters);
  }

  onQp({ context, sgid, dgid }: QpView, change: QpChange): void {
    if (change === 'destroyed' || sgid === '' || dgid === '') return;
    this.gids.set(context.device, sgid);
    this.registry.registerGid(context.device, sgid);
    const peer = this.agent!.out.peerAt(dgid, sgid);
    if (peer >= 0) this.agent!.out.send(peer, [Number(context.device.slice(3))]);
  }

  onload(_qp: QpView, _words: Uint32Array, _start: number, count: number): number {
    return count;
  }

  feed(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }
}

/** The policies by the device whose context was the first that they had. */
let hosts = new Map<string, Probing[]>();
const table = policies as Record<string, PolicyEntry>;

beforeAll(() => {
  table.probing = {
    ...table.perf,
    options: z.object({}),
    rulers: [census],
    create: () => createCoordinatedShim('probing', (registry) => new Probing(registry)),
  };
});
afterAll(() => {
  delete table.probing;
});

async function run(more: Partial<MixSpec> = {}): Promise<Map<string, Probing[]>> {
  hosts = new Map();
  await runMix({
    ...DEFAULTS,
    profile: 'minimal',
    policy: 'probing',
    payload: false,
    durationNs: 100e3,
    warmupNs: 10e3,
    hosts: 3,
    apps: ['B:name=a,host=0,to=1', 'B:name=b,host=0,to=1', 'B:name=c,host=2,to=1'].map(
      (text) => mixApp(text).spec,
    ),
    ...more,
  });
  return hosts;
}

/** Everything that can be read from an object: its own properties, also private ones, and what collections contain. */
function reachableFrom(...roots: readonly unknown[]): Set<unknown> {
  const seen = new Set<unknown>();
  const open = [...roots];
  while (open.length > 0) {
    const one = open.pop();
    if ((typeof one !== 'object' && typeof one !== 'function') || one === null || seen.has(one)) continue;
    seen.add(one);
    if (ArrayBuffer.isView(one)) continue;
    if (one instanceof Map) open.push(...one.keys(), ...one.values());
    if (one instanceof Set) open.push(...one);
    for (const key of Reflect.ownKeys(one)) {
      const { value } = Object.getOwnPropertyDescriptor(one, key)!;
      open.push(value);
    }
  }
  return seen;
}

const methods = (registry: CoordinatorRegistry) =>
  registry as unknown as Record<string, (...given: unknown[]) => unknown>;

describe('the policy of host 0', () => {
  test('is an object of its own, as are its registry, its coordinator and its agent', async () => {
    const byDevice = await run();
    expect([...byDevice.keys()].sort()).toEqual(['sim0', 'sim1', 'sim2']);
    const all = [...byDevice.values()].flat();
    expect(all.length).toBe(3);
    const parts: unknown[][] = [
      all.map(({ registry }) => registry),
      all.map(({ agent }) => agent),
      all.map(({ out }) => out),
      all.map(({ registry }, host) => registry.coordinatorFor(`sim${host}`)),
    ];
    for (const each of parts) expect(new Set(each).size).toBe(3);
    for (const [device, [policy]] of byDevice) {
      expect(new Set(policy.contexts.map((context) => context.device))).toEqual(new Set([device]));
    }
  });

  test('can read no object of another host', async () => {
    const [[own], [other], [third]] = [...(await run()).values()];
    const reached = reachableFrom(own, own.agent!.out, own.registry);
    expect(reached.has(own.registry.coordinatorFor('sim0'))).toBe(true);
    for (const [host, { registry, agent, out, contexts }] of [
      ['sim1', other],
      ['sim2', third],
    ] as const) {
      const foreign = [registry, agent, agent!.out, out, ...contexts, registry.coordinatorFor(host)];
      expect(foreign.filter((one) => reached.has(one))).toEqual([]);
    }
    expect(reached.has(other) || reached.has(third)).toBe(false);
    // What knows all hosts.
    for (const whole of [Stacks, Dispatcher, Coordinators]) {
      expect([...reached].filter((one) => one instanceof whole)).toEqual([]);
    }
  });

  test('gets nothing of another host from any method of its registry', async () => {
    const [[own], [other]] = [...(await run()).values()];
    const { registry } = own;
    const foreign = reachableFrom(other);
    const shared = reachableFrom(own);
    const [context] = other.contexts;
    const kind = { name: 'spy', create: () => new Greeter() };
    const gid = other.gids.get('sim1')!;
    // What throws, and what knows nothing.
    const refused: Record<string, readonly unknown[]> = {
      coordinatorFor: ['sim1'],
      page: [context],
      member: [context],
      join: ['sim1', 'a', null],
      leave: ['sim1', { row: 0 }],
      subscribe: [context, () => {}],
      countQps: [context, 1],
      ratesOf: [context],
      countRated: [context, [1]],
      labelsOf: [context],
      groupsOf: [context],
      setGroup: [context, 'g', 2],
      maxQpsOf: [context, 1],
      maxRequestsPerSOf: [context],
      tenantRequestsPerSOf: [context],
      payRequests: [context, 1],
      isRemote: [context],
      awaitGrants: [context],
      pulse: [context],
      tenantOf: [context],
      govern: [context, census, {}],
      changeRules: [context, census, {}],
      rulesAt: ['sim1'],
      decide: [context, census, 0],
      decideAt: ['sim1', census, {}, 0, true],
      agent: ['sim1', kind],
      setAgentsDown: ['sim1', true],
      registerGid: ['sim1', gid],
      line: [context, kind, {}],
      hasChanges: [context],
      announce: ['sim1'],
    };
    for (const [name, given] of Object.entries(refused)) {
      expect(() => methods(registry)[name](...given), name).toThrow(NoDeviceError);
    }
    expect(() => registry.coordinatorFor('sim1')).toThrow(
      "host 0 has no device 'sim1', only 'sim0': use context.device, and reach other hosts through agents",
    );
    const ignorant: Record<string, readonly unknown[]> = {
      has: [context],
      relabel: [context],
      collectUsage: ['sim1'],
      notify: [context],
      agentCoordinator: ['sim1'],
      addressOf: [gid, kind],
      mayReach: [own.contexts[0], gid, kind],
    };
    for (const [name, given] of Object.entries(ignorant)) {
      const answer = methods(registry)[name](...given);
      for (const one of reachableFrom(answer)) {
        expect(foreign.has(one) && !shared.has(one), name).toBe(false);
      }
    }
    // `agentMessages` is a number.
    const known = Object.getOwnPropertyNames(CoordinatorRegistry.prototype).filter(
      (n) => n !== 'constructor' && n !== 'agentMessages',
    );
    expect(known.sort()).toEqual([...Object.keys(refused), ...Object.keys(ignorant)].sort());
  });

  test('reaches the agents of other hosts by messages', async () => {
    const [[own], [other], [third]] = [...(await run()).values()];
    const { out } = own.agent!;
    const gidOf = (policy: Probing) => [...policy.gids.values()][0];
    expect(out.peerAt('::ffff:10.9.9.9', gidOf(own))).toBe(-1);
    for (const peer of [other, third]) expect(out.peerAt(gidOf(peer), gidOf(own))).toBeGreaterThanOrEqual(0);
    expect(new Set(other.agent!.received)).toEqual(new Set([0, 2]));
    // Its address is two numbers.
    const { peers } = own.registry as unknown as { peers: CoordinatorRegistry };
    const address = peers.addressOf(gidOf(other), greeters);
    expect(address).toEqual({ gid: gidOf(other), qpNum: expect.any(Number) });
  });
});

test('hosts with an entry of policies of their own are found only by hosts with the same one', async () => {
  const stack = [{ policy: 'probing', policyOptions: {} }];
  const [[own], [other], [third]] = [...(await run({ onHosts: [{ hosts: [1, 2], stack }] })).values()];
  const gidOf = (policy: Probing) => [...policy.gids.values()][0];
  expect(own.agent!.out.peerAt(gidOf(other), gidOf(own))).toBe(-1);
  expect(other.agent!.out.peerAt(gidOf(third), gidOf(other))).toBeGreaterThanOrEqual(0);
});
