/** Tassel's claims about its rates, shown by the policy tassel, which decides for pieces what the paper's NIC does for packets. */

import { gbps } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { closedForm, range } from '../engine/expect.ts';
import { type MixOptions, mix } from '../engine/mix.ts';
import { BELOW_LINK, type RateClasses, TWICE_LINK } from './rate-classes.ts';

const PROFILE = 'cx6-100g';
/** Bytes on the wire in addition to those of a message of one packet: headers and RETH. */
const HEADERS = 98;
const MTU = 4096;

/** Bytes on the wire per byte of payload, in messages or pieces of this length. */
const onWire = (bytes: number) => (bytes + HEADERS) / bytes;

const linkGbps = ({ links, durationNs, warmupNs }: MixResult) =>
  (links[0].bytes * 8) / (durationNs - warmupNs);

/** A rate, the length of messages, and a time in which more than 1,000 pieces are sent. */
const RATES: readonly { text: string; gbps: number; size: string; time: MixOptions }[] = [
  { text: '100 Kbps', gbps: 1e-4, size: '64B', time: { duration: '13200ms', warmup: '100ms' } },
  { text: '333 Kbps', gbps: 333e-6, size: '64B', time: { duration: '4000ms', warmup: '50ms' } },
  { text: '7.77 Mbps', gbps: 7.77e-3, size: '1MiB', time: { duration: '4400ms', warmup: '20ms' } },
  { text: '1.23 Gbps', gbps: 1.23, size: '1MiB', time: { duration: '40ms', warmup: '3ms' } },
  { text: '99.9 Gbps', gbps: 99.9, size: '1MiB', time: { duration: '8ms', warmup: '3ms' } },
];

const oneQueuePair: Claim = {
  id: 'one-queue-pair',
  system: 'tassel',
  part: 1,
  title: 'One queue pair has its rate, from 100 Kbps to 99.9 Gbps',
  source: 'Tassel 4, fig. 7: accurate over the whole range; within 1 % as a policy',
  shows: ['tassel-4-fig7'],
  smoke: true,
  note: 'The mean over at least 1,000 packets, headers included. The limiters of a commercial NIC may miss by 10 % (2.1).',
  mixes: Object.assign(
    {},
    ...RATES.map(({ text, gbps, size, time }) => ({
      [text]: mix(PROFILE, `B:size=${size}`, { ...time, policy: `tassel:qpGbps=${gbps}` }),
      [`${text} NIC`]: mix(PROFILE, `B:size=${size},rate=${gbps}Gbps`, time),
    })),
  ),
  checks: RATES.flatMap(({ text, gbps }) => [
    {
      what: 'rate, relative to what was set',
      at: text,
      form: 'software' as const,
      unit: 'x',
      measure: (runs: Runs) => linkGbps(runs[text]) / gbps,
      expect: closedForm(1, 0.01),
    },
    {
      what: 'rate, relative to what was set',
      at: text,
      form: 'bare' as const,
      unit: 'x',
      measure: (runs: Runs) => linkGbps(runs[`${text} NIC`]) / gbps,
      expect: range(0.9, 1.1, 0.01),
      deviation: 'the first run began before the limiters of the NIC take effect, which takes 2 ms',
    },
  ]),
};

const FIVE_TIMES: RateClasses = [
  [1, 899],
  [10, 60],
  [100, 15],
  [1000, 7],
  [10_000, 49],
];

const bytesOf = (mbps: number) => (mbps < 10 ? 64 : mbps < 100 ? 256 : MTU);
const nameOf = (mbps: number) => `r${mbps}`;
const appsOf = (classes: RateClasses) =>
  classes.map(
    ([mbps, qps]) =>
      `B:name=${nameOf(mbps)},size=${bytesOf(mbps)},depth=8,qps=${qps},tenant=${nameOf(mbps)},rate=${mbps}Mbps`,
  );
const sumGbps = (classes: RateClasses) => classes.reduce((sum, [mbps, qps]) => sum + (mbps * qps) / 1e3, 0);

/** The mean rate of the queue pairs of a class, relative to what was set. */
function rateOf(run: MixResult, [mbps, qps]: RateClasses[number]): number {
  return (gbps(run, nameOf(mbps)) * 1e3 * onWire(bytesOf(mbps))) / (qps * mbps);
}

const LONG: MixOptions = { duration: '320ms', warmup: '10ms', policy: 'tassel' };

function thousand(
  id: string,
  classes: RateClasses,
  text: Pick<Claim, 'title' | 'source' | 'shows'>,
  tolerance: number,
): Claim {
  const phi = Math.max(1, sumGbps(classes) / (100 * USABLE));
  return {
    id,
    system: 'tassel',
    part: 2,
    ...text,
    mixes: { all: mix(PROFILE, appsOf(classes), LONG) },
    checks: classes.flatMap((one) => [
      {
        what: 'mean rate of the queue pairs with the same rate, relative to it over Phi',
        at: `${one[0]} Mbps`,
        form: 'software' as const,
        unit: 'x',
        measure: (runs: Runs) => rateOf(runs.all, one) * phi,
        expect: closedForm(1, tolerance),
        deviation:
          'in the first run, the slowest queue pairs sent ten messages each, and the fastest one had only two to send',
      },
    ]),
  };
}

/** The part of the link that the policy gives to rates. */
const USABLE = 0.995;

const limits: Claim = {
  id: 'several-limits',
  system: 'tassel',
  part: 3,
  title: 'Queue pairs, groups, applications and tenants have rates at once, and the lowest one holds',
  source: 'a goal of this project',
  shows: [],
  mixes: {
    all: mix(
      PROFILE,
      [
        'B:name=a,size=64KiB,qps=4,tenant=t,group=g,rate=4Gbps',
        'B:name=b,size=64KiB,qps=4,tenant=t,group=h',
        'B:name=c,size=64KiB,tenant=u',
      ],
      {
        duration: '22ms',
        policy: 'tassel:ratesGbps=t:30/u:40,groupRatesGbps=g:10/h:50,applicationGbps=28',
      },
    ),
  },
  checks: [
    {
      what: 'four queue pairs of 4 Gbps in a group of 10',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.all, 'a') * onWire(MTU),
      expect: closedForm(10, 0.02),
    },
    {
      what: 'the rest of a tenant with 30 Gbps, whose application has 28',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.all, 'b') * onWire(MTU),
      expect: closedForm(18, 0.02),
      deviation: 'the first run took applications of one tenant, which share a context, for two',
    },
    {
      what: 'a tenant with 40 Gbps whose application has 28',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.all, 'c') * onWire(MTU),
      expect: closedForm(28, 0.02),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [
  oneQueuePair,
  thousand(
    'thousand-below',
    BELOW_LINK,
    {
      title: '1,000 queue pairs with rates of 1 Mbps to 10 Gbps, 17 Gbps together',
      source: 'Tassel 4, fig. 8(a): accurate; within 2 % as a policy',
      shows: ['tassel-4-fig8a'],
    },
    0.02,
  ),
  thousand(
    'thousand-twice',
    TWICE_LINK,
    {
      title: '1,000 queue pairs whose rates are twice the link',
      source: 'Tassel 4, fig. 8(b): each falls by Phi; within 3 % as a policy',
      shows: [],
    },
    0.03,
  ),
  thousand(
    'thousand-five',
    FIVE_TIMES,
    {
      title: '1,000 queue pairs whose rates are five times the link',
      source: 'Tassel 3.1: each falls by Phi; within 3 % as a policy',
      shows: [],
    },
    0.03,
  ),
  limits,
];
