import { gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range, reported } from '../../engine/expect.ts';

/** Link in Gbps, and processing units, as the paper has them. */
const DEVICES = { 'cx5-40g': [40, 8], 'cx6-100g': [100, 16] } as const;
/** Queue pairs that no device has units for. */
const MANY = 24;

export default {
  part: 2,
  title: 'The devices of the paper: link and processing units',
  source: 'PeRF 5.1, table 1 (perf-5.1-table1)',
  note:
    "Units are counted as the message rate of 24 queue pairs to that of one. The paper's 105 of 13 Mmps with 9 queue " +
    'pairs does not fit its 16 units: the model has 9. The ConnectX-6 of InfiniBand is not modelled.',
  mixes: Object.fromEntries(
    Object.keys(DEVICES).flatMap((profile) => [
      [`b ${profile}`, mix(profile, 'B:size=1MiB')],
      [`one ${profile}`, mix(profile, 'M:size=16', { duration: '2ms', warmup: '500us' })],
      [`many ${profile}`, mix(profile, `M:size=16,qps=${MANY}`, { duration: '2ms', warmup: '500us' })],
    ]),
  ),
  checks: Object.entries(DEVICES).flatMap(([profile, [link, units]]) => [
    {
      what: `bandwidth of B alone, headers of 4 KiB packets left out: ${profile}`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`b ${profile}`], 'B'),
      expect: range(0.97 * link, link),
    },
    {
      what: `rate of ${MANY} queue pairs to that of one: ${profile}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`many ${profile}`], 'M') / mmps(runs[`one ${profile}`], 'M'),
      expect: reported(units),
    },
  ]),
} satisfies Claim;
