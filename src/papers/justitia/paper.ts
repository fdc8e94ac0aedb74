/** Justitia: software multi-tenancy in hardware kernel-bypass networks (NSDI 2022). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBareAnomalies from './claims-bare-anomalies.ts';
import * as claimsBareApplications from './claims-bare-applications.ts';
import * as claimsLatency from './claims-latency.ts';
import * as claimsNetwork from './claims-network.ts';
import * as claimsParameters from './claims-parameters.ts';
import * as claimsRates from './claims-rates.ts';
import * as claimsReceivers from './claims-receivers.ts';
import * as claimsShares from './claims-shares.ts';
import * as claimsSystems from './claims-systems.ts';
import * as claimsTarget from './claims-target.ts';
import * as figuresAnomalies from './figures-anomalies.ts';
import * as figuresAppendices from './figures-appendices.ts';
import * as figuresIsolation from './figures-isolation.ts';
import * as figuresScale from './figures-scale.ts';
import * as figuresSensitivity from './figures-sensitivity.ts';
import { STATEMENTS } from './statements.ts';

export const JUSTITIA: Paper = {
  key: 'justitia',
  name: 'Justitia',
  cited: {
    title: 'Justitia: Software Multi-Tenancy in Hardware Kernel-Bypass Networks',
    authors: 'Yiwen Zhang, Yue Tan, Brent Stephens, Mosharaf Chowdhury',
    venue: '19th USENIX Symposium on Networked Systems Design and Implementation (NSDI 2022)',
  },
  statements: STATEMENTS,
  bare: idsOf(
    'justitia',
    `3.1.1-fig3-infi 3.1.1-fig3-roce 3.1.1-fig3-iwarp 3.1.1-fig4 3.1.1-139x 3.1.2-coexist B-fig26 B-fig27 B-fig28
    3.1.3-fig5 3.1.4-100g 3.2-fig6 C.2-fig32-bare C.2-fig33-bare 3.3-dcqcn 6.3-hw-limits 2.2-greedy A-table1`,
  ),
  policy: {
    ids: idsOf(
      'justitia',
      `4.3-params 4.3.4-token-example 5.2-fig10-chunk 6-targets 6.1-fig11a 6.1-fig11b 6.1-fig12 6.1-fig13 6.1-fig14
      6.1-fig15a 6.1-fig15b 6.1-fig16a 6.1-fig16b 6.2-fig17a 6.2-fig17b 6.2-fig18 6.3-fig19-21 6.3-fig22 C.1-fig30-31
      C.2-fig32 C.2-fig33 C.2-storage-half D-fig39 E.4-overhead`,
    ),
    parts: Object.freeze({
      1: 'Guaranteed rates',
      2: 'Latency applications alongside bandwidth applications',
      3: 'The latency target',
      4: 'Bandwidth and throughput applications among themselves',
      5: 'Receivers, and READs',
      6: 'Congestion control, hardware queues, 100 Gbps, unmanaged hosts',
      7: 'Stand-ins for systems',
      8: 'Parameters and their cost',
    }),
  },
  notShown: [
    {
      ids: ['justitia-3.1.1-fig3-iwarp'],
      title: 'iWARP: the median is unaffected, p99 latency is 95 times as long',
      why: 'never',
      reason: 'the vendor has not published how its NIC implements TCP, so there is no profile',
    },
    {
      ids: ['justitia-5-loc', 'justitia-6.2-cpu'],
      title: 'Lines of code, and CPU and memory of the daemon',
      why: 'never',
      reason:
        'these are properties of the C implementation; npm run bench:daemon measures the CPU costs of isoverbs',
    },
    {
      ids: ['justitia-C.4-fig35', 'justitia-C.4-fig36'],
      title: 'Justitia against LITE',
      why: 'never',
      reason: 'LITE is not among the implemented systems',
    },
  ],
  claims: [
    ...claimsBareAnomalies.CLAIMS,
    ...claimsBareApplications.CLAIMS,
    ...claimsLatency.CLAIMS,
    ...claimsNetwork.CLAIMS,
    ...claimsParameters.CLAIMS,
    ...claimsRates.CLAIMS,
    ...claimsReceivers.CLAIMS,
    ...claimsShares.CLAIMS,
    ...claimsSystems.CLAIMS,
    ...claimsTarget.CLAIMS,
  ],
  figures: [
    ...figuresAnomalies.FIGURES,
    ...figuresIsolation.FIGURES,
    ...figuresScale.FIGURES,
    ...figuresAppendices.FIGURES,
    ...figuresSensitivity.FIGURES,
  ],
};
