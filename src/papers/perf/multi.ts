/** Applications of one queue pair beside one of several: PeRF, figs. 9 and 10. */
import { mix } from '../engine/claim.ts';

export const QPS = [2, 4, 8, 16];
const LONG = { duration: '10ms', warmup: '2ms' };

/** `single` beside B_App_multi, which is called multi. */
export const besideMultiB = (single: string) => (qps: number) =>
  mix('cx6-100g', [single, `B:name=multi,size=1MiB,qps=${qps}`], LONG);
export const QPS_OF_B = { title: 'queue pairs of B_App_multi', values: QPS };
