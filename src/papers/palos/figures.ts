/** Palos's figures. */

import { gbps } from '../../mix/metrics.ts';
import type { Mix, MixChange } from '../../mix/mixture.ts';
import type { Figure, Panel } from '../engine/figure.ts';
import { type MixOptions, mix } from '../engine/mix.ts';
import { average, bandwidth, rate, stated, toAlone } from '../engine/panels.ts';
import { flows as flowsAtPaperMtu, SIZES } from './forms.ts';

// The flows of Palos on ConnectX-5: small flows, and large flows of 2 MB.
const PROFILE = 'cx5-100g';
const large = (count = 1) => `B:name=large,size=2MB,count=${count}`;
/** 16 small flows. */
const small = (bytes: number) => `M:name=small,size=${bytes},qps=16`;
/** One small flow that waits for each completion. */
const single = (bytes: number) => `D:name=small,size=${bytes},think=1us`;
const flows = (apps: readonly string[], more: MixOptions = {}): Mix => mix(PROFILE, apps, more);

/** The series of Palos as the paper describes it. The policy is the series palos. */
const NIC = 'palos in the NIC';
const inNic = { [NIC]: (): MixChange => ({ set: { scheduler: 'palos' } }) };
/** Policies besides Palos, which serve queue pairs by tenant rather than by group. */
const OTHERS = ['none', 'perf', 'perf:paper', 'justitia'];
/** Both forms of Palos, for applications of one tenant. */
const bothForms = (apps: (x: number) => readonly string[]) => {
  const ofTenant = (x: number) => apps(x).map((app) => `${app},tenant=t`);
  return {
    palos: (x: number): MixChange => ({ policy: 'palos', apps: ofTenant(x) }),
    [NIC]: (x: number): MixChange => ({ set: { scheduler: 'palos' }, apps: ofTenant(x) }),
  };
};

const figure2: Figure<number> = {
  number: '2',
  title: 'One large flow and 16 small flows',
  source: 'Palos II-B, fig. 2',
  note: 'At MTU 4096; the paper uses 1500.',
  x: {
    title: 'small message size',
    values: [64, 128, 256, 512, 1024, 2048, 4096],
    log: true,
    bytes: true,
  },
  mix: (bytes) => flows([large(), small(bytes)]),
  policies: ['none'],
  panels: [
    toAlone(rate('small'), (bytes) => flows([small(bytes)]), stated('none', 'II-B', [[64, 0.45]])),
    toAlone(bandwidth('large'), () => flows([large()]), stated('none', 'II-B', [[64, 0.67]])),
  ],
};

const figure3: Figure<number> = {
  number: '3',
  title: 'One small flow and a growing number of large flows',
  source: 'Palos II-B, fig. 3',
  note: 'At MTU 4096. The pause of 1 us prevents the small flow from synchronising with the rounds of the large flows.',
  x: { title: 'large flows', values: [1, 2, 4, 8, 16, 24] },
  mix: (count) => flows([large(count), single(64)], { duration: '20ms' }),
  policies: ['none'],
  panels: [toAlone(average('small'), () => flows([single(64)]), stated('none', 'II-B', [[24, 7.8]]))],
};

const everywhere = (value: number) =>
  stated(
    NIC,
    'V-A',
    SIZES.map((bytes) => [bytes, value]),
  );

const figure7: Figure<number> = {
  number: '7',
  title: 'Isolation of one large flow from 16 small flows in a group',
  source: 'Palos V-A, fig. 7: the small flows get about 16/17 of their peak, the large flow 1/17',
  note: 'At MTU 1500. The text gives 0.058 % as the last value, where 5.8 % is meant: one share of 17. perf treats the 16 flows as one application with 16 queue pairs, of which one sends at a time, so they get less than bare.',
  x: { title: 'small message size', values: SIZES, log: true, bytes: true },
  mix: (bytes) => flowsAtPaperMtu([large(), small(bytes)]),
  policies: OTHERS,
  series: bothForms((bytes) => [`${large()},group=one`, `${small(bytes)},group=one`]),
  panels: [
    toAlone(rate('small'), (bytes) => flowsAtPaperMtu([small(bytes)]), everywhere(16 / 17)),
    toAlone(bandwidth('large'), () => flowsAtPaperMtu([large()]), [
      ...stated('none', 'V-A', [
        [256, 0.47],
        [4096, 0.058],
      ]),
      ...everywhere(1 / 17),
    ]),
  ],
};

const figure8: Figure<number> = {
  number: '8',
  title: 'Isolation of a latency-sensitive flow from several large flows in a group',
  source: 'Palos V-A, fig. 8',
  note: 'At MTU 1500, with 64 B as in the caption; the text says 16 B.',
  x: { title: 'large flows', values: [1, 2, 4, 8, 16] },
  mix: (count) => flowsAtPaperMtu([large(count), single(64)], { duration: '20ms' }),
  policies: OTHERS,
  series: bothForms((count) => [`${large(count)},group=one`, `${single(64)},group=one,kind=latency`]),
  panels: [
    toAlone(average('small'), () => flowsAtPaperMtu([single(64)]), [
      ...stated('none', 'V-A', [[16, 5]]),
      ...stated(NIC, 'V-A', [[16, 1.79]]),
    ]),
    bandwidth('large', { title: 'Bandwidth of all large flows' }),
  ],
};

const figure9: Figure<number> = {
  number: '9',
  title: '16 small flows in group A, and several large flows in group B',
  source:
    'Palos V-B, fig. 9: alongside 8 large flows A falls to 10 % of its rate alongside one large flow, and B rises to 155 %',
  note: 'Virtual lanes are hardware queues with equal weights. The paper plots both relative to one large flow. In the model, on the bare device at MTU 1500, A falls to 27 % and B rises to 219 %.',
  x: { title: 'large flows', values: [1, 2, 4, 8] },
  mix: (count) => flowsAtPaperMtu([large(count), small(64)]),
  policies: OTHERS,
  series: {
    ...bothForms((count) => [`${large(count)},group=b`, `${small(64)},group=a`]),
    'chunks of 25 KB': () => ({ policy: 'chunk' }),
    'virtual lanes': (count) => ({
      set: { scheduler: 'ets', etsWeights: '1,1' },
      apps: [`${large(count)},class=1`, `${small(64)},class=0`],
    }),
  },
  panels: [
    rate('small', { title: 'Message rate of group A' }),
    bandwidth('large', { title: 'Bandwidth of group B' }),
  ],
};

const WEIGHTS = Array.from({ length: 16 }, (_, i) => 10 + i);

const SUM = WEIGHTS.reduce((sum, weight) => sum + weight, 0);

/** Weights of the two queue pairs of each group. */
const QPS = [2, 3];

const APPS = WEIGHTS.flatMap((weight) =>
  QPS.map(
    (qp) =>
      `B:name=g${weight}-${qp},size=2MB,tenant=g${weight},group=g${weight},weight=${weight},qpWeight=${qp}`,
  ),
);

const share = (weight: number, qp: number) => (100 * (weight / SUM) * qp) / 5;

const figure10: Figure<number> = {
  number: '10',
  title: 'Bandwidth of two queue pairs in each of 16 groups, by weights',
  source: 'Palos V-C, fig. 10: exactly as equation (1) predicts',
  note: 'token-bucket, also in combination with perf, supports weights of groups, as tenants, but not of queue pairs. The paper plots the prediction of equation (1) for 100 Gbps.',
  x: { title: 'weight of the group', values: WEIGHTS },
  mix: () => flowsAtPaperMtu(APPS, { duration: '20ms' }),
  series: { ...inNic, 'token-bucket': () => ({ policy: 'token-bucket' }) },
  panels: QPS.map(
    (qp): Panel<number> => ({
      title: `Bandwidth of the queue pair of weight ${qp}`,
      unit: 'Gbps',
      measure: (run, weight) => gbps(run, `g${weight}-${qp}`),
      paper: WEIGHTS.map((weight) => ({
        series: NIC,
        x: weight,
        value: share(weight, qp),
        from: 'V-C, equation (1)',
      })),
    }),
  ),
};

const GROUP_WEIGHTS = [1, 2, 3, 4, 5, 6];

const qp = (n: number, group: string, weight: number) =>
  `B:name=qp${n},size=2MB,tenant=${group},group=${group},qpWeight=${weight}`;

const apps = (weight: number) => [
  ...[1, 2, 3].map((n) => qp(n, 'a', 2)),
  qp(4, 'b', 3),
  qp(5, 'b', 2),
  qp(6, 'b', weight),
];

const group = (title: string, names: string[]) => ({
  title,
  unit: 'Gbps',
  measure: (run: Parameters<typeof gbps>[0]) => names.reduce((sum, name) => sum + gbps(run, name), 0),
  paper: stated(
    NIC,
    'V-C',
    GROUP_WEIGHTS.map((weight) => [weight, 50]),
  ),
});

const figure11: Figure<number> = {
  number: '11',
  title: 'Two groups of three queue pairs; the weight of one of them changes',
  source: 'Palos V-C, fig. 11: both groups stay at 50 Gbps',
  note: 'token-bucket supports groups, as tenants, but no weights of queue pairs.',
  x: { title: 'weight of QP 6', values: GROUP_WEIGHTS },
  mix: (weight) => flowsAtPaperMtu(apps(weight), { duration: '10ms' }),
  series: { ...inNic, 'token-bucket': () => ({ policy: 'token-bucket' }) },
  panels: [
    group('Bandwidth of group A', ['qp1', 'qp2', 'qp3']),
    group('Bandwidth of group B', ['qp4', 'qp5', 'qp6']),
    bandwidth<number>('qp4'),
    bandwidth<number>('qp5'),
    bandwidth<number>('qp6'),
  ],
};

export const FIGURES: readonly Figure[] = [figure2, figure3, figure7, figure8, figure9, figure10, figure11];
