import { share } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm } from '../../engine/expect.ts';

const COUNTS = [1, 2, 4, 8, 16, 32];
const PROFILES = ['ideal', 'cx6-100g'];

export default {
  part: 1,
  title: 'One queue pair beside an application with n: shares go by queue pairs',
  source: '1 / (1 + n); PeRF 2.3.2, fig. 3(a) (perf-2.3.2-fig3a)',
  smoke: true,
  mixes: Object.fromEntries(
    PROFILES.flatMap((profile) =>
      COUNTS.map((n) => [
        `${profile} ${n}`,
        mix(profile, ['B:name=one,size=1MiB', `B:name=many,size=1MiB,qps=${n}`]),
      ]),
    ),
  ),
  checks: PROFILES.flatMap((profile) =>
    COUNTS.map((n) => ({
      what: `share of the one, ${profile}`,
      at: `n = ${n}`,
      unit: '',
      measure: (runs: Runs) => share(runs[`${profile} ${n}`], 'one'),
      expect: closedForm(1 / (1 + n), profile === 'ideal' ? 0.01 : 0.05),
    })),
  ),
} satisfies Claim;
