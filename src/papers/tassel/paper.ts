/** Tassel: accurate and scalable rate limiter for RDMA NICs (APNet 2023). */
import { idsOf, type Paper } from '../engine/paper.ts';
import * as claimsBare from './claims-bare.ts';
import * as claimsCycle from './claims-cycle.ts';
import * as claimsPacing from './claims-pacing.ts';
import * as claimsPolicy from './claims-policy.ts';
import * as figures from './figures.ts';
import { STATEMENTS } from './statements.ts';

export const TASSEL: Paper = {
  key: 'tassel',
  name: 'Tassel',
  cited: {
    title: 'Accurate and Scalable Rate Limiter for RDMA NICs',
    authors: 'Zilong Wang, Xinchun Wan, Chaoliang Zeng, Kai Chen',
    venue: '7th Asia-Pacific Workshop on Networking (APNet 2023)',
    doi: '10.1145/3600061.3600078',
  },
  statements: STATEMENTS,
  bare: idsOf('tassel', `2.1-commercial 2.2-model`),
  policy: {
    ids: idsOf('tassel', `4-fig7 4-fig8a 3.2.3-n 3.2.3-k 3.2.4-memory 3.2.2-wheel 3.2.2-pheap 3.2.4-compute`),
    parts: Object.freeze({
      1: 'One queue pair',
      2: 'A thousand queue pairs',
      3: 'Several limits at once',
      4: 'Message rates of the scheduler',
      5: 'Memory and data structures',
      6: 'Next to token buckets and fair queueing',
    }),
    form: 'hardware',
  },
  notShown: [
    {
      ids: ['tassel-3.2.4-compute'],
      title: 'Computing resources of the scheduler',
      why: 'never',
      reason: 'a model has no logic gates whose number could be compared',
    },
  ],
  claims: [...claimsBare.CLAIMS, ...claimsCycle.CLAIMS, ...claimsPacing.CLAIMS, ...claimsPolicy.CLAIMS],
  figures: figures.FIGURES,
};
