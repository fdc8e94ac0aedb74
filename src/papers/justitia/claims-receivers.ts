/** Justitia's agents: receivers that share themselves among senders, and READs, whose data other hosts send. */

import { agentMessages, avgUs, gbps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { compared, JUSTITIA } from '../engine/compared.ts';
import { atLeast, atMost, below, equal, range, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, CAP, d, judged, ofBoth, ratesOfB, SETTLED } from './declared.ts';

const SENDERS = 32;
const RECEIVER = SENDERS + 1;

const INCAST = {
  profile: 'cx3-56g',
  hosts: SENDERS + 2,
  set: { linkGbps: 10, congestionControl: 'dcqcn' },
  duration: '200ms',
  warmup: '150ms',
} as const;

const APPS = [
  b(`size=1MB,count=${SENDERS},host=0-${SENDERS - 1},to=${RECEIVER}`),
  d(`size=16,think=1us,host=${SENDERS},to=${RECEIVER}`),
];

/** What the bare device does to D, and what is left of it under the policy. */
const LATENCIES = [
  { name: 'average', of: avgUs, us: 40, bareUs: 315 },
  { name: 'p99', of: p99Us, us: 120, bareUs: 8020 },
] as const;

const { justitia } = JUSTITIA;

/** The extreme rates of the senders, relative to their part of MaxRate. */
const ofShare = (runs: Runs, word: string) => {
  const share = (CAP * gbps(runs.alone, 'B')) / (SENDERS + 1);
  return ratesOfB(runs[`all ${word}`]).map((rate) => rate / share);
};

const incastLatency = ({ name, of, us, bareUs }: (typeof LATENCIES)[number]): Check[] => [
  ...judged({ what: `${name} latency of D`, unit: 'us', expect: atMost(us) }, (runs, word) =>
    of(runs[`all ${word}`], 'D'),
  ),
  {
    what: `${name} latency of D, bare`,
    unit: 'us',
    measure: (runs) => of(runs['all bare'], 'D'),
    expect: reported(bareUs),
  },
  ...ofBoth(
    { what: `${name} latency of D, relative to bare`, unit: 'x', expect: below(1) },
    (runs, word) => of(runs[`all ${word}`], 'D') / of(runs['all bare'], 'D'),
  ),
  {
    what: `${name} latency of D with all messages lost, relative to bare`,
    unit: 'x',
    measure: (runs) => of(runs['lost justitia'], 'D') / of(runs['all bare'], 'D'),
    expect: atMost(2),
  },
];

const incast: Claim = {
  id: 'incast',
  system: 'justitia',
  part: 5,
  title: '32 senders with bandwidth applications and one with a latency application share a receiver',
  source: 'Justitia 6.5, fig. 24: the tail is better, and the total bandwidth still high',
  shows: [],
  note:
    'The paper says 1/32 of the line rate for each sender; its formula with L = 1 gives 1/33. SafeUtil may need 130 ms ' +
    'from MaxRate to 1/33 of it, so 150 ms are not measured. Messages of the last 50 ms are the difference to a run ' +
    'that ends before.',
  mixes: {
    alone: mix('cx3-56g', b('size=1MB'), { set: INCAST.set, duration: '20ms', warmup: '2ms' }),
    ...compared(JUSTITIA, 'all', APPS, INCAST),
    ...compared({ justitia }, 'lost', APPS, { ...INCAST, set: { ...INCAST.set, agentLoss: 1 } }),
    ...compared({ justitia }, 'early', APPS, { ...INCAST, duration: '150ms', warmup: '100ms' }),
  },
  checks: [
    ...LATENCIES.flatMap(incastLatency),
    ...judged(
      {
        what: 'smallest bandwidth of a sender, relative to 1/33 of MaxRate',
        unit: 'x',
        expect: equal(0.03),
      },
      (runs, word) => Math.min(...ofShare(runs, word)),
    ),
    ...judged(
      { what: 'largest bandwidth of a sender, relative to 1/33 of MaxRate', unit: 'x', expect: equal(0.03) },
      (runs, word) => Math.max(...ofShare(runs, word)),
    ),
    ...judged({ what: 'bandwidth of all senders', unit: 'Gbps', expect: atLeast(8.8) }, (runs, word) =>
      gbps(runs[`all ${word}`], 'B'),
    ),
    {
      what: 'messages of agents in the last 50 ms',
      unit: '',
      measure: (runs) => agentMessages(runs['all justitia']) - agentMessages(runs['early justitia']),
      expect: range(0, 0),
    },
    {
      what: 'messages of agents in the whole run',
      unit: '',
      measure: (runs) => agentMessages(runs['all justitia']),
      expect: reported('on change only'),
    },
  ],
};

/** Both kinds of traffic leave host 0: its WRITEs, and responses to the READs of host 1. */
const REMOTE_READ = 'op=read,host=1,to=0';

const READS = {
  'B reads, D writes': { B: b(`size=1MB,${REMOTE_READ}`), D: d() },
  'B writes, D reads': { B: b(), D: d(`size=16,think=1us,${REMOTE_READ}`) },
};

const MOST = { 'B reads, D writes': undefined, 'B writes, D reads': 1.6 };

type Way = keyof typeof READS;
const WAYS = Object.keys(READS) as Way[];

const readsOf = (way: Way): Check[] => {
  const most = MOST[way];
  const p99 = { what: `p99 latency of D, relative to alone: ${way}`, unit: 'x' };
  return [
    ...judged(
      { what: `median latency of D, relative to alone: ${way}`, unit: 'x', expect: atMost(1.3) },
      (runs, word) => p50Us(runs[`${way} ${word}`], 'D') / p50Us(runs[`D: ${way}`], 'D'),
    ),
    ...judged(
      { ...p99, expect: most === undefined ? reported('-') : atMost(most) },
      (runs, word) => p99Us(runs[`${way} ${word}`], 'D') / p99Us(runs[`D: ${way}`], 'D'),
    ),
    ...judged(
      {
        what: `bandwidth of B, relative to alone: ${way}`,
        unit: 'x',
        expect: way === 'B reads, D writes' ? range(0.5, 0.5, 0.05) : reported('0.5'),
      },
      (runs, word) => gbps(runs[`${way} ${word}`], 'B') / gbps(runs[`B: ${way}`], 'B'),
    ),
    ...ofBoth(
      { what: 'median latency of D, relative to bare', at: way, unit: 'x', expect: below(1) },
      (runs, word) => p50Us(runs[`${way} ${word}`], 'D') / p50Us(runs[`${way} bare`], 'D'),
    ),
  ];
};

const reads: Claim = {
  id: 'reads',
  system: 'justitia',
  part: 5,
  title: 'Justitia isolates WRITEs from READs of a remote host, and READs from WRITEs',
  source: 'Justitia appendix C.3, fig. 34; the bounds are our own',
  shows: [],
  mixes: Object.assign(
    {},
    ...WAYS.flatMap((way) => [
      {
        [`B: ${way}`]: mix('cx3-56g', READS[way].B, { duration: '10ms' }),
        [`D: ${way}`]: mix('cx3-56g', READS[way].D),
      },
      compared(JUSTITIA, way, Object.values(READS[way]), { ...SETTLED, profile: 'cx3-56g' }),
    ]),
  ),
  checks: WAYS.flatMap(readsOf),
};

export const CLAIMS: readonly Claim[] = [incast, reads];
