// Policies with a window across processes: the daemon gives each process a part of it, and takes it back from those that
// end.
import { describe, expect, test } from 'vitest';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator, type RemoteMember } from '../../src/daemon/client/remote-coordinator.ts';
import { SILENT_NS } from '../../src/daemon/liveness.ts';
import { Fair } from '../../src/policies/fair/fair.ts';
import { fairOptions, fairWindows } from '../../src/policies/fair/options.ts';
import { PART } from '../../src/policies/link/columns.ts';
import { palosOptions } from '../../src/policies/palos/options.ts';
import { Palos } from '../../src/policies/palos/palos.ts';
import { windows } from '../../src/policies/palos/ruler.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { createShim } from '../../src/shim/shim.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import type { Labels } from '../../src/verbs/labels.ts';
import { connect, type End, makeEnd, post, take } from '../sim/helpers.ts';
import { hostOf, Process } from './host-rig.ts';

const BYTES = 65_536;
const DEPTH = 4;
/** A program polls this often. */
const STEP_NS = 100_000;
/** The daemon looks at its clients this often. */
const PASS_NS = 10e6;
const BEAT_NS = 20e6;
/** A slow link to a far host, which carries several pieces in a round trip. */
const PROFILE = { ...PROFILES['cx6-100g'], linkGbps: 0.5, propagationNs: 400_000 };

const POLICIES = {
  palos: {
    make: (coordinators: CoordinatorRegistry) => new Palos(palosOptions.parse({}), coordinators),
    ruler: windows,
  },
  fair: {
    make: (coordinators: CoordinatorRegistry) => new Fair(fairOptions.parse({}), coordinators),
    ruler: fairWindows,
  },
};

/** A process to which the daemon answers some time after it has opened its device. */
class LateProcess extends Process {
  private readonly asked: RemoteMember[] = [];

  override memberJoined(member: RemoteMember): void {
    this.asked.push(member);
  }

  answer(): void {
    for (const member of this.asked.splice(0)) super.memberJoined(member);
  }
}

/** A process with one queue pair that always has something to send. */
class Program {
  readonly process: LateProcess;
  readonly registry: CoordinatorRegistry;
  member!: RemoteMember;
  done = 0;
  isRunning = true;
  isPosting = true;
  private readonly ruler: typeof windows;
  private readonly a: End;
  private readonly b: End;

  constructor(world: World, tenant: string, labels: Partial<Labels>) {
    const { fabric, host } = world;
    this.process = new LateProcess(host, tenant);
    this.process.nowNs = fabric.nowNs;
    this.registry = new CoordinatorRegistry((device) => {
      const coordinator = new RemoteCoordinator(device, this.process);
      const { join } = coordinator;
      coordinator.join = (name) => {
        this.member = join.call(coordinator, name) as RemoteMember;
        return this.member;
      };
      return coordinator;
    });
    const { make, ruler } = POLICIES[world.policy];
    this.ruler = ruler;
    const shim = createShim(() => make(this.registry), { coordinator: this.registry });
    const provider = compose(fabric.provider, [shim]);
    const openDevice: typeof provider.openDevice = (name) => provider.openDevice(name, { labels });
    const options = { bytes: BYTES, timeout: 18 };
    this.a = makeEnd({ ...fabric, provider: { ...provider, openDevice } } as Fabric, 0, options);
    this.b = makeEnd(fabric, 1, options);
    connect(this.a, this.b);
    for (let i = 0; i < DEPTH; i++) this.post();
  }

  get part(): number {
    return this.member.columns(this.ruler).grants[PART];
  }

  private post(): void {
    const { a, b } = this;
    a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, BYTES, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(1);
  }

  step(): void {
    if (!this.isRunning) return;
    for (const { status } of take(this.a)) {
      expect(status).toBe('SUCCESS');
      this.done++;
      if (this.isPosting) this.post();
    }
  }
}

/** One device that several processes share, and a daemon. */
class World {
  readonly host = hostOf();
  readonly fabric = createFabric({ profile: PROFILE, autoAdvance: false, payload: false });
  readonly programs: Program[] = [];
  isDaemonUp = true;
  readonly answerNs: number;
  readonly policy: keyof typeof POLICIES;
  private nextPassNs = 0;
  private nextBeatNs = 0;

  /** @param answerNs when the daemon confirms the seats of the programs */
  constructor(answerNs = 0, policy: keyof typeof POLICIES = 'palos') {
    this.answerNs = answerNs;
    this.policy = policy;
  }

  start(labels: Partial<Labels> = {}, tenant = 't'): Program {
    const program = new Program(this, tenant, labels);
    this.programs.push(program);
    return program;
  }

  async run(ns: number): Promise<void> {
    const { fabric, programs } = this;
    for (const endNs = fabric.nowNs + ns; fabric.nowNs < endNs; ) {
      for (const one of programs) one.step();
      if (this.isDaemonUp) this.lookAfter();
      await fabric.advance(STEP_NS);
    }
  }

  private lookAfter(): void {
    const { host, programs, fabric } = this;
    const { nowNs } = fabric;
    if (nowNs >= this.answerNs) for (const { process } of programs) process.answer();
    if (nowNs >= this.nextBeatNs) {
      this.nextBeatNs = nowNs + BEAT_NS;
      for (const { process, isRunning } of programs) if (isRunning) process.beat();
    }
    if (nowNs < this.nextPassNs) return;
    this.nextPassNs = nowNs + PASS_NS;
    host.fullPass(nowNs);
    const told = new Set(host.takeClientsToNotify());
    for (const { process, isRunning } of programs) {
      process.nowNs = nowNs;
      if (isRunning && told.has(process.client)) process.notify();
    }
  }

  /** What each program sends in this time, as a part of all. */
  async shares(ns: number): Promise<number[]> {
    const before = this.programs.map(({ done }) => done);
    await this.run(ns);
    const sent = this.programs.map(({ done }, i) => done - before[i]);
    const all = sent.reduce((sum, each) => sum + each, 0);
    return sent.map((each) => each / all);
  }
}

function expectWithin(values: readonly number[], due: readonly number[], part: number): void {
  for (const [i, value] of values.entries()) {
    expect(value / due[i]).toBeGreaterThan(1 - part);
    expect(value / due[i]).toBeLessThan(1 + part);
  }
}

test('four programs in two groups, of weights 1 to 4, have the shares of equation (1) within 2 s', async () => {
  const world = new World();
  for (const qpWeight of [1, 2, 3, 4]) world.start({ qpWeight, group: qpWeight % 2 === 0 ? 'even' : 'odd' });
  await world.run(3e8);
  expectWithin(await world.shares(5e8), [1 / 8, 1 / 6, 3 / 8, 1 / 3], 0.05);
});

test('under fair, tenants have equal shares, however many programs they have', async () => {
  const world = new World(0, 'fair');
  for (const tenant of ['one', 'three', 'three', 'three']) world.start({}, tenant);
  await world.run(3e8);
  expectWithin(await world.shares(5e8), [1 / 2, 1 / 6, 1 / 6, 1 / 6], 0.05);
});

test('under fair, one busy program among idle ones has nearly all of the window', async () => {
  const world = new World(0, 'fair');
  const [busy, ...idle] = ['a', 'b', 'c', 'd'].map((tenant) => world.start({}, tenant));
  for (const program of idle) program.isPosting = false;
  await world.run(5e8);
  expect(busy.part).toBeGreaterThan(0.95);
});

describe('a process that is killed', () => {
  /** Two programs that share the device, one of which ends without a word. */
  async function killed() {
    const world = new World();
    const [one, other] = [world.start({ qpWeight: 1 }), world.start({ qpWeight: 3 })];
    await world.run(3e8);
    expect(one.part).toBeLessThan(0.5);
    other.isRunning = false;
    return { world, one, other };
  }

  test('gives its part of the window back with the next pass after its socket has closed', async () => {
    const { world, one, other } = await killed();
    world.host.leave(other.process.client, other.member.seatNumber, world.fabric.nowNs);
    await world.run(PASS_NS + STEP_NS);
    expect(one.part).toBeCloseTo(1, 6);
  });

  test('or is stopped gives it back once it has been silent for 50 ms', async () => {
    const { world, one, other } = await killed();
    await world.run(SILENT_NS - 2 * BEAT_NS);
    expect(one.part).toBeLessThan(0.5);
    await world.run(2 * BEAT_NS + 2 * PASS_NS);
    expect(one.part).toBeCloseTo(1, 6);
    other.isRunning = true;
    await world.run(5e8);
    expect(one.part).toBeLessThan(0.5);
  });
});

test('without the daemon, the last parts stay in force', async () => {
  const world = new World();
  const programs = [1, 3].map((qpWeight) => world.start({ qpWeight }));
  await world.run(5e8);
  const parts = programs.map(({ part }) => part);
  world.isDaemonUp = false;
  for (const { process } of programs) process.end();
  expect(programs.map(({ part }) => part)).toEqual(parts);
  expectWithin(await world.shares(5e8), [1 / 4, 3 / 4], 0.1);
  expect(programs.map(({ part }) => part)).toEqual(parts);
});

test.each([0, 1e6, 15e6, 35e6])('a daemon that answers after %d ns steers programs', async (answerNs) => {
  const world = new World(answerNs);
  const programs = [1, 3].map((qpWeight) => world.start({ qpWeight }));
  await world.run(2e8);
  expect(programs[0].part).toBeLessThan(0.5);
});
