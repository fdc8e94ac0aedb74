import { avgUs, mmps, p99Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal } from '../../engine/expect.ts';

const DEVICES = ['cx3-56g', 'cx4-40g'];
const [D, M] = ['D:size=16,think=1us', 'M:size=16,batch=64'];

export default {
  part: 6,
  title: 'A latency and a message-rate application do not hurt each other, InfiniBand and RoCEv2',
  source: 'Justitia appendix B, fig. 28 (justitia-B-fig28)',
  note: 'On iWARP, which no profile is, the paper sees that latency suffers.',
  mixes: Object.fromEntries(
    DEVICES.flatMap((profile) => [
      [`d ${profile}`, mix(profile, D)],
      [`m ${profile}`, mix(profile, M)],
      [`both ${profile}`, mix(profile, [D, M])],
    ]),
  ),
  checks: DEVICES.flatMap((profile) => [
    ...[avgUs, p99Us].map((latency) => ({
      what: `${latency === avgUs ? 'mean' : 'p99'} latency to that alone`,
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => latency(runs[`both ${profile}`], 'D') / latency(runs[`d ${profile}`], 'D'),
      expect: equal(latency === avgUs ? 0.1 : 0.2),
    })),
    {
      what: 'message rate to that alone',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`both ${profile}`], 'M') / mmps(runs[`m ${profile}`], 'M'),
      expect: equal(0.05),
    },
  ]),
} satisfies Claim;
