import { share } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm } from '../../engine/expect.ts';

const POINTS = [64, 512, 4096].flatMap((size) => [1, 4].map((large) => [size, large] as const));

export default {
  part: 10,
  title: 'The packet round predicts the shares of a whole device, not only of the ideal one',
  source: 'Palos II-B: L MTU / (L MTU + n s) within a few per cent (palos-II.B-model)',
  mixes: Object.fromEntries(
    POINTS.map(([size, large]) => [
      `${size} ${large}`,
      mix('cx5-100g', [`B:name=large,size=1MiB,qps=${large}`, `M:name=small,size=${size}B,qps=16`]),
    ]),
  ),
  checks: POINTS.map(([size, large]) => ({
    what: 'share of the large flows beside 16 small ones',
    at: `${large} large, ${size} B`,
    unit: '',
    measure: (runs: Runs) => share(runs[`${size} ${large}`], 'large'),
    expect: closedForm((large * 4096) / (large * 4096 + 16 * size), 0.05),
  })),
} satisfies Claim;
