/** A 16 B application beside messages of any size, with each MTU: PeRF, fig. 1(b) and (c). */
import { mix } from '../engine/claim.ts';
import type { Figure, Panel } from '../engine/figure.ts';

const SIZES = [64, 256, 1024, 2048, 4096, 8192, 65536, 1 << 20, 1e9];
/** Batches, as far as the messages are short. */
const background = (size: number) => `${size <= 65536 ? 'M' : 'B'}:name=bg,size=${size}B`;

export function byBackground(part: string, foreground: string, panel: Panel<number>, note?: string) {
  return {
    title: `${panel.title} by the size of messages in the background`,
    source: `PeRF 2.2, fig. 1(${part})`,
    note,
    x: { title: 'messages in the background', values: SIZES, log: true, bytes: true },
    mix: (size: number) => mix('cx6-100g', [foreground, background(size)]),
    policies: [],
    series: Object.fromEntries(
      [1024, 2048, 4096].map((mtuBytes) => [`MTU ${mtuBytes}`, () => ({ set: { mtuBytes } })]),
    ),
    panels: [panel],
  } satisfies Figure<number>;
}
