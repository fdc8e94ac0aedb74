/** DRUM: distributed and optimal RDMA resource sharing (IEEE/ACM ToN 2023). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as claimsConnections from './claims-connections.ts';
import * as claimsShare from './claims-share.ts';
import * as claimsSolver from './claims-solver.ts';
import * as figures from './figures.ts';
import * as figuresSolver from './figures-solver.ts';
import { STATEMENTS } from './statements.ts';

export const DRUM: Paper = {
  key: 'drum',
  name: 'DRUM',
  cited: {
    title:
      'Enabling Distributed and Optimal RDMA Resource Sharing in Large-Scale Data Center Networks: Modeling, Analysis, and Implementation',
    authors: 'Dian Shen, Junzhou Luo, Fang Dong, Xiaolin Guo, Ciyuan Chen, Kai Wang, John C. S. Lui',
    venue: 'IEEE/ACM Transactions on Networking, 2023',
    doi: '10.1109/TNET.2023.3263562',
  },
  statements: STATEMENTS,
  bare: idsOf('drum', `II.A-fig2a II.C-fig2b II.D-fig2c V-tc1-fig10-raw`),
  policy: {
    ids: idsOf(
      'drum',
      `III.E-params III.E-baseline-dd III.E-fig45a III.E-fig45b III.E-lyapunov III.E-stop17 III.E-fig6a III.E-stopping
        III.A-lemma1 III.B-thm1 III.D-thm4 V-tc1-fig8 V-tc1-fig10-cc20 V-tc1-fig10-drum V-tc1-share-tail
        V-tc2-fig9 V-tc2-fig11-cc20 V-tc2-fig12a-small V-tc2-fig12a-medium V-tc2-fig12b-large V-tc2-fig12b-trend
        V-tc3-fig14 V-tc3-fig15a V-tc3-fig15a-put V-tc3-fig15b V-tc3-fig15cd V-tc3-fig16a V-tc3-fig16b V-tc3-fig16cd
        V-tc4-fig17a V-tc4-fig17b V-tc4-fig17c`,
    ),
    parts: Object.freeze({
      1: 'Convergence of the solver',
      2: 'Lost and late values',
      3: 'The baseline, and theory',
      4: 'More connections than the cache has contexts for',
    }),
  },
  notShown: [
    {
      ids: ['drum-III.E-stopping'],
      title: 'The tolerance of the stopping criterion',
      why: 'never',
      reason: 'the paper gives a rule without its tolerance',
    },
    {
      ids: ['drum-V-tc2-fig12b-large'],
      title: '14 to 25.6 KOPS of more than 500 KB',
      why: 'never',
      reason: '25,600 messages of 500 KB a second are 102 Gbit/s, and the link carries 40',
    },
    {
      ids: ['drum-V-tc3-fig14'],
      title: 'Most requests of 32 B to 1 MB in less than 18 us',
      why: 'never',
      reason: 'in 18 us, the link carries 90 KB, and 91 % of sizes up to 1 MB are larger',
    },
    {
      ids: ['drum-V-tc3-fig15a', 'drum-V-tc3-fig15a-put', 'drum-V-tc3-fig15b', 'drum-V-tc3-fig15cd'],
      title: 'A store with more than 320,000 operations a second in 3.1 us each',
      why: 'never',
      reason:
        'in 3.1 us, the link carries 15.5 KB, and 320,000 values of 0.5 MB, the mean of the sizes of the test case, are 1.3 Tbit/s; the claim `stores` has sizes that it can carry',
    },
    {
      ids: ['drum-V-tc3-fig16a', 'drum-V-tc3-fig16b', 'drum-V-tc3-fig16cd'],
      title: 'Redis with values of 10 B to 512 MB in 9 us each',
      why: 'never',
      reason: 'the mean of these sizes, 268 MB, takes 54 ms on the link',
    },
    {
      ids: ['drum-V-tc4-fig17a', 'drum-V-tc4-fig17b', 'drum-V-tc4-fig17c'],
      title: 'CPU usage of its functions',
      why: 'never',
      reason:
        'these are properties of the C implementation; npm run bench:drum measures the CPU costs of isoverbs',
    },
  ],
  claims: [...claimsBare.CLAIMS, ...claimsSolver.CLAIMS, ...claimsConnections.CLAIMS, ...claimsShare.CLAIMS],
  figures: [...figures.FIGURES, ...figuresSolver.FIGURES],
};
