/** What DRUM states, in our words. */
import type { Statements } from '../engine/paper.ts';

export const STATEMENTS: Statements = Object.freeze({
  'drum-II.A-fig2a': {
    where: 'Fig. 2(a), section II-A',
    says: 'The 80th percentile of the completion time rises from about 20 us to 78 us as the batches of another application grow from 20 to 100 requests.',
  },
  'drum-II.C-fig2b': {
    where: 'Fig. 2(b), section II-C',
    says: 'Throughput grows with the rate at which completions are polled.',
  },
  'drum-II.D-fig2c': {
    where: 'Fig. 2(c), section II-D',
    says: 'The throughput of RC and UC falls beyond 20 connections, because the state of queue pairs no longer fits into the cache; UD is unaffected.',
  },
  'drum-III.E-params': {
    where: 'section III-E',
    says: 'The solver runs with rho = 0.001, 100 to 10,000 hosts and 50 to 5,000 applications.',
  },
  'drum-III.E-baseline-dd': {
    where: 'section III-E',
    says: 'Dual decomposition with a diminishing step is the baseline.',
  },
  'drum-III.E-fig45a': {
    where: 'Figs. 4(a), 5(a), section III-E',
    says: 'The objective converges within 20 iterations, whatever the numbers of hosts and applications.',
  },
  'drum-III.E-fig45b': {
    where: 'Figs. 4(b), 5(b), section III-E',
    says: 'After 10 iterations, the primal residual is below 1 with 100 hosts and below 10 with 1,000.',
  },
  'drum-III.E-lyapunov': {
    where: 'section III-E',
    says: 'The distance D^k never grows from one iteration to the next.',
  },
  'drum-III.E-stop17': {
    where: 'Fig. 5(a), section III-E',
    says: 'With 1,000 hosts and 500 applications, 99.5 % of the optimum are reached after 17 iterations.',
  },
  'drum-III.E-fig6a': {
    where: 'Fig. 6(a), section III-E',
    says: 'If up to 10 % of intermediate results are lost, the gap to the optimum is at most 1.5 % before the 10th iteration and 0.2 % after 20.',
  },
  'drum-III.E-stopping': {
    where: 'equation (31), section III-E',
    says: 'The iteration stops at a tolerance that is chosen by experience.',
  },
  'drum-III.A-lemma1': {
    where: 'Lemma 1, section III-A',
    says: 'The utility of the k largest rates is strictly concave.',
  },
  'drum-III.B-thm1': {
    where: 'Lemma 2, Theorem 1, section III-B',
    says: 'Residual, objective and dual variables converge if there is a feasible solution.',
  },
  'drum-III.D-thm4': {
    where: 'Theorem 4, section III-D',
    says: 'The two-sided decomposition is equivalent to standard ADMM.',
  },
  'drum-V-tc1-fig8': {
    where: 'Fig. 8, Test case 1',
    says: 'Under DRUM, the 80th percentile of the completion time stays within 20 us, whatever the batch size in the background.',
  },
  'drum-V-tc1-fig10-cc20': {
    where: 'Fig. 10, Test case 1',
    says: 'With 20 connections, the 80th percentile is 8.8 us under DRUM, 7.1 us under RAW and 7.2 us under SHARE.',
  },
  'drum-V-tc1-fig10-raw': {
    where: 'Fig. 10, Test case 1',
    says: 'Under RAW, the 80th percentile rises from 26.5 us with 50 connections to 90.4 us with 100.',
  },
  'drum-V-tc1-fig10-drum': {
    where: 'Fig. 10, Test case 1',
    says: 'Under DRUM, the 80th percentile is 14.5 us with 50 connections and 24.0 us with 100: 3.1 times faster than RAW and 1.7 times faster than SHARE.',
  },
  'drum-V-tc1-share-tail': {
    where: 'section V-B, Test case 1',
    says: 'SHARE has a long tail, because threads wait for the lock of the shared queue pair.',
  },
  'drum-V-tc2-fig9': {
    where: 'Fig. 9, Test case 2',
    says: 'The completion time of a 1 GB transfer is stable under DRUM, whatever the batches in the background.',
  },
  'drum-V-tc2-fig11-cc20': {
    where: 'Fig. 11, Test case 2',
    says: 'A 1 MB flow of 32 B requests takes 62.9 ms under DRUM, 53.1 ms under RAW and 82.8 ms under SHARE.',
  },
  'drum-V-tc2-fig12a-small': {
    where: 'Fig. 12(a), Test case 2',
    says: 'The mean latency of 5 to 200 B messages is 43 to 98.1 % better than under RAW and SHARE.',
  },
  'drum-V-tc2-fig12a-medium': {
    where: 'Fig. 12, Test case 2',
    says: 'For medium messages, SHARE performs about as DRUM does.',
  },
  'drum-V-tc2-fig12b-large': {
    where: 'Fig. 12(b), Test case 2',
    says: 'For messages above 500 KB, DRUM is 35.9 to 64.1 % faster than RAW.',
  },
  'drum-V-tc2-fig12b-trend': {
    where: 'Fig. 12(b), Test case 2',
    says: 'The throughput of DRUM falls gradually from 100 B to 1 MB.',
  },
  'drum-V-tc3-fig14': {
    where: 'Fig. 14, Test case 3',
    says: 'Most key-value requests have a mean latency below 18 us under DRUM; under SHARE it is 67.3 % higher with more than 300 connections.',
  },
  'drum-V-tc3-fig15a': {
    where: 'Fig. 15(a), Test case 3',
    says: 'A one-sided key-value request takes 3.1 us under DRUM, 30.1 % more under SHARE and 52 % more under RAW.',
  },
  'drum-V-tc3-fig15a-put': {
    where: 'Fig. 15(a), Test case 3',
    says: 'A PUT takes 3 us under DRUM, 4.1 us under SHARE and 5.2 us under RAW.',
  },
  'drum-V-tc3-fig15b': {
    where: 'Fig. 15(b), Test case 3',
    says: 'The one-sided key-value store does more than 320 Kops under DRUM, 28.1 % more than under SHARE and 39.2 % more than under RAW.',
  },
  'drum-V-tc3-fig15cd': {
    where: 'Fig. 15(c)(d), Test case 3',
    says: 'The two-sided key-value store gains only 10 to 21 %.',
  },
  'drum-V-tc3-fig16a': {
    where: 'Fig. 16(a), Test case 3',
    says: 'The mean latencies of Redis are 9.1, 9 and 7.1 us under DRUM, and 16, 21.8 and 12.4 us under RAW.',
  },
  'drum-V-tc3-fig16b': {
    where: 'Fig. 16(b), Test case 3',
    says: 'The throughput of Redis is 37.8 to 48.1 % higher.',
  },
  'drum-V-tc3-fig16cd': {
    where: 'Fig. 16(c)(d), Test case 3',
    says: 'Two-sided Redis gains about as much as one-sided Redis.',
  },
  'drum-V-tc4-fig17a': {
    where: 'Fig. 17(a), Test case 4',
    says: 'DRUM takes 13.5 % more CPU on average, with a peak while connections are set up.',
  },
  'drum-V-tc4-fig17b': {
    where: 'Fig. 17(b), Test case 4',
    says: 'The additional CPU is below 30 % of a core, and grows more slowly with more connections.',
  },
  'drum-V-tc4-fig17c': {
    where: 'Fig. 17(c), Test case 4',
    says: 'The poller takes one core, the computation of rates about 4.22 %.',
  },
});
