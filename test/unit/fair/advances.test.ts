/**
 * Small messages of fair that pass without the policy being asked: they are charged afterwards, so that they change
 * neither how much passes nor what others get.
 */
import { expect, test } from 'vitest';
import { createPolicy } from '../../../src/policies/index.ts';
import { createFabric } from '../../../src/providers/sim/index.ts';
import { compose } from '../../../src/shim/compose.ts';
import { shimCounters } from '../../../src/shim/counters.ts';
import { connect, type End, makeEnd, post } from '../../sim/helpers.ts';

const PASS_BYTES = 6144;
/** Longer than tiny messages, of which more may pass. On the wire, headers are added. */
const BYTES = 128;
const WIRE_BYTES = BYTES + 82 + 16;
const MOST = Math.ceil(PASS_BYTES / WIRE_BYTES);

/** Two hosts. On the first one, a tenant with long messages keeps the device busy for a while. */
function ground(queuePairs: number) {
  const fabric = createFabric({ hosts: 2, seed: 1, profile: 'cx6-100g', autoAdvance: false });
  const v = compose(fabric.provider, [createPolicy('fair', { passBytes: PASS_BYTES })]);
  let tenant = '';
  const provider = {
    ...v,
    openDevice: (name: string) => v.openDevice(name, { tenant: name === 'sim0' ? tenant : 'peer' }),
  };
  const open = (name: string) => {
    tenant = name;
    const ends: [End, End] = [
      makeEnd({ ...fabric, provider }, 0, { bytes: 1 << 22 }),
      makeEnd({ ...fabric, provider }, 1, { bytes: 1 << 22 }),
    ];
    connect(...ends);
    return ends;
  };
  const write = ([{ send, mr }, peer]: [End, End], bytes: number) =>
    send.write(1, 0, mr.addr, bytes, mr.lkey, peer.mr.addr, peer.mr.rkey);
  const hog = open('hog');
  const small = Array.from({ length: queuePairs }, () => open('small'));
  /** The hog sends for so long. Its completions are not polled, so that it stays in service. */
  const serve = (ns: number) => {
    for (let i = 0; i < 40; i++) write(hog, 1 << 20);
    post(hog[0]);
    const endNs = v.nowNs(hog[0].context) + ns;
    while (v.nowNs(hog[0].context) < endNs) v.pollCq(hog[0].sendCq, hog[0].wc.ring, 0, 1);
  };
  /** Posts a message on a queue pair. Returns whether it passed. */
  const passes = (qp: number, bytes = BYTES) => {
    const { held } = shimCounters(v);
    write(small[qp], bytes);
    expect(post(small[qp][0])).toBe(1);
    return shimCounters(v).held === held;
  };
  return { serve, passes, v };
}

/** How many messages in turn on these queue pairs pass before the first one waits. */
function passing(passes: (qp: number) => boolean, queuePairs: number): number {
  let n = 0;
  while (n < 1000 && passes(n % queuePairs)) n++;
  return n;
}

test.each([1, 2, 5])(
  'no more messages of a tenant with %d queue pairs pass than it is behind',
  (queuePairs) => {
    const { serve, passes } = ground(queuePairs);
    serve(20_000);
    expect(passing(passes, queuePairs)).toBe(MOST);
  },
);

test('an advance that was not used is not saved up', () => {
  const { serve, passes } = ground(4);
  serve(20_000);
  // The second message of a queue pair gets an advance.
  for (let qp = 0; qp < 4; qp++) for (let i = 0; i < 2; i++) expect(passes(qp)).toBe(true);
  serve(20_000);
  expect(passing(passes, 4)).toBe(MOST);
});

test('messages of an advance are charged when others of the tenant have to wait', () => {
  const { serve, passes } = ground(2);
  serve(20_000);
  for (let i = 0; i < 8; i++) expect(passes(0)).toBe(true);
  expect(passing(() => passes(1), 1)).toBe(MOST - 8);
});
