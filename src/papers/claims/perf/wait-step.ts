import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { reported } from '../../engine/expect.ts';

const STEPS_NS = [76.9, 79.7, 80.6, 85, 89, 100];
const WORDS = { perf: 'adaptive waits', paper: 'the rule of the paper' };

export default {
  part: 8,
  title: 'How much depends on what a WAIT costs the device',
  source: 'Not in the paper; nobody has published the step',
  note: 'Adaptive waits know the step from the device.',
  mixes: Object.assign(
    {},
    ...STEPS_NS.flatMap((waitStepNs) => {
      const more = { set: { waitStepNs }, duration: '6ms', warmup: '2ms' };
      return [
        compared(PERF, `d ${waitStepNs}`, ['B:size=1MiB', 'D:size=16,think=1us'], more),
        compared(PERF, `m ${waitStepNs}`, ['B:size=1MiB', 'M:size=16'], more),
      ];
    }),
  ),
  checks: Object.entries(WORDS).flatMap(([word, rule]) =>
    STEPS_NS.flatMap((step) => [
      {
        what: `average of D to bare, ${step} ns, ${rule}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `d ${step}`, avgUs, 'D', [word, 'bare']),
        expect: reported('-'),
      },
      {
        what: `bandwidth of B beside M, ${step} ns, ${rule}`,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`m ${step} ${word}`], 'B'),
        expect: reported('-'),
      },
      {
        what: `rate of M, ${step} ns, ${rule}`,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`m ${step} ${word}`], 'M'),
        expect: reported('-'),
      },
    ]),
  ),
} satisfies Claim;
