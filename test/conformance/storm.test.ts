/**
 * Storms: many queue pairs on one completion queue, all with long requests in flight, fail at nearly the same time, while
 * the program reacts inside the listener for asynchronous events. The completions of each queue pair do not depend on
 * timing, except for how many requests had completed when its peer's host died.
 */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { ALL_ACCESS, connect, type End, makeEnd, modify, post, SIGNALED, take } from '../sim/helpers.ts';
import { chains, tagsOfWay } from './chains.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 12);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_129);
const DEPTH = 8;
const CAP = { maxSendWr: DEPTH, maxRecvWr: DEPTH, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
const BYTES = 1 << 16;

interface Lane {
  bytes: number[];
  read: boolean;
  /** Index of the request with an invalid key; none if it is beyond `bytes`. */
  bad: number;
  /** The reaction of the peer's program to the event. */
  reaction: 'none' | 'error' | 'reset' | 'destroy';
}

interface Storm {
  lanes: Lane[];
  /** The host of the peers dies. */
  killAtNs: number | null;
}

const lane: fc.Arbitrary<Lane> = fc.record({
  bytes: fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: DEPTH }),
  read: fc.boolean(),
  bad: fc.integer({ min: 0, max: DEPTH + 4 }),
  reaction: fc.constantFrom('none' as const, 'error' as const, 'reset' as const, 'destroy' as const),
});

const storm: fc.Arbitrary<Storm> = fc.record({
  lanes: fc.array(lane, { minLength: 2, maxLength: 40 }),
  killAtNs: fc.option(fc.integer({ min: 0, max: 100_000 }), { freq: 3 }),
});

function more(end: End): End {
  const { v, pd, sendCq, recvCq } = end;
  const { handle, qpNum } = v.createQp(pd, {
    qpType: V.IBV_QPT_RC,
    sendCq,
    recvCq,
    cap: CAP,
    sqSigAll: false,
  });
  return { ...end, qp: handle, qpNum };
}

function postLane({ bytes, read, bad }: Lane, end: End, peer: End): void {
  for (const [i, length] of bytes.entries()) {
    // Some requests are signaled, and the last one.
    const flags = i % 3 === 0 || i === bytes.length - 1 ? SIGNALED : 0;
    const rkey = i === bad ? 0xdead : peer.mr.rkey;
    const call = read ? 'read' : 'write';
    end.send[call](i, flags, end.mr.addr, length, end.mr.lkey, peer.mr.addr, rkey);
  }
  expect(post(end)).toBe(bytes.length);
}

async function run({ lanes, killAtNs }: Storm, chain: () => Interceptor[], wait = true) {
  const fabric = createFabric({ hosts: 2, seed: 1, wait, autoAdvance: false });
  const options = { bytes: BYTES, cqe: DEPTH * lanes.length, access: ALL_ACCESS };
  const on = (which: number) =>
    makeEnd({ ...fabric, provider: compose(fabric.provider, chain()) }, which, options);
  const [a, b] = [on(0), on(1)];
  const quick = { timeout: 10, retryCnt: 1 };
  const pairs = lanes.map(
    () =>
      [
        { ...more(a), o: quick },
        { ...more(b), o: quick },
      ] as const,
  );
  const told: Record<string, string[]> = {};
  const tell = (who: string, what: string) => {
    told[who] ??= [];
    told[who].push(what);
  };
  b.v.watchAsyncEvents(b.context, (event, element) => {
    const i = pairs.findIndex(([, peer]) => peer.qp === element);
    tell(`b${i}`, V.asyncEventName(event));
    // The event of the dead host's port belongs to no queue pair.
    const reaction = i < 0 ? 'none' : lanes[i].reaction;
    if (reaction === 'destroy') b.v.destroyQp(element);
    else if (reaction !== 'none')
      modify(pairs[i][1], { qpState: reaction === 'error' ? V.IBV_QPS_ERR : V.IBV_QPS_RESET });
  });
  for (const [one, other] of pairs) connect(one, other);
  for (const [i, [one, other]] of pairs.entries()) postLane(lanes[i], one, other);
  if (killAtNs !== null) {
    await fabric.advance(killAtNs);
    fabric.fault({ kill: 'sim1' });
  }
  for (let idle = 0; idle < 3; idle++) {
    await fabric.run();
    for (const { wrId, status, recv } of takeFrom(a, pairs)) {
      tell(recv, `${wrId} ${status}`);
      idle = 0;
    }
  }
  return { told, broken: fabric.brokenInvariants() };
}

/** Completions, with the name of their queue pair instead of `recv`, because none of them is a receive. */
function takeFrom(a: End, pairs: readonly (readonly [End, End])[]) {
  const { wc } = a;
  return take(a).map((one, k) => ({ ...one, recv: `a${pairs.findIndex(([{ qp }]) => qp === wc.qp(k))}` }));
}

/**
 * If the peer's host dies, or its queue pair before its last answers were sent, how many requests arrived depends on
 * timing; the others fail in order, once each.
 */
function endsWell(lines: readonly string[], { bytes }: Lane): boolean {
  const ids = lines.map((line) => Number(line.split(' ')[0]));
  const failed = lines.findIndex((line) => !line.endsWith(' SUCCESS'));
  const rest = failed < 0 ? [] : lines.slice(failed + 1);
  const isInOrder = ids.every((id, k) => k === 0 || id > ids[k - 1]);
  const isFlushed = rest.every((line, k) => line === `${ids[failed] + 1 + k} WR_FLUSH_ERR`);
  return ids.at(-1) === bytes.length - 1 && isInOrder && isFlushed;
}

for (const [name, { chain, wait }] of Object.entries(chains)) {
  test(name, { tags: tagsOfWay(name), timeout: 300_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(storm, async (s) => {
        const bare = await run(s, () => [], wait);
        const shimmed = await run(s, chain, wait);
        expect(shimmed.broken).toEqual([]);
        for (const [i, one] of s.lanes.entries()) {
          const isSudden = one.reaction !== 'none' && one.bad < one.bytes.length;
          const lines = shimmed.told[`a${i}`] ?? [];
          expect({ i, lines, ends: endsWell(lines, one) }).toEqual({ i, lines, ends: true });
          if (s.killAtNs !== null) continue;
          expect(shimmed.told[`b${i}`]).toEqual(bare.told[`b${i}`]);
          if (!isSudden) expect(lines).toEqual(bare.told[`a${i}`]);
        }
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}
