/** DRUM: distributed and optimal RDMA resource sharing (IEEE/ACM ToN 2023). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as figures from './figures.ts';

export const DRUM: Paper = {
  key: 'drum',
  name: 'DRUM',
  bare: idsOf('drum', `II.A-fig2a II.C-fig2b II.D-fig2c V-tc1-fig10-raw`),
  notShown: [],
  claims: claimsBare.CLAIMS,
  figures: figures.FIGURES,
};
