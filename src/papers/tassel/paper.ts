/** Tassel: accurate and scalable rate limiter for RDMA NICs (APNet 2023). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as claimsPolicy from './claims-policy.ts';
import * as figures from './figures.ts';

export const TASSEL: Paper = {
  key: 'tassel',
  name: 'Tassel',
  bare: idsOf('tassel', `2.1-commercial 2.2-model`),
  policy: {
    ids: idsOf('tassel', '4-fig7 4-fig8a'),
    parts: Object.freeze({
      1: 'One queue pair',
      2: 'A thousand queue pairs',
      3: 'Several limits at once',
    }),
  },
  notShown: [],
  claims: [...claimsBare.CLAIMS, ...claimsPolicy.CLAIMS],
  figures: figures.FIGURES,
};
