import { avgUs, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { falls, reported } from '../../engine/expect.ts';

const MTUS = [1024, 2048, 4096];
const B = 'B:size=1MiB';

export default {
  part: 3,
  title: 'The larger the MTU, the less is left to a 16 B application',
  source: 'PeRF 2.2, fig. 1(b), (c) (perf-2.2-fig1b-above-mtu, perf-2.2-fig1c)',
  note: 'Latency has no expectation: what waits in the egress FIFO is as many bytes with every MTU.',
  mixes: Object.fromEntries(
    MTUS.flatMap((mtu) => [
      [`m ${mtu}`, mix('cx6-100g', [B, 'M:size=16'], { set: { mtuBytes: mtu } })],
      [`d ${mtu}`, mix('cx6-100g', [B, 'D:size=16,think=1us'], { set: { mtuBytes: mtu } })],
    ]),
  ),
  checks: [
    ...MTUS.slice(1).map((mtu, i) => ({
      what: 'rate with an MTU twice as large',
      at: `${MTUS[i]} to ${mtu}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`m ${mtu}`], 'M') / mmps(runs[`m ${MTUS[i]}`], 'M'),
      expect: falls(),
    })),
    ...MTUS.slice(1).map((mtu, i) => ({
      what: `latency with an MTU of ${mtu} to ${MTUS[i]}`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`d ${mtu}`], 'D') / avgUs(runs[`d ${MTUS[i]}`], 'D'),
      expect: reported('above 1'),
    })),
  ],
} satisfies Claim;
