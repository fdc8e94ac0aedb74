/** Palos: fair and flexible flow scheduling on RNIC. */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as figures from './figures.ts';

export const PALOS: Paper = {
  key: 'palos',
  name: 'Palos',
  bare: idsOf('palos', `II.B-fig2-64B II.B-fig2-sweep II.B-fig3 II.B-model V.A-fig7-cx5 V.A-fig8-cx5`),
  notShown: [],
  claims: claimsBare.CLAIMS,
  figures: figures.FIGURES,
};
