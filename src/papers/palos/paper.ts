/** Palos: fair and flexible flow scheduling on RNIC. */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as claimsChanges from './claims-changes.ts';
import * as claimsFlows from './claims-flows.ts';
import * as claimsGroups from './claims-groups.ts';
import * as claimsLatency from './claims-latency.ts';
import * as claimsTables from './claims-tables.ts';
import * as claimsWeights from './claims-weights.ts';
import * as figures from './figures.ts';
import { STATEMENTS } from './statements.ts';

export const PALOS: Paper = {
  key: 'palos',
  name: 'Palos',
  cited: {
    title: 'Palos: Fair and Flexible Flow Scheduling on RNIC',
    authors: 'Zhenlong Ma, Fan Yang, Ning Kang, Jing Xu, Guojun Yuan, Zhan Wang, Ninghui Sun',
  },
  statements: STATEMENTS,
  bare: idsOf('palos', `II.B-fig2-64B II.B-fig2-sweep II.B-fig3 II.B-model V.A-fig7-cx5 V.A-fig8-cx5`),
  policy: {
    ids: idsOf(
      'palos',
      `IV.B-update-cost V-params V.A-fig7-palos V.B-fig9-qos V.C-fig10 V.C-levels V-summary-isolation`,
    ),
    parts: Object.freeze({
      1: 'Small and large flows in one group',
      2: 'Latency flows',
      3: 'Groups among themselves',
      4: 'Weights',
      5: 'Changes at run time',
      6: 'Idle queue pairs',
      7: 'Many queue pairs',
      8: 'Throughput, and the cost of changes',
    }),
    form: 'hardware',
  },
  notShown: [
    {
      ids: ['palos-I-workload'],
      title: 'Sizes of messages in data centres',
      why: 'never',
      reason: 'the paper quotes them as its motivation; they are properties of programs, not of a device',
    },
  ],
  claims: [
    ...claimsBare.CLAIMS,
    ...claimsChanges.CLAIMS,
    ...claimsFlows.CLAIMS,
    ...claimsGroups.CLAIMS,
    ...claimsLatency.CLAIMS,
    ...claimsTables.CLAIMS,
    ...claimsWeights.CLAIMS,
  ],
  figures: figures.FIGURES,
};
