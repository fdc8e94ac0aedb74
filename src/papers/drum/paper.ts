/** DRUM: distributed and optimal RDMA resource sharing (IEEE/ACM ToN 2023). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as claimsSolver from './claims-solver.ts';
import * as figures from './figures.ts';

export const DRUM: Paper = {
  key: 'drum',
  name: 'DRUM',
  bare: idsOf('drum', `II.A-fig2a II.C-fig2b II.D-fig2c V-tc1-fig10-raw`),
  policy: {
    ids: idsOf(
      'drum',
      `III.E-params III.E-baseline-dd III.E-fig45a III.E-fig45b III.E-lyapunov III.E-stop17 III.E-fig6a III.E-stopping
        III.A-lemma1 III.B-thm1 III.D-thm4`,
    ),
    parts: Object.freeze({
      1: 'Convergence of the solver',
      2: 'Lost and late values',
      3: 'The baseline, and theory',
    }),
  },
  notShown: [
    {
      ids: ['drum-III.E-stopping'],
      title: 'The tolerance of the stopping criterion',
      why: 'never',
      reason: 'the paper gives a rule without its tolerance',
    },
  ],
  claims: [...claimsBare.CLAIMS, ...claimsSolver.CLAIMS],
  figures: figures.FIGURES,
};
