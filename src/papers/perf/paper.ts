/** PeRF: Preemption-enabled RDMA Framework (USENIX ATC 2024). */
import { idsOf, type NotShown, type Paper } from '../engine/paper.ts';
import * as claimsBareDevices from './claims-bare-devices.ts';
import * as claimsBareMessageSizes from './claims-bare-message-sizes.ts';
import * as claimsBareQueuePairs from './claims-bare-queue-pairs.ts';
import * as claimsDevices from './claims-devices.ts';
import * as claimsJustitia from './claims-justitia.ts';
import * as claimsKnobs from './claims-knobs.ts';
import * as claimsMessageIsolation from './claims-message-isolation.ts';
import * as claimsNetwork from './claims-network.ts';
import * as claimsQpIsolation from './claims-qp-isolation.ts';
import * as claimsReadWrite from './claims-read-write.ts';
import * as claimsSizes from './claims-sizes.ts';
import * as claimsTenants from './claims-tenants.ts';
import * as figuresAppendices from './figures-appendices.ts';
import * as figuresApplications from './figures-applications.ts';
import * as figuresIsolation from './figures-isolation.ts';
import * as figuresMotivation from './figures-motivation.ts';
import * as figuresScale from './figures-scale.ts';
import { STATEMENTS } from './statements.ts';

const NOT_SHOWN: readonly NotShown[] = [
  {
    ids: [
      'perf-5.2.1-table2-d-vs-b',
      'perf-5.2.1-table2-d-vs-bmulti',
      'perf-5.2.1-table2-d-vs-mmulti',
      'perf-5.2.1-cpu-bound',
      'perf-5.2.1-ram',
    ],
    title: 'CPU and memory of the C implementation',
    why: 'never',
    reason:
      'a model has no memory and takes CPU costs as given; npm run bench:shim measures the CPU costs of isoverbs',
  },
  {
    ids: ['perf-4.4-batching'],
    title: 'Batches of 0_WAITs cost less CPU than one after each small piece',
    why: 'never',
    reason: 'a model takes CPU costs as given; shimCounters() counts the requests of both variants',
  },
];

export const PERF: Paper = {
  key: 'perf',
  name: 'PeRF',
  cited: {
    title: 'PeRF: Preemption-enabled RDMA Framework',
    authors: 'Sugi Lee, Mingyu Choi, Ikjun Yeom, Younghoon Kim',
    venue: '2024 USENIX Annual Technical Conference',
    url: 'https://www.usenix.org/conference/atc24/presentation/lee',
  },
  statements: STATEMENTS,
  bare: idsOf(
    'perf',
    `2.2-fig1a 2.2-fig1b-below-mtu 2.2-fig1b-above-mtu 2.2-fig1c 2.2-rules 2.3.1-fig2a 2.3.1-fig2b 2.3.1-m-vs-d
    2.3.2-fig3a 2.3.2-bmulti-vs-md 2.3.2-capacity 2.3.2-fig3b 2.3.2-fig3c 5.1-table1 5.2.1-fig7b-sp 5.2.1-ets-d
    5.2.2-fig8a-rdma 5.2.4-native B-fig18a`,
  ),
  policy: {
    ids: idsOf(
      'perf',
      `3.4-small-impact 1-headline 3.3-params-classifier 4.1-params-lmse 4.2-params-mqse 4.4-scal 5.1-justitia-cfg
      5.2.1-fig7a 5.2.1-fig7b-ets 5.2.2-fig8a-justitia 5.2.2-fig8b-justitia 5.2.2-fig8-justitiaR 5.2.2-fig8-perf
      5.2.3-fig9abc 5.2.3-fig9d-justitia 5.2.3-fig9ef 5.2.3-fig10c 5.2.3-fig10def 5.2.4-fig11 5.2.4-queueing 5.2.5-fig12a 5.2.5-fig12b
      5.2.5-fig13a 5.3-fig16a-crail 5.3-fig16a-others 5.3-fig16b A-fig17a A-fig17b D-limits`,
    ),
    parts: Object.freeze({
      1: 'Small messages alongside large ones',
      2: 'Applications with many queue pairs',
      3: 'READ against WRITE',
      4: 'The knobs',
      5: 'Many bandwidth tenants',
      6: 'Compared with hardware priorities, and in a congested network',
      7: 'Large messages of different sizes; nothing to isolate',
      8: 'Dependence on the device',
      10: 'Compared with Justitia',
    }),
  },
  notShown: NOT_SHOWN,
  claims: [
    ...claimsBareDevices.CLAIMS,
    ...claimsBareMessageSizes.CLAIMS,
    ...claimsBareQueuePairs.CLAIMS,
    ...claimsDevices.CLAIMS,
    ...claimsJustitia.CLAIMS,
    ...claimsKnobs.CLAIMS,
    ...claimsMessageIsolation.CLAIMS,
    ...claimsNetwork.CLAIMS,
    ...claimsQpIsolation.CLAIMS,
    ...claimsReadWrite.CLAIMS,
    ...claimsSizes.CLAIMS,
    ...claimsTenants.CLAIMS,
  ],
  figures: [
    ...figuresMotivation.FIGURES,
    ...figuresIsolation.FIGURES,
    ...figuresScale.FIGURES,
    ...figuresApplications.FIGURES,
    ...figuresAppendices.FIGURES,
  ],
};
