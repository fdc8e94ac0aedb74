// Calls of contexts that need not check timers: they behave as if each of them checked.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ShimContext } from '../../src/shim/context.ts';
import { ContextTimers, Timers } from '../../src/shim/timers/timers.ts';
import type { Provider } from '../../src/verbs/provider.ts';

const CONTEXTS = 3;

/** Contexts without an event loop. Records what fires, and in which call. */
class Rig {
  nowNs = 0;
  call = 0;
  readonly events: string[] = [];
  readonly contexts = Array.from({ length: CONTEXTS }, (_, i) => {
    const context = { handle: i + 1, closed: false, waiting: 0, timers: new ContextTimers() };
    return context as unknown as ShimContext;
  });
  readonly timers: Timers;
  private readonly isDue: (context: ShimContext) => boolean;

  constructor(checksEach: boolean) {
    const clock = { nowNs: () => this.nowNs, sleep: () => new Promise<void>(() => {}) };
    this.timers = new Timers(clock as unknown as Provider, (token) => {
      this.events.push(`${this.call}: timer ${token}`);
    });
    this.isDue = (context) => (checksEach ? this.timers.isCheckDue : this.timers.isCheckDueIn(context));
  }

  pulse(isOn: boolean): void {
    this.timers.pulse(isOn ? () => this.events.push(`${this.call}: pulse`) : null);
  }

  calls(count: number, index: number): void {
    const context = this.contexts[index];
    for (let i = 0; i < count; i++) {
      this.call++;
      this.nowNs += 100;
      if (this.isDue(context)) this.timers.check(context);
    }
  }
}

test('timers and pulses fire in the same calls whether or not idle contexts skip their checks', () => {
  const step = fc.record({
    calls: fc.integer({ min: 1, max: 3000 }),
    context: fc.nat(CONTEXTS - 1),
    what: fc.constantFrom('nothing', 'watch', 'strict', 'relaxed', 'remove', 'pulse', 'no pulse'),
    of: fc.nat(CONTEXTS - 1),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 20 }), (steps) => {
      const [each, few] = [true, false].map((checksEach) => {
        const rig = new Rig(checksEach);
        for (const { calls, context, what, of } of steps) {
          const at = what === 'remove' ? Number.POSITIVE_INFINITY : rig.nowNs + 5e4;
          if (what === 'watch') rig.timers.watch(true);
          else if (what === 'pulse' || what === 'no pulse') rig.pulse(what === 'pulse');
          else if (what !== 'nothing') rig.timers.set(rig.contexts[of], at, of, what === 'relaxed');
          rig.calls(calls, context);
          if (what === 'watch') rig.timers.watch(false);
        }
        return rig.events;
      });
      expect(few).toEqual(each);
    }),
    { numRuns: 300 },
  );
});
