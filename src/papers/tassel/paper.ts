/** Tassel: accurate and scalable rate limiter for RDMA NICs (APNet 2023). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as figures from './figures.ts';

export const TASSEL: Paper = {
  key: 'tassel',
  name: 'Tassel',
  bare: idsOf('tassel', `2.1-commercial 2.2-model`),
  notShown: [],
  claims: claimsBare.CLAIMS,
  figures: figures.FIGURES,
};
