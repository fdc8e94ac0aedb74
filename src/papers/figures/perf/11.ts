import { fairness } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, bandwidth } from '../../engine/panels.ts';

/** Three hosts in each rack; each B_App sends to its counterpart over the one trunk. */
const apps = (count: number) => [
  `B:size=1MiB,count=${count},host=${count === 1 ? 0 : `0-${count - 1}`},to=${count === 1 ? 3 : `3-${count + 2}`}`,
  'D:size=16,think=5us,host=0,to=3',
];

export default {
  title: 'One to three B_Apps and D_App between two racks, with DCQCN',
  source: 'PeRF 5.2.4, fig. 11: bare, D_App waits about 10 us more',
  note: 'The paper starts the B_Apps 20 s apart and draws time; here each number of them is a run, whose first 50 ms DCQCN has to settle. Beside two, D waits longer under perf than bare, in the queue of the switch. The paper sees it rise, too.',
  x: { title: 'B_Apps', values: [1, 2, 3] },
  mix: (count) =>
    mix('cx6-100g', apps(count), {
      hosts: 6,
      topology: 'dumbbell',
      set: { congestionControl: 'dcqcn' },
      duration: '100ms',
      warmup: '50ms',
    }),
  panels: [
    average('D'),
    bandwidth('B', { title: 'Bandwidth of all B_Apps' }),
    { title: 'Fairness of the B_Apps (Jain)', unit: '', measure: (run) => fairness(run, 'B') },
  ],
} satisfies Figure<number>;
