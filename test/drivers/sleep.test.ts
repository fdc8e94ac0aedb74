// The worker's loop must not miss a wake-up at any step of going to sleep.
import { setImmediate as turn } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { Loop } from '../../src/drivers/worker/loop.ts';
import * as P from '../../src/drivers/worker/protocol.ts';
import { wake } from '../../src/drivers/worker/protocol.ts';
import { Requests } from '../../src/drivers/worker/requests.ts';

const TURNS = 2000;
const { load, store } = Atomics;

afterEach(() => {
  Object.assign(Atomics, { load, store });
});

/** Runs `between` after the nth operation, starting from the one that announces that the worker sleeps. */
function interleave(nth: number, between: () => void): void {
  let seen = -1;
  const step = <T>(value: T): T => {
    if (seen >= 0 && seen++ === nth) {
      Object.assign(Atomics, { load, store });
      between();
    }
    return value;
  };
  Object.assign(Atomics, {
    load: (words: Int32Array, index: number) => step(load(words, index)),
    store: (words: Int32Array, index: number, value: number) => {
      if (index === P.STATE && value === P.ASLEEP) seen = 0;
      return step(store(words, index, value));
    },
  });
}

async function until(isSo: () => boolean): Promise<boolean> {
  for (let i = 0; i < TURNS && !isSo(); i++) await turn();
  return isSo();
}

/** A loop that goes to sleep in this thread, is woken after operation `nth`, and is called afterwards. */
async function playWith(nth: number): Promise<{ woken: boolean; answered: boolean }> {
  const control = P.makeControl();
  const { port1, port2 } = new MessageChannel();
  const build = () => {
    throw new Error('nothing is set up here');
  };
  const requests = new Requests(control, port1, port1);
  const loop = new Loop({ control, requests, calls: port2, events: port1, build });
  let woken = false;
  interleave(nth, () => {
    woken = true;
    wake(control);
  });
  loop.resume();
  await turn();
  await turn();
  Object.assign(Atomics, { load, store });
  control[P.CALL_KIND] = P.CALL_SYNC;
  store(control, P.CALL, 1);
  wake(control);
  const answered = await until(() => control[P.RETURNED] === 1);
  port1.close();
  return { woken, answered };
}

test('the loop notices a wake-up at any step of going to sleep', async () => {
  let nth = 0;
  for (; ; nth++) {
    const { woken, answered } = await playWith(nth);
    expect(answered, `woken behind operation ${nth}`).toBe(true);
    if (!woken) break;
  }
  // The loop announces that it sleeps, and checks once more for calls, sends, and sends that found no room.
  expect(nth).toBe(4);
});
