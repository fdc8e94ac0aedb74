/** What fair is to do on cx6-100g. */

import { gbps, mmps } from '../../mix/metrics.ts';
import type { Claim } from '../engine/claim.ts';
import { atLeast } from '../engine/expect.ts';
import type { MixOptions } from '../engine/mix.ts';
import { alongside, boundLines, checksOf, D, GOAL, WITH_D, WITH_M_AND_D, within } from './lines.ts';

const bandwidthAndLatency: Claim = {
  id: 'bandwidth-and-latency',
  system: 'fair',
  part: 1,
  title: 'B with messages of 1 MiB alongside D',
  source: GOAL,
  shows: [],
  mixes: alongside('B + D', ['B', D]),
  checks: boundLines('B + D', WITH_D),
};

const TENANTS = [1, 2, 4, 16, 1000];
const QPS = [1, 8];
const MANY = TENANTS.flatMap((count) =>
  QPS.map((qps) => ({ count, qps, name: `${count} x ${qps} B + M + D` })),
);
/** A round of packets of 8,000 queue pairs takes 2.7 ms. */
const MOST_RUN: MixOptions = { duration: '12ms', warmup: '4ms' };

const tenants: Claim = {
  id: 'tenants',
  system: 'fair',
  part: 1,
  title: '1 to 1,000 tenants B, with 1 and with 8 queue pairs each, alongside M and D',
  source: GOAL,
  shows: [],
  note:
    'In the lines, 16 x 8 means 16 tenants B with 8 queue pairs each; their bandwidth is that of all together. By max-min ' +
    'shares of equal tenants, M would be due 6.4 million messages per second alongside 16 tenants B, and 0.1 alongside ' +
    '1,000, where D would be due as many.',
  mixes: Object.assign(
    {},
    ...MANY.map(({ count, qps, name }) =>
      alongside(name, [`B:count=${count},qps=${qps}`, 'M', D], count === 1000 ? MOST_RUN : {}),
    ),
  ),
  checks: MANY.flatMap(({ name }) => boundLines(name, WITH_M_AND_D)),
};

const SLACK = 0.1;
const OPS = ['send', 'read'];

const operations: Claim = {
  id: 'operations',
  system: 'fair',
  part: 1,
  title: 'B alongside D, and alongside M and D, with SENDs and with READs',
  source: `${GOAL}: within 10 % of the bounds for WRITEs`,
  shows: [],
  note: 'A READ takes 1.64 us alone, so READs cannot meet the bounds on average latency; WRITEs and SENDs take 1.14 us.',
  mixes: Object.assign(
    {},
    ...OPS.flatMap((op) => [
      alongside(`${op}: B + D`, [`B:op=${op}`, `${D},op=${op}`]),
      alongside(`${op}: B + M + D`, [`B:op=${op}`, `M:op=${op}`, `${D},op=${op}`]),
    ]),
  ),
  checks: OPS.flatMap((op) => [
    ...boundLines(`${op}: B + D`, within(SLACK, WITH_D)),
    ...boundLines(`${op}: B + M + D`, within(SLACK, WITH_M_AND_D)),
  ]),
};

/** Further words of B, and of M and D. Host 1 is the peer of all applications of host 0. */
const WAYS: Readonly<Record<string, readonly [b: string, others: string]>> = {
  'B reads, M and D write': ['op=read', 'op=write'],
  'B writes, M and D read': ['op=write', 'op=read'],
  'B reads, M and D of the peer write': ['op=read', 'op=write,host=1,to=0'],
  'B writes, M and D of the peer read': ['op=write', 'op=read,host=1,to=0'],
};

const readAgainstWrite: Claim = {
  id: 'read-against-write',
  system: 'fair',
  part: 1,
  title: 'Large READs alongside small WRITEs, and large WRITEs alongside small READs',
  source: `${GOAL}: within 10 % of the bounds for WRITEs`,
  shows: [],
  note:
    'Where M and D run on the host of B, their data and those of B travel in opposite directions. Where M and D run on the ' +
    'peer, both leave through the same port, but two hosts decide. A READ takes 1.64 us alone, so it cannot meet the ' +
    'bound on average latency.',
  mixes: Object.assign(
    {},
    ...Object.entries(WAYS).map(([way, [b, others]]) =>
      alongside(way, [`B:${b}`, `M:${others}`, `${D},${others}`]),
    ),
  ),
  checks: Object.keys(WAYS).flatMap((way) => boundLines(way, within(SLACK, WITH_M_AND_D))),
};

const QUEUE_PAIRS = '16 and 128 queue pairs';

const queuePairs: Claim = {
  id: 'queue-pairs',
  system: 'fair',
  part: 1,
  title: 'M of 128 queue pairs, which can fill the link, alongside B of 16',
  source: `${GOAL}: each tenant has nearly half of the link`,
  shows: [],
  mixes: alongside(QUEUE_PAIRS, ['B:qps=16', 'M:qps=128']),
  checks: [
    ...checksOf({
      name: QUEUE_PAIRS,
      what: `${QUEUE_PAIRS}: bandwidth of B, relative to alone`,
      unit: 'x',
      expect: atLeast(0.48),
      alone: 'B',
      measure: (run, runs) => gbps(run, 'B') / gbps(runs[`${QUEUE_PAIRS} alone B`], 'B'),
    }),
    ...checksOf({
      name: QUEUE_PAIRS,
      what: `${QUEUE_PAIRS}: rate of M, relative to alone`,
      unit: 'x',
      expect: atLeast(0.48),
      alone: 'M',
      measure: (run, runs) => mmps(run, 'M') / mmps(runs[`${QUEUE_PAIRS} alone M`], 'M'),
    }),
  ],
};

export const CLAIMS: readonly Claim[] = [
  bandwidthAndLatency,
  tenants,
  operations,
  readAgainstWrite,
  queuePairs,
];
