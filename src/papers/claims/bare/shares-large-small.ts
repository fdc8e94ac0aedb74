import { share } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm } from '../../engine/expect.ts';

/** MTU, bytes of a small message, queue pairs with small ones and with large ones. */
const POINTS: readonly (readonly [number, number, number, number])[] = [1024, 1500, 2048, 4096].flatMap(
  (mtu) => [
    [mtu, 64, 1, 1] as const,
    [mtu, 64, 64, 8] as const,
    [mtu, 256, 16, 1] as const,
    [mtu, 512, 4, 2] as const,
    [mtu, mtu, 1, 8] as const,
    [mtu, mtu, 64, 1] as const,
  ],
);
const idOf = (point: readonly number[]) => point.join('-');

/** At least 2 ms and 400 rounds, so that one packet more or less is no matter. */
function duration([mtu, small, n, large]: readonly number[]): string {
  const roundNs = ((large * (mtu + 82) + n * (small + 98)) * 8) / 100;
  return `${Math.ceil(200e3 + Math.max(2e6, 400 * roundNs))}ns`;
}

export default {
  part: 1,
  title: 'Large and small messages: each queue pair sends one packet in turn, whatever its size',
  source:
    'Payload share of L large queue pairs beside n of s bytes: L MTU / (L MTU + n s); Palos II-B; PeRF 2.2 (perf-2.2-rules)',
  mixes: Object.fromEntries(
    POINTS.map((point) => {
      const [mtu, small, n, large] = point;
      const apps = [`B:name=large,size=${256 * mtu}B,qps=${large}`, `M:name=small,size=${small}B,qps=${n}`];
      const more = { set: { mtuBytes: mtu }, duration: duration(point), warmup: '200us' };
      return [idOf(point), mix('ideal', apps, more)];
    }),
  ),
  checks: POINTS.map((point) => {
    const [mtu, small, n, large] = point;
    return {
      what: 'share of the large ones',
      at: `MTU ${mtu}, ${large} large, ${n} x ${small} B`,
      unit: '',
      measure: (runs: Runs) => share(runs[idOf(point)], 'large'),
      expect: closedForm((large * mtu) / (large * mtu + n * small)),
    };
  }),
} satisfies Claim;
