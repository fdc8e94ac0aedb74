/** DRUM's claims about SHARE, its baseline: connections that share queue pairs under a lock. */

import { avgUs, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Mix } from '../../mix/mixture.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { atLeast, equal, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

/** The cache of 20 contexts that DRUM reports (II-D, fig. 2(c)). */
const set = { qpcEntries: 20 };
const DRUM = 'drum:connectionsPerQp=10';
const shareWith = (lockNs: number) => `share:connectionsPerQp=5,lockNs=${lockNs}`;

/** The paper does not say what its lock costs. */
const LOCKS_NS = [0, 100, 200, 400];

const CONNECTIONS = 100;
const background = `M:name=bg,size=1KB,batch=20,depth=20,qps=${CONNECTIONS - 1}`;

/** SHARE does not distinguish applications: connections of one tenant with equal queues share. */
const shared = (lockNs: number): Mix =>
  mix('cx5-40g', ['D:name=fg,size=32,think=1us,tenant=all,inline=no', `${background},tenant=all`], {
    set,
    duration: '6ms',
    policy: shareWith(lockNs),
  });

/** Every percentile from the median to the 99th has at least this ratio. */
const slowdown = (runs: Runs, lockNs: number) =>
  p50Us(runs[`share ${lockNs}`], 'fg') / p99Us(runs.drum, 'fg');

const latency: Claim = {
  id: 'share',
  system: 'drum',
  part: 4,
  title: 'One 32 B message at a time over queue pairs that connections share under a lock',
  source: 'DRUM V, test case 1: 1.7 times the time of DRUM, with a long tail from lock contention',
  shows: ['drum-V-tc1-share-tail'],
  note: 'Alongside 99 other connections, each of a thread of its own. The bound of 1.4 is our own. The paper does not say what its lock costs, so that times from 0 to 400 ns are measured. The tail is compared with that of a lock that takes no time to acquire, under which threads still wait for each other.',
  mixes: {
    drum: mix('cx5-40g', ['D:name=fg,size=32,think=1us', background], { set, duration: '6ms', policy: DRUM }),
    ...Object.fromEntries(LOCKS_NS.map((lockNs) => [`share ${lockNs}`, shared(lockNs)])),
  },
  checks: [
    ...LOCKS_NS.map((lockNs) => ({
      what: 'latency of share / drum',
      at: `a lock of ${lockNs} ns`,
      unit: 'x',
      measure: (runs: Runs) => slowdown(runs, lockNs),
      expect: atLeast(1.4),
    })),
    ...LOCKS_NS.slice(1).map((lockNs) => ({
      what: 'p99 latency of share, relative to a lock of 0 ns',
      at: `a lock of ${lockNs} ns`,
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs[`share ${lockNs}`], 'fg') / p99Us(runs['share 0'], 'fg'),
      expect: rises(),
    })),
  ],
};

const MEDIUM = ['1KB', '2KB', '5KB'];
const medium = (size: string, policy: string) =>
  mix('cx5-40g', `M:name=M,size=${size},batch=1,depth=4,qps=${CONNECTIONS}`, {
    set,
    duration: '30ms',
    policy,
  });

const mediumMessages: Claim = {
  id: 'share-medium',
  system: 'drum',
  part: 4,
  title: 'Messages of 1 to 5 KB over shared queue pairs take as long under share as under DRUM',
  source: 'DRUM V, test case 2, fig. 12',
  shows: ['drum-V-tc2-fig12a-medium'],
  note: 'With four messages of each of 100 connections outstanding, and a lock of 100 ns. The 10 % are our own: 14.7 % is a disadvantage in the paper. Runs last 30 ms: DRUM serves a connection with up to 60 messages in a row, so that a round over all connections takes about 6 ms. At first, runs lasted 5 ms, in which only messages of some connections completed, with a hundredth of the latency.',
  mixes: Object.fromEntries(
    MEDIUM.flatMap((size) => [
      [`share ${size}`, medium(size, shareWith(100))],
      [`drum ${size}`, medium(size, DRUM)],
    ]),
  ),
  checks: MEDIUM.map((size) => ({
    what: 'latency of share / drum',
    at: size,
    unit: 'x',
    measure: (runs: Runs) => avgUs(runs[`share ${size}`], 'M') / avgUs(runs[`drum ${size}`], 'M'),
    expect: equal(0.1),
  })),
};

export const CLAIMS: readonly Claim[] = [latency, mediumMessages];
