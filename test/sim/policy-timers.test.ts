/** Timers of a policy in virtual time: exact by default, late by `timerLateNs`, and without promises. */
import { expect, test } from 'vitest';
import { createFabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import type { Actions, ContextView, Policy } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import type { Provider } from '../../src/verbs/provider.ts';

/** Sets a timer every `periodNs`, one `count` times in all. */
class Ticks implements Policy {
  readonly name = 'ticks';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 0;
  readonly firedNs: number[] = [];
  private readonly periodNs: number;
  private readonly count: number;
  private context: ContextView | null = null;

  constructor(periodNs: number, count: number) {
    this.periodNs = periodNs;
    this.count = count;
  }

  setup({ context }: { context: ContextView }, out: Actions): void {
    this.context = context;
    this.set(out);
  }

  onload(_qp: unknown, _words: Uint32Array, _start: number, count: number): number {
    return count;
  }

  feed(): void {}

  onTimer(_token: number, out: Actions): void {
    if (this.context === null) return;
    this.firedNs.push(out.nowNs(this.context));
    if (this.firedNs.length < this.count) this.set(out);
  }

  private set(out: Actions): void {
    const { context } = this;
    if (context !== null) out.timer(context, out.nowNs(context) + this.periodNs, 0);
  }
}

function open(options: FabricOptions, policy: Ticks, below: Interceptor[] = []) {
  const fabric = createFabric({ autoAdvance: false, ...options });
  const provider = compose(fabric.provider, [createShim(() => policy), ...below]);
  return { fabric, provider, context: provider.openDevice('sim0') };
}

test('timers fire at their exact times by default', () => {
  const policy = new Ticks(1000, 3);
  const { fabric } = open({ inside: true }, policy);
  expect(fabric.runInside(1e6)).toBe(true);
  expect(policy.firedNs).toEqual([1000, 2000, 3000]);
});

test('timers fire timerLateNs late while the application makes no calls', () => {
  const policy = new Ticks(1000, 3);
  const { fabric } = open({ inside: true, profile: { timerLateNs: 50_000 } }, policy);
  expect(fabric.runInside(1e6)).toBe(true);
  expect(policy.firedNs).toEqual([51_000, 102_000, 153_000]);
});

test('a program that polls finds an expired timer at its next call, however late alarms are', () => {
  const policy = new Ticks(1000, 2);
  const { provider, context } = open({ profile: { timerLateNs: 50_000, pollMissNs: 30 } }, policy);
  const cq = provider.createCq(context, 16, 0).handle;
  const { handle } = provider.createWcRing(16);
  for (let i = 0; i < 100; i++) provider.pollCq(cq, handle, 0, 16);
  // Polls of 30 ns each; the poll after the one in which the time passed.
  expect(policy.firedNs).toEqual([1020, 2040]);
});

test('timers fire alike for programs outside the simulation', async () => {
  const policy = new Ticks(1000, 3);
  const { fabric } = open({ profile: { timerLateNs: 50_000 } }, policy);
  await fabric.advance(1e6);
  expect(policy.firedNs).toEqual([51_000, 102_000, 153_000]);
});

test('a timer of a closed context does not fire', async () => {
  const policy = new Ticks(1000, 3);
  const { fabric, provider, context } = open({}, policy);
  provider.closeDevice(context);
  await fabric.advance(1e6);
  expect(policy.firedNs).toEqual([]);
});

test('with an interceptor that replaces sleep, timers sleep through it', async () => {
  const policy = new Ticks(1000, 3);
  let sleeps = 0;
  const counting: Interceptor = {
    name: 'counting',
    wrap: (next: Provider) => ({
      sleep: (...args: Parameters<Provider['sleep']>) => {
        sleeps++;
        return next.sleep(...args);
      },
    }),
  };
  const { fabric } = open({}, policy, [counting]);
  await fabric.advance(1e6);
  expect(policy.firedNs).toEqual([1000, 2000, 3000]);
  expect(sleeps).toBe(3);
});
