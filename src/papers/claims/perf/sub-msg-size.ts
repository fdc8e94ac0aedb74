import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range, reported } from '../../engine/expect.ts';

const KIB = 1024;
/** From 8 KiB to half the egress FIFO, and what is around it. */
const FLAT = [8, 12, 16, 20, 24];
const OUTSIDE = [1, 2, 4, 32, 48, 64];
const DEFAULT = 16;
/** The policy sees to it that no piece is longer than half the FIFO of 48 KiB, so it is told of a larger one. */
const HALF = 24;
const BELIEVES = `,egressFifoBytes=${1024 * KIB}`;

function lines(size: number) {
  const flat = FLAT.includes(size);
  return [
    {
      what: flat ? 'bandwidth of B to that with 16 KiB' : `bandwidth of B, ${size} KiB`,
      at: flat ? `${size} KiB` : undefined,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[size], 'B') / gbps(runs[DEFAULT], 'B'),
      expect: flat ? range(0.92, 1.08) : reported('-'),
    },
    {
      what: flat ? 'rate of M to that with 16 KiB' : `rate of M, ${size} KiB`,
      at: flat ? `${size} KiB` : undefined,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[size], 'M') / mmps(runs[DEFAULT], 'M'),
      expect: flat ? range(0.92, 1.08) : reported('-'),
    },
    {
      what: `average of D, ${size} KiB`,
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs[`d ${size}`], 'D'),
      expect: reported('-'),
    },
  ];
}

export default {
  part: 4,
  title: 'SUB_MSG_SIZE: little difference from 8 KiB to half the egress FIFO',
  source: 'PeRF appendix A, fig. 17(a) (perf-A-fig17a)',
  note: 'Pieces longer than half the egress FIFO leave the wire idle: not in the paper.',
  mixes: Object.fromEntries(
    [...FLAT, ...OUTSIDE].flatMap((size) => {
      const policy = `perf:subMsgSizeBytes=${size * KIB},zeroWaitUnitBytes=${KIB}${size > HALF ? BELIEVES : ''}`;
      return [
        [`${size}`, mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy })],
        [`d ${size}`, mix('cx6-100g', ['B:size=1MiB', 'D:size=16,think=1us'], { policy })],
      ];
    }),
  ),
  checks: [...FLAT, ...OUTSIDE].flatMap(lines),
} satisfies Claim;
