// Which chunks go over the split queue pair, and when the last one may follow on the queue pair itself.
import { describe, expect, test } from 'vitest';
import { SplitQps } from '../../../src/policies/justitia/split.ts';
import { BLOCKED } from '../../../src/policies/kit/step.ts';
import type { Actions } from '../../../src/shim/policy.ts';
import type { Resources, ResourceView } from '../../../src/shim/resources.ts';
import { type Held, HeldRequests } from '../kit/held-requests.ts';

const DEPTH = 16;
const CHUNK = 5000;
const MB = 1_000_000;

function ground(mode: 'auto' | 'always' | 'never', connected = true) {
  const requests = new HeldRequests(64);
  const qp = requests.qp(0);
  const twin = { room: DEPTH, connected };
  const onTwin: number[] = [];
  const splitQps = new SplitQps(mode);
  const declared: unknown[] = [];
  splitQps.setup({
    context: qp.context,
    twins: (options: unknown) => declared.push(options) - 1,
    twin: () => twin as ResourceView,
  } as Partial<Resources> as Resources);
  splitQps.reset(qp);
  let oldest: Held | null = null;
  const out = {
    ...requests.out,
    pieceOn: (_qp, _twin, bytes) => {
      twin.room--;
      onTwin.push(bytes);
      oldest!.bytes -= bytes;
      return bytes;
    },
  } as Actions;
  const step = (chunkBytes = CHUNK) => splitQps.step(qp, out, chunkBytes);
  return {
    requests,
    onTwin,
    declared,
    hold(request: Held) {
      oldest = request;
      requests.hold(0, request);
    },
    step,
    /** Steps until nothing more can be issued. Returns what each step issued. */
    steps(chunkBytes = CHUNK): number[] {
      const all: number[] = [];
      for (let bytes = step(chunkBytes); bytes !== BLOCKED; bytes = step(chunkBytes)) all.push(bytes);
      return all;
    },
    complete(count = DEPTH) {
      twin.room = Math.min(DEPTH, twin.room + count);
    },
    reset: () => splitQps.reset(qp),
  };
}

describe('always', () => {
  test('all chunks but the last go over the split queue pair, and the last one waits for them', () => {
    const { hold, step, steps, complete, onTwin, requests } = ground('always');
    hold({ bytes: 3 * CHUNK + 10 });
    expect(steps()).toEqual([CHUNK, CHUNK, CHUNK]);
    expect([onTwin.length, requests.issued.length]).toEqual([3, 0]);
    complete(2);
    expect(step()).toBe(BLOCKED);
    complete(1);
    expect(step()).toBe(10);
    expect(requests.issued).toEqual([{ qp: 0, bytes: 10, isLast: true }]);
  });

  test('at most 16 chunks are in flight, and 2 while they are long', () => {
    for (const [chunkBytes, most] of [
      [CHUNK, DEPTH],
      [65_535, DEPTH],
      [65_536, 2],
      [MB, 2],
    ]) {
      const { hold, steps, complete } = ground('always');
      hold({ bytes: 100 * chunkBytes });
      expect(steps(chunkBytes)).toHaveLength(most);
      complete(1);
      expect(steps(chunkBytes)).toHaveLength(1);
    }
  });

  test.each<[string, Held]>([
    ['messages of one chunk', { bytes: CHUNK }],
    ['messages that must not be cut', { bytes: 100 * CHUNK, splittable: false }],
  ])('%s go over the queue pair itself', (_, request) => {
    const { hold, steps, onTwin, requests } = ground('always');
    const { bytes } = request;
    hold(request);
    expect(steps()).toEqual([bytes]);
    expect([onTwin, requests.issued.map((one) => one.bytes)]).toEqual([[], [bytes]]);
  });

  test('the next message begins after the last chunk of the one before', () => {
    const { hold, steps, complete, onTwin, requests } = ground('always');
    hold({ bytes: 2 * CHUNK });
    expect(steps()).toEqual([CHUNK]);
    complete();
    expect(steps()).toEqual([CHUNK]);
    hold({ bytes: 2 * CHUNK });
    expect(steps()).toEqual([CHUNK]);
    expect([onTwin.length, requests.issued.length]).toEqual([2, 1]);
  });
});

describe('auto', () => {
  test('messages use the split queue pair from 1 MB on, down to their last chunk', () => {
    const { hold, steps, complete, onTwin, requests } = ground('auto');
    hold({ bytes: MB - 1 });
    steps();
    expect(onTwin).toEqual([]);
    requests.complete(0);
    for (let i = 0; i < 20; i++) {
      steps();
      requests.complete(0);
    }
    hold({ bytes: MB });
    const before = requests.issued.length;
    for (let i = 0; i < 20; i++) {
      steps();
      complete();
    }
    expect(onTwin).toHaveLength(MB / CHUNK - 1);
    expect(requests.issued.slice(before)).toEqual([{ qp: 0, bytes: CHUNK, isLast: true }]);
  });

  test('long chunks do not use the split queue pair, unless it has those before them', () => {
    const { hold, step, steps, complete, onTwin, requests } = ground('auto');
    hold({ bytes: 3 * MB });
    expect(step(65_536)).toBe(65_536);
    expect([onTwin.length, requests.issued.length]).toEqual([0, 1]);
    expect(step(CHUNK)).toBe(CHUNK);
    complete();
    expect(steps(65_536)).toEqual([65_536, 65_536]);
    expect([onTwin, requests.issued.length]).toEqual([[CHUNK, 65_536, 65_536], 1]);
  });

  test('after a RESET, a short message does not continue on the split queue pair', () => {
    const { hold, step, requests, reset, onTwin } = ground('auto');
    hold({ bytes: MB });
    step();
    reset();
    requests.out.pass(requests.qp(0));
    requests.complete(0);
    hold({ bytes: 10 * CHUNK });
    step();
    expect(onTwin).toHaveLength(1);
  });
});

test.each<[Parameters<typeof ground>[0], boolean]>([
  ['never', true],
  ['always', false],
  ['auto', false],
])(
  'with %s and a twin whose connection is %s, all chunks go over the queue pair itself',
  (mode, connected) => {
    const { hold, steps, onTwin, requests, declared } = ground(mode, connected);
    hold({ bytes: 2 * MB });
    for (let i = 0; i < 10; i++) {
      steps();
      requests.complete(0);
    }
    expect(onTwin).toEqual([]);
    expect(requests.issued).toHaveLength((2 * MB) / CHUNK);
    expect(declared).toHaveLength(mode === 'never' ? 0 : 1);
  },
);
