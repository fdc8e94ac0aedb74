// The worker's loop keeps the deadlines of its shim's timers, however it rests.
import { setTimeout as sleep } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { Deadlines } from '../../src/drivers/worker/deadlines.ts';
import { Loop, type Machine } from '../../src/drivers/worker/loop.ts';
import * as P from '../../src/drivers/worker/protocol.ts';
import { wake } from '../../src/drivers/worker/protocol.ts';
import { Requests } from '../../src/drivers/worker/requests.ts';

const clockNs = () => performance.now() * 1e6;

/** A loop in this thread that has nothing but deadlines. */
function start(spinNs: number) {
  const control = P.makeControl();
  const { port1, port2 } = new MessageChannel();
  const requests = new Requests(control, port1, port1);
  const deadlines = new Deadlines(clockNs);
  const lanes = { takeSends: () => false, ownsQueues: false };
  const build = (setup: P.WorkerSetup) =>
    ({ setup, chain: {}, remote: { deadlines, provider: {} }, lanes }) as unknown as Machine;
  const loop = new Loop({ control, requests, calls: port2, events: port1, build });
  port1.postMessage({ setup: { spinNs, direct: true } });
  control[P.CALL_KIND] = P.CALL_MESSAGE;
  Atomics.store(control, P.CALL, 1);
  loop.resume();
  return { control, deadlines, loop, close: () => port1.close() };
}

test.each([
  ['run', 0],
  ['run', 200_000],
  ['run', 2_000_000],
  ['nothing', 0],
  ['nothing', 200_000],
] as const)(
  'an alarm that keeps %s, set again and again, rings each time after its deadline (spin %d ns)',
  async (keeps, spinNs) => {
    const { deadlines, close } = start(spinNs);
    const early: number[] = [];
    let rung = 0;
    await new Promise<void>((done) => {
      const alarm = deadlines.create(keeps, () => {
        if (clockNs() < alarm.atNs[0]) early.push(alarm.atNs[0]);
        if (++rung === 5) done();
        else set();
      });
      const set = () => {
        // Near and far deadlines take different ways to rest.
        alarm.atNs[0] = clockNs() + [50_000, 700_000, 4_000_000, 0][rung % 4];
        alarm.set();
      };
      set();
    });
    expect({ rung, early }).toEqual({ rung: 5, early: [] });
    expect(deadlines.soonestNs[0]).toBe(Number.POSITIVE_INFINITY);
    close();
  },
);

test('an earlier deadline replaces a later one, and a closed alarm rings no more', async () => {
  const { control, deadlines, close } = start(0);
  const rung: string[] = [];
  const [one, other] = ['one', 'other'].map((name) => deadlines.create('run', () => rung.push(name)));
  one.atNs[0] = clockNs() + 1e12;
  one.set();
  other.atNs[0] = clockNs() + 2e8;
  other.set();
  await sleep(1);
  other.close();
  // After the time at which the other one would have rung.
  one.atNs[0] = clockNs() + 3e8;
  one.set();
  // The loop may be resting until the first deadline: only the worker's own thread sets alarms, while it is awake.
  wake(control);
  for (let i = 0; i < 500 && rung.length === 0; i++) await sleep(1);
  expect(rung).toEqual(['one']);
  expect([...deadlines.soonestNs]).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  close();
});

test('of two deadlines that have passed, both alarms ring; one set for now rings next time', () => {
  let nowNs = 0;
  const deadlines = new Deadlines(() => nowNs);
  const rung: number[] = [];
  const alarms = [0, 1].map((i) =>
    deadlines.create(i === 0 ? 'run' : 'nothing', () => {
      rung.push(i);
      alarms[i].atNs[0] = nowNs;
      alarms[i].set();
    }),
  );
  alarms.forEach((alarm, i) => {
    alarm.atNs[0] = 100 + i;
    alarm.set();
  });
  expect([...deadlines.soonestNs]).toEqual([100, 100]);
  expect(deadlines.ring()).toBe(false);
  nowNs = 200;
  expect(deadlines.ring()).toBe(true);
  expect(rung.length).toBe(2);
  expect(deadlines.soonestNs[0]).toBe(200);
});
