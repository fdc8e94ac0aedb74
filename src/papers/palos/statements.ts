/** What Palos states, in our words. */
import type { Statements } from '../engine/paper.ts';

export const STATEMENTS: Statements = Object.freeze({
  'palos-II.B-fig2-64B': {
    where: 'Fig. 2, section II-B',
    says: '16 flows with 64 B messages fall to 45 % of their highest message rate, while a large flow keeps 67 % of its bandwidth.',
  },
  'palos-II.B-fig2-sweep': {
    where: 'Fig. 2, section II-B',
    says: 'What small flows and the large flow get depends on the size of small messages.',
  },
  'palos-II.B-fig3': {
    where: 'Fig. 3, section II-B',
    says: 'The latency of a small flow grows with the number of large flows, to 7.8 times with 24.',
  },
  'palos-II.B-model': {
    where: 'section II-B',
    says: 'A model of packets in turns agrees with the measurements on ConnectX-5.',
  },
  'palos-V.A-fig7-cx5': {
    where: 'Fig. 7, section V-A',
    says: 'On ConnectX-5, the share of the large flow falls from 47 % as small messages grow from 256 to 4096 B, towards the fair 1/17.',
  },
  'palos-V.A-fig8-cx5': {
    where: 'Fig. 8, section V-A',
    says: 'On ConnectX-5, 16 large flows make the latency of a small flow 5 times as high.',
  },
  'palos-IV.B-update-cost': {
    where: 'section IV-B',
    says: 'A change of a weight updates one entry for the queue pair and the table of groups, in nanoseconds; a table with an entry for each queue pair would take 220 us.',
  },
  'palos-V-params': {
    where: 'section V',
    says: 'The simulated NIC has 128 Gbit/s of PCIe and 100 Gbit/s of network; small messages have 64 B and large ones 2 MB.',
  },
  'palos-V.A-fig7-palos': {
    where: 'Fig. 7, section V-A',
    says: 'Under Palos, 16 small flows together get about 16/17 and the large flow 1/17, whatever the size of small messages.',
  },
  'palos-V.B-fig9-qos': {
    where: 'Fig. 9, section V-B',
    says: 'Virtual lanes and software chunks protect small flows, but not as well as possible.',
  },
  'palos-V.C-fig10': {
    where: 'Fig. 10, section V-C',
    says: 'Bandwidth follows the weights of 16 groups with two queue pairs each precisely.',
  },
  'palos-V.C-levels': { where: 'section V-C', says: 'There are at least 32 distinct levels of performance.' },
  'palos-V-summary-isolation': {
    where: 'section V summary bullets 1, 3, 4',
    says: 'Small and large flows compete fairly; weights control performance; flows and weights of one group do not affect others.',
  },
  'palos-I-workload': {
    where: 'sections I, II-B',
    says: "At Google, 30 % of messages are shorter than 100 B and about 5 % longer than 10 KB; in Facebook's Hadoop, 60 % are shorter than 1 KB.",
  },
});
