/** Justitia: software multi-tenancy in hardware kernel-bypass networks (NSDI 2022). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBareAnomalies from './claims-bare-anomalies.ts';
import * as claimsBareApplications from './claims-bare-applications.ts';
import * as figuresAnomalies from './figures-anomalies.ts';
import * as figuresAppendices from './figures-appendices.ts';
import * as figuresIsolation from './figures-isolation.ts';
import * as figuresScale from './figures-scale.ts';

export const JUSTITIA: Paper = {
  key: 'justitia',
  name: 'Justitia',
  bare: idsOf(
    'justitia',
    `3.1.1-fig3-infi 3.1.1-fig3-roce 3.1.1-fig3-iwarp 3.1.1-fig4 3.1.1-139x 3.1.2-coexist B-fig26 B-fig27 B-fig28
    3.1.3-fig5 3.1.4-100g 3.2-fig6 C.2-fig32-bare C.2-fig33-bare 3.3-dcqcn 6.3-hw-limits 2.2-greedy A-table1`,
  ),
  notShown: [
    {
      ids: ['justitia-3.1.1-fig3-iwarp'],
      title: 'iWARP: the median is unaffected, p99 latency is 95 times as long',
      why: 'never',
      reason: 'the vendor has not published how its NIC implements TCP, so there is no profile',
    },
  ],
  claims: [...claimsBareAnomalies.CLAIMS, ...claimsBareApplications.CLAIMS],
  figures: [
    ...figuresAnomalies.FIGURES,
    ...figuresIsolation.FIGURES,
    ...figuresScale.FIGURES,
    ...figuresAppendices.FIGURES,
  ],
};
