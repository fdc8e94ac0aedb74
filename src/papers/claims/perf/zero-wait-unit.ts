import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atLeast, reported, rises } from '../../engine/expect.ts';

/** 900 is the paper's PeRF_S. */
const UNITS = [512, 900, 1024, 1536, 2048, 4096];
const LAST = UNITS.length - 1;

export default {
  part: 4,
  title: '0_WAIT_UNIT: a larger one gives B_App more and M_App less',
  source: 'PeRF appendix A, fig. 17(b) (perf-A-fig17b)',
  note: 'Fixed waits: adaptive ones do not come from the unit.',
  mixes: Object.fromEntries(
    UNITS.flatMap((unit) => {
      const policy = `perf:waits=fixed,zeroWaitUnitBytes=${unit}`;
      return [
        [`m ${unit}`, mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy })],
        [`d ${unit}`, mix('cx6-100g', ['B:size=1MiB', 'D:size=16,think=1us'], { policy })],
      ];
    }),
  ),
  checks: [
    ...UNITS.slice(1).flatMap((unit, i) => [
      {
        what: 'bandwidth of B to that with the next smaller unit',
        at: `${unit}`,
        unit: 'x',
        measure: (runs: Runs) => gbps(runs[`m ${unit}`], 'B') / gbps(runs[`m ${UNITS[i]}`], 'B'),
        expect: atLeast(1),
      },
      {
        what: 'rate of M with the next smaller unit to its rate',
        at: `${unit}`,
        unit: 'x',
        measure: (runs: Runs) => mmps(runs[`m ${UNITS[i]}`], 'M') / mmps(runs[`m ${unit}`], 'M'),
        expect: atLeast(1),
      },
    ]),
    {
      what: 'bandwidth of B with 4096 to that with 512',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`m ${UNITS[LAST]}`], 'B') / gbps(runs[`m ${UNITS[0]}`], 'B'),
      expect: rises(),
    },
    {
      what: 'rate of M with 512 to that with 4096',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`m ${UNITS[0]}`], 'M') / mmps(runs[`m ${UNITS[LAST]}`], 'M'),
      expect: rises(),
    },
    ...UNITS.map((unit) => ({
      what: `average of D with ${unit}`,
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs[`d ${unit}`], 'D'),
      expect: reported('-'),
    })),
  ],
} satisfies Claim;
