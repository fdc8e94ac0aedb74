import { gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { reported, rises } from '../../engine/expect.ts';

const DEVICES = [
  ['cx3-56g', 1.42],
  ['cx4-40g', 1.22],
] as const;

export default {
  part: 4,
  title: '1 GB beside 1 MB messages on older devices, one outstanding',
  source: 'Justitia 3.1.3, fig. 5 (justitia-3.1.3-fig5)',
  note: 'These factors would need tens of microseconds per message, which no published constant gives.',
  mixes: Object.fromEntries(
    DEVICES.map(([profile]) => [
      profile,
      mix(profile, ['B:name=short,size=1MB,depth=1', 'B:name=long,size=1GB,depth=1'], {
        duration: '22ms',
        warmup: '2ms',
      }),
    ]),
  ),
  checks: DEVICES.flatMap(([profile, factor]) => {
    const measure = (runs: Runs) => gbps(runs[profile], 'long') / gbps(runs[profile], 'short');
    const unit = 'x';
    return [
      { what: `bandwidth of 1 GB to that of 1 MB, ${profile}`, unit, measure, expect: reported(factor) },
      { what: 'the longer messages get more', at: profile, unit, measure, expect: rises(1) },
    ];
  }),
} satisfies Claim;
