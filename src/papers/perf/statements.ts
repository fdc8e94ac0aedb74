/** What PeRF states, in our words. */
import type { Statements } from '../engine/paper.ts';

export const STATEMENTS: Statements = Object.freeze({
  'perf-2.2-fig1a': {
    where: 'Fig. 1(a), section 2.2',
    says: 'Five applications with small messages each lose message rate when a sixth with larger messages joins: queue pairs get equal numbers of messages, not of bytes.',
  },
  'perf-2.2-fig1b-below-mtu': {
    where: 'Fig. 1(b), section 2.2',
    says: 'The rate of 16 B messages falls as the messages of the other application grow, up to the MTU.',
  },
  'perf-2.2-fig1b-above-mtu': {
    where: 'Fig. 1(b), section 2.2',
    says: 'Beyond the MTU, the rate of 16 B messages falls no further, because the NIC segments messages into packets.',
  },
  'perf-2.2-fig1c': {
    where: 'Fig. 1(c), section 2.2',
    says: 'The mean latency of 16 B messages rises until the background messages reach the MTU, and is then stable.',
  },
  'perf-2.2-rules': {
    where: 'section 2.2',
    says: 'NICs serve queue pairs in turn, one packet at a time, whatever the size of the packet.',
  },
  'perf-2.3.1-fig2a': {
    where: 'Fig. 2(a), section 2.3.1',
    says: 'Alongside M, B keeps 94.77 to 96.89 Gbit/s, and the message rate of M falls far below the 13 M/s of one queue pair alone.',
  },
  'perf-2.3.1-fig2b': {
    where: 'Fig. 2(b), section 2.3.1',
    says: 'Alongside D, B gets 97.94 Gbit/s, and the mean and the p99 latency of D rise.',
  },
  'perf-2.3.1-m-vs-d': {
    where: 'section 2.3.1',
    says: 'M and D, whose messages have similar sizes, do not disturb each other.',
  },
  'perf-2.3.2-fig3a': {
    where: 'Fig. 3(a), section 2.3.2',
    says: 'The bandwidth of an application with one queue pair falls as its competitor adds queue pairs: shares follow the numbers of queue pairs.',
  },
  'perf-2.3.2-bmulti-vs-md': {
    where: 'section 2.3.2',
    says: 'A bandwidth application with many queue pairs degrades M and D more than one with a single queue pair.',
  },
  'perf-2.3.2-capacity': {
    where: 'section 2.3.2',
    says: 'One queue pair reaches about 13 M/s; nine together reach the capacity of the NIC, about 105 M/s.',
  },
  'perf-2.3.2-fig3b': {
    where: 'Fig. 3(b), section 2.3.2',
    says: 'The rate of an M with many queue pairs grows until the NIC is at its capacity; from then on, an M with one queue pair loses rate.',
  },
  'perf-2.3.2-fig3c': {
    where: 'Fig. 3(c), section 2.3.2',
    says: 'The latency of D rises only once the others exhaust the message rate of the NIC.',
  },
  'perf-3.4-small-impact': {
    where: 'section 3.4',
    says: 'D, even with many queue pairs, and M with one queue pair hardly disturb others, so their requests bypass all isolation.',
  },
  'perf-1-headline': {
    where: 'section 1',
    says: 'Throughput is up to 2.04 times that of earlier software schemes, at a similar latency.',
  },
  'perf-3.3-params-classifier': {
    where: 'section 3.3',
    says: 'An application is B if its mean size is at least 1 KB, else M if its queue exceeded 5 requests in the last second, else D; the largest size and the highest rate of its queue pairs count.',
  },
  'perf-4.1-params-lmse': {
    where: 'section 4.1, Appendix A',
    says: 'With the default settings, a queue pair with small messages gets 16 times the opportunities of one with large messages.',
  },
  'perf-4.2-params-mqse': {
    where: 'sections 3.5.1, 4.2',
    says: 'The number of active queue pairs of a tenant starts at 1 and is adjusted to the capacity of the NIC.',
  },
  'perf-4.4-scal': {
    where: 'section 4.4',
    says: 'Thousands of tenants and queue pairs are supported without loss of performance.',
  },
  'perf-5.1-justitia-cfg': {
    where: 'section 5.1, footnote 3',
    says: 'Justitia with a target of 15 us reaches about 86 Gbit/s for B, with a mean latency of 1.5 us.',
  },
  'perf-5.1-table1': {
    where: 'Table 1, section 5.1',
    says: 'The NICs are ConnectX-5 at 40 Gbit/s with 8 processing units and ConnectX-6 at 100 Gbit/s with 16.',
  },
  'perf-5.2.1-table2-d-vs-b': {
    where: 'Table 2, section 5.2.1',
    says: 'Isolating D from B takes 0.94 % more CPU and 8.8 MB.',
  },
  'perf-5.2.1-table2-d-vs-bmulti': {
    where: 'Table 2, section 5.2.1',
    says: 'Isolating D from a B with many queue pairs takes 0.56 % more CPU and 12.2 MB.',
  },
  'perf-5.2.1-table2-d-vs-mmulti': {
    where: 'Table 2, section 5.2.1',
    says: 'Isolating D from an M with many queue pairs takes 3.62 % more CPU and 14.4 MB.',
  },
  'perf-5.2.1-cpu-bound': {
    where: 'section 5.2.1',
    says: 'The part in the application takes less than 5 % more CPU; the other part runs on one core.',
  },
  'perf-5.2.1-ram': {
    where: 'section 5.2.1',
    says: 'Memory is about 9 MB for an application with one queue pair, and about 500 KB for each further queue pair.',
  },
  'perf-5.2.1-fig7a': {
    where: 'Fig. 7(a), section 5.2.1',
    says: 'PeRF equals hardware strict priority in the bandwidth of B and in the latency of D.',
  },
  'perf-5.2.1-fig7b-sp': {
    where: 'Fig. 7(b), section 5.2.1',
    says: 'Under strict priority, M dominates, and B loses most of its bandwidth.',
  },
  'perf-5.2.1-fig7b-ets': {
    where: 'Fig. 7(b), section 5.2.1',
    says: 'PeRF gives B and M about what hardware ETS with weights of 16 to 1 gives them.',
  },
  'perf-5.2.1-ets-d': {
    where: 'section 5.2.1, footnote 4',
    says: 'ETS protects D less well, because it shares bandwidth.',
  },
  'perf-5.2.2-fig8a-rdma': {
    where: 'Fig. 8, section 5.2.2',
    says: 'Without isolation, the latency of D is higher and the rate of M is lower than alone.',
  },
  'perf-5.2.2-fig8a-justitia': {
    where: 'Fig. 8(a), section 5.2.2',
    says: 'Under Justitia, B gets about half of its bandwidth alongside D.',
  },
  'perf-5.2.2-fig8b-justitia': {
    where: 'Fig. 8(b), section 5.2.2',
    says: 'Under Justitia, B and M each lose about half.',
  },
  'perf-5.2.2-fig8-justitiaR': {
    where: 'Fig. 8, section 5.2.2',
    says: 'With a target of 15 us, Justitia gives B more bandwidth alongside D, and the same alongside M.',
  },
  'perf-5.2.2-fig8-perf': {
    where: 'Fig. 8(a)(b), section 5.2.2',
    says: 'Under PeRF, B keeps a high bandwidth while D has a low latency and M a high rate.',
  },
  'perf-5.2.3-fig9abc': {
    where: 'Fig. 9(a)-(c), section 5.2.3',
    says: 'Under PeRF, the number of queue pairs of B changes neither the bandwidth of other Bs, nor the latency of D, nor the rate of M much.',
  },
  'perf-5.2.3-fig9d-justitia': {
    where: 'Fig. 9(d), section 5.2.3',
    says: 'Under Justitia, a B with many queue pairs and M each get half, although tokens are equal.',
  },
  'perf-5.2.3-fig9ef': {
    where: 'Fig. 9(e)(f), section 5.2.3',
    says: 'The latency of D under PeRF is marginally higher than under Justitia.',
  },
  'perf-5.2.3-fig10c': {
    where: 'Fig. 10(c), section 5.2.3',
    says: 'Under PeRF, B gets 88 Gbit/s and an M with many queue pairs 9 M/s, whatever the number of queue pairs.',
  },
  'perf-5.2.3-fig10def': {
    where: 'Fig. 10(d)-(f), section 5.2.3',
    says: 'With more active queue pairs, an M with many queue pairs reaches about the rate that it has without isolation.',
  },
  'perf-5.2.4-fig11': {
    where: 'Fig. 11, section 5.2.4',
    says: 'In a congested network with DCQCN, Bs still share bandwidth equally under PeRF, and the latency of D stays low.',
  },
  'perf-5.2.4-native': {
    where: 'section 5.2.4',
    says: 'Without isolation, the latency of D rises by about 10 us in the congested network.',
  },
  'perf-5.2.4-queueing': {
    where: 'section 5.2.4',
    says: 'When more Bs start, the latency of D rises because of queues in the switch, which PeRF does not control.',
  },
  'perf-5.2.5-fig12a': {
    where: 'Fig. 12(a), section 5.2.5',
    says: 'With SEND and READ, B loses only 5 %, while the mean latency of D falls by 75 % and 67 %.',
  },
  'perf-5.2.5-fig12b': {
    where: 'Fig. 12(b), section 5.2.5',
    says: 'With SEND and READ, M gets 2.7 and 3 times its rate without a loss of B, about as much as without B.',
  },
  'perf-5.2.5-fig13a': {
    where: 'Fig. 13(a), section 5.2.5',
    says: 'With up to 1,000 Bs of 8 queue pairs each, M keeps 9.7 M/s, and the Bs have 87 Gbit/s in total.',
  },
  'perf-5.3-fig16a-crail': {
    where: 'Fig. 16(a), section 5.3',
    says: 'Crail gets 55 % more throughput than under Justitia; rping loses less than 1 us.',
  },
  'perf-5.3-fig16a-others': {
    where: 'Fig. 16(a), section 5.3',
    says: 'Crail gets about as much as under Justitia with 15 us, while rping has lower mean and p99 latencies, and HERD a higher rate.',
  },
  'perf-5.3-fig16b': {
    where: 'Fig. 16(b), section 5.3',
    says: 'With background traffic, HERD has a rate 14 % higher and the total bandwidth is 10 to 30 % higher; rping is faster under Justitia with 15 us.',
  },
  'perf-A-fig17a': {
    where: 'Fig. 17(a), Appendix A',
    says: 'A piece size above 8 KB has little effect on the bandwidth of B and the rate of M.',
  },
  'perf-A-fig17b': {
    where: 'Fig. 17(b), Appendix A',
    says: 'With a larger unit between 0_WAITs, B gains bandwidth and M loses rate.',
  },
  'perf-B-fig18a': {
    where: 'Fig. 18(a), Appendix B (and section 2.3.1)',
    says: 'With a send queue of one request, the application with 1 MB messages gets less than that with 1 GB; a longer queue mends it.',
  },
  'perf-4.4-batching': {
    where: 'section 4.4',
    says: 'Batches of 0_WAITs after pieces of at least 16 KB take much less CPU than one after each small piece.',
  },
  'perf-D-limits': { where: 'Appendix D', says: 'UD, event-driven completions and atomics are future work.' },
});
