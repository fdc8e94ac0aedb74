/** Programs under policies with a window, which share a simulated device and a daemon. */
import { expect } from 'vitest';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator, type RemoteMember } from '../../src/daemon/client/remote-coordinator.ts';
import { Fair } from '../../src/policies/fair/fair.ts';
import { fairOptions, fairWindows } from '../../src/policies/fair/options.ts';
import { PART } from '../../src/policies/link/columns.ts';
import { palosOptions } from '../../src/policies/palos/options.ts';
import { Palos } from '../../src/policies/palos/palos.ts';
import { windows } from '../../src/policies/palos/ruler.ts';
import { tokenBucketOptions } from '../../src/policies/token-bucket/options.ts';
import { TokenBucket } from '../../src/policies/token-bucket/token-bucket.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import type { Policy } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import type { Labels } from '../../src/verbs/labels.ts';
import { connect, type End, makeEnd, post, take } from '../sim/helpers.ts';
import { hostOf, Process } from './host-rig.ts';

const BYTES = 65_536;
const DEPTH = 4;
/** A program polls this often. */
export const STEP_NS = 100_000;
/** The daemon looks at its clients this often. */
export const PASS_NS = 10e6;
export const BEAT_NS = 20e6;
/** A slow link to a far host, which carries several pieces in a round trip. */
export const PROFILE = { ...PROFILES['cx6-100g'], linkGbps: 0.5, propagationNs: 400_000 };

const POLICIES = {
  palos: {
    make: (coordinators: CoordinatorRegistry) => new Palos(palosOptions.parse({}), coordinators),
    ruler: windows,
  },
  fair: {
    make: (coordinators: CoordinatorRegistry) => new Fair(fairOptions.parse({}), coordinators),
    ruler: fairWindows,
  },
  /** As fair with its option ratesGbps: a policy around it enforces rates, too. */
  'fair in token-bucket': {
    make: (coordinators: CoordinatorRegistry) => new Fair(fairOptions.parse({}), coordinators),
    outside: (coordinators: CoordinatorRegistry) =>
      new TokenBucket(tokenBucketOptions.parse({ others: 'unlimited' }), coordinators),
    ruler: fairWindows,
  },
};

interface WorldPolicy {
  make(coordinators: CoordinatorRegistry): Policy;
  outside?(coordinators: CoordinatorRegistry): Policy;
  readonly ruler: typeof windows;
}

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

interface Load {
  readonly bytes: number;
  readonly depth: number;
  /** Whether it sends atomics instead of WRITEs. */
  readonly isAtomic?: boolean;
  /** Its contexts, each with one queue pair; default 1. */
  readonly contexts?: number;
}

/** A process whose queue pairs always have something to send. */
export class Program {
  readonly process: LateProcess;
  readonly registry: CoordinatorRegistry;
  member!: RemoteMember;
  done = 0;
  /** By context. */
  readonly doneBy: number[] = [];
  isRunning = true;
  isPosting = true;
  private readonly ruler: typeof windows;
  readonly load: Load;
  private readonly pairs: readonly (readonly [End, End])[];

  constructor(world: World, tenant: string, labels: Partial<Labels>, load: Load) {
    this.load = load;
    const { bytes, depth, contexts = 1 } = load;
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
    const { make, ruler, outside }: WorldPolicy = POLICIES[world.policy];
    this.ruler = ruler;
    const shims = [createShim(() => make(this.registry), { coordinator: this.registry })];
    if (outside !== undefined) {
      const other = new CoordinatorRegistry((device) => new RemoteCoordinator(device, this.process));
      shims.unshift(createShim(() => outside(other), { coordinator: other }));
    }
    const provider = compose(fabric.provider, shims);
    const openDevice: typeof provider.openDevice = (name) => provider.openDevice(name, { labels });
    const options = { bytes, timeout: 18 };
    const shimmed = { ...fabric, provider: { ...provider, openDevice } } as Fabric;
    this.pairs = Array.from({ length: contexts }, () => [
      makeEnd(shimmed, 0, options),
      makeEnd(fabric, 1, options),
    ]);
    for (const [a, b] of this.pairs) connect(a, b);
    for (const [a, b] of this.pairs) for (let i = 0; i < depth; i++) this.post(a, b);
  }

  get part(): number {
    return this.member.columns(this.ruler).grants[PART];
  }

  private post(a: End, b: End): void {
    const { bytes, isAtomic } = this.load;
    if (isAtomic === true)
      a.send.fetchAdd(1, V.IBV_SEND_SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
    else a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(1);
  }

  step(): void {
    if (!this.isRunning) return;
    for (const [i, [a, b]] of this.pairs.entries()) {
      for (const { status } of take(a)) {
        expect(status).toBe('SUCCESS');
        this.done++;
        this.doneBy[i] = (this.doneBy[i] ?? 0) + 1;
        if (this.isPosting) this.post(a, b);
      }
    }
  }
}

/** One device that several processes share, and a daemon. */
export class World {
  readonly host = hostOf();
  readonly fabric: Fabric;
  readonly programs: Program[] = [];
  isDaemonUp = true;
  readonly answerNs: number;
  readonly policy: keyof typeof POLICIES;
  private nextPassNs = 0;
  private nextBeatNs = 0;

  /** @param answerNs when the daemon confirms the seats of the programs */
  constructor(answerNs = 0, policy: keyof typeof POLICIES = 'palos', profile = PROFILE) {
    this.answerNs = answerNs;
    this.policy = policy;
    this.fabric = createFabric({ profile, autoAdvance: false, payload: false });
  }

  /** @param load the messages of the program, and how many it has outstanding */
  start(labels: Partial<Labels> = {}, tenant = 't', load: Load = { bytes: BYTES, depth: DEPTH }): Program {
    const program = new Program(this, tenant, labels, load);
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
