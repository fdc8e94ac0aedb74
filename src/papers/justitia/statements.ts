/** What Justitia states, in our words. */
import type { Statements } from '../engine/paper.ts';

export const STATEMENTS: Statements = Object.freeze({
  'justitia-3.1.1-fig3-infi': {
    where: 'Fig. 3(a)(b), section 3.1.1',
    says: 'On InfiniBand, a bandwidth application makes the median latency of another application 1.85 times and the p99 latency 2.23 times as high.',
  },
  'justitia-3.1.1-fig3-roce': {
    where: 'Fig. 3(a)(b), section 3.1.1',
    says: 'On RoCEv2, the median latency grows 3.82-fold and the p99 latency 4.0-fold.',
  },
  'justitia-3.1.1-fig3-iwarp': {
    where: 'Fig. 3, section 3.1.1',
    says: 'On iWARP, the median latency stays good, and the p99 latency grows 95-fold.',
  },
  'justitia-3.1.1-fig4': {
    where: 'Fig. 4, section 3.1.1',
    says: 'Alongside a bandwidth application, an application with a high message rate loses a factor of 2.85 or more.',
  },
  'justitia-3.1.1-139x': {
    where: 'section 3.1.1, Appendix B.1',
    says: 'Alongside 16 bandwidth applications, latency is 139 times as high.',
  },
  'justitia-3.1.2-coexist': {
    where: 'section 3.1.2, Appendix B, Figs. 26-28',
    says: 'Latency and throughput applications, alone or mixed, show no anomaly among themselves.',
  },
  'justitia-B-fig26': {
    where: 'Fig. 26, Appendix B',
    says: 'With more latency applications, the latencies of all grow equally.',
  },
  'justitia-B-fig27': {
    where: 'Fig. 27, Appendix B',
    says: 'Throughput applications get almost equal rates.',
  },
  'justitia-B-fig28': {
    where: 'Fig. 28, Appendix B',
    says: 'A latency application and a throughput application hardly affect each other.',
  },
  'justitia-3.1.3-fig5': {
    where: 'Fig. 5, section 3.1.3',
    says: 'An application with 1 GB messages gets 1.42 times the bandwidth of one with 1 MB messages on InfiniBand, 1.22 times on RoCEv2, and 1.51 times on iWARP.',
  },
  'justitia-3.1.4-100g': {
    where: 'section 3.1.4, Appendix C.1, Figs. 30-31',
    says: 'Most anomalies persist at 100 Gbit/s.',
  },
  'justitia-3.2-fig6': {
    where: 'Fig. 6, section 3.2',
    says: 'Alongside Crail, the tail latency of DARE is 4.6 times as high; Crail keeps 51.1 Gbit/s.',
  },
  'justitia-C.2-fig32-bare': {
    where: 'section 3.2, Appendix C.2, Fig. 32',
    says: 'With storage traffic in the background, the throughput of FaSST falls by 74 %.',
  },
  'justitia-C.2-fig33-bare': {
    where: 'section 3.2, Appendix C.2, Fig. 33',
    says: 'With storage traffic in the background, eRPC loses 93 % of its throughput; its median latency is 67 times, its tail latency 40 times as high.',
  },
  'justitia-3.3-dcqcn': {
    where: 'section 3.3',
    says: 'With DCQCN, latency and throughput applications still suffer, because the problem is in the NIC of the host.',
  },
  'justitia-6.3-hw-limits': {
    where: 'section 6.3, Appendix E.1',
    says: 'The NIC has two lossless queues; changing a rate limiter takes 2 ms.',
  },
  'justitia-2.2-greedy': {
    where: 'section 2.2',
    says: 'NICs seem to process whatever is ready, with little arbitration, so that small messages wait behind large ones.',
  },
  'justitia-A-table1': {
    where: 'Table 1, Appendix A',
    says: 'The NICs of the testbeds have 56, 100, 40 and 10 Gbit/s.',
  },
  'justitia-4.3-params': {
    where: 'sections 4.3.1-4.3.4',
    says: 'A 10 B reference message is sent each 20 us to each destination of latency applications; the window has 10,000 samples.',
  },
  'justitia-4.3.4-token-example': {
    where: 'section 4.3.4',
    says: 'For 48 Gbit/s and 30 M/s, a token is due each 167 us and is worth 5,000 operations.',
  },
  'justitia-5.2-fig10-chunk': {
    where: 'Fig. 10, section 5.2',
    says: 'With latency applications present, chunks of 5 KB are the smallest that still reach most of the bandwidth; otherwise chunks have 1 MB.',
  },
  'justitia-6-targets': {
    where: 'sections 4.3.3, 6.1',
    says: 'The latency target is 2 us on InfiniBand and RoCEv2; where it cannot be met, the minimum rate is enforced.',
  },
  'justitia-6.1-fig11a': {
    where: 'Fig. 11(a), section 6.1',
    says: 'Justitia improves the median and the p99 latency alongside a bandwidth application considerably.',
  },
  'justitia-6.1-fig11b': {
    where: 'Fig. 11(b), section 6.1',
    says: 'In the same run, the bandwidth application gets half of the capacity.',
  },
  'justitia-6.1-fig12': {
    where: 'Fig. 12, section 6.1',
    says: 'With a relaxed target of 10 us, the target is met and bandwidth exceeds the minimum rate.',
  },
  'justitia-6.1-fig13': {
    where: 'Fig. 13, section 6.1',
    says: 'Two bandwidth applications get equal shares whatever their message sizes and numbers of queue pairs; the loss is below 6 % on InfiniBand and below 2 % on RoCEv2.',
  },
  'justitia-6.1-fig14': {
    where: 'Fig. 14, section 6.1',
    says: 'Justitia costs a latency and a throughput application next to nothing.',
  },
  'justitia-6.1-fig15a': {
    where: 'Fig. 15(a), section 6.1',
    says: 'Alongside a bandwidth application, a throughput application gets half of the rate that it has alone.',
  },
  'justitia-6.1-fig15b': {
    where: 'Fig. 15(b), section 6.1',
    says: 'In the same run, the bandwidth application gets half of its bandwidth.',
  },
  'justitia-6.1-fig16a': {
    where: 'Fig. 16(a), sections 1, 6.1',
    says: 'The tail latency of DARE alongside Crail is 3.4 times better, and close to that of DARE alone.',
  },
  'justitia-6.1-fig16b': {
    where: 'Fig. 16(b), section 6.1',
    says: 'In the same run, Crail gets 81 % of its throughput, where 8/9 are expected.',
  },
  'justitia-6.2-fig17a': {
    where: 'Fig. 17(a), section 6.2',
    says: 'Growing numbers of bandwidth applications get equal shares, and the total stays near the link rate.',
  },
  'justitia-6.2-fig17b': {
    where: 'Fig. 17(b), section 6.2',
    says: 'Growing numbers of throughput applications get about equal rates.',
  },
  'justitia-6.2-fig18': {
    where: 'Fig. 18, section 6.2',
    says: 'Latency is isolated for a wide range of message sizes, and the bandwidth application always gets half.',
  },
  'justitia-6.3-fig19-21': {
    where: 'Figs. 19-21, section 6.3',
    says: 'With DCQCN, Justitia improves latency up to 8.6-fold and throughput 2.6-fold.',
  },
  'justitia-6.3-fig22': {
    where: 'Fig. 22, section 6.3',
    says: 'In a hardware queue that they share, Justitia isolates a throughput application from a bandwidth application.',
  },
  'justitia-C.1-fig30-31': {
    where: 'Figs. 30-31, Appendix C.1',
    says: 'Justitia mitigates the anomalies at 100 Gbit/s.',
  },
  'justitia-C.2-fig32': {
    where: 'Fig. 32, section 6.1, Appendix C.2',
    says: 'With storage traffic in the background, FaSST has 2.5 times the throughput that it has without Justitia.',
  },
  'justitia-C.2-fig33': {
    where: 'Fig. 33, section 6.1, Appendix C.2',
    says: 'With storage traffic in the background, the median latency of eRPC is 56.9 times better, its tail 32.2 times, and its throughput 9.7 times.',
  },
  'justitia-C.2-storage-half': {
    where: 'Appendix C.2',
    says: 'The storage traffic, which counts as one application, gets half of its throughput.',
  },
  'justitia-D-fig39': {
    where: 'Fig. 39, Appendix D',
    says: 'The tail estimate follows the latency closely unless the reference count is huge.',
  },
  'justitia-E.4-overhead': {
    where: 'Appendix E.4',
    says: 'A reference flow takes 0.004 Gbit/s, less than 0.1 % of 10 Gbit/s.',
  },
  'justitia-5-loc': {
    where: 'section 5',
    says: 'The daemon has 3,100 lines of C, and the shapers in drivers 5,200.',
  },
  'justitia-6.2-cpu': {
    where: 'sections 1, 6.2',
    says: 'Each host has one core for the daemon, and little memory.',
  },
  'justitia-C.4-fig35': {
    where: 'Fig. 35, Appendix C.4',
    says: 'The p99 latency of LITE is 122 times that of Justitia.',
  },
  'justitia-C.4-fig36': {
    where: 'Fig. 36, Appendix C.4',
    says: 'LITE shares bandwidth even less equally than InfiniBand without isolation.',
  },
});
