import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { DEVICE, DEVICES, type Device } from '../../perf/devices.ts';

export default {
  title: 'Other devices: B_App and M_App',
  source: 'PeRF 5.2.5, fig. 15(b): M_App up to 5 times bare',
  note: "ConnectX-6 over InfiniBand is drawn with the model's only ConnectX-6. Here M has 7 times (ConnectX-5) and 4 times as much under perf.",
  x: DEVICE,
  mix: (x) => mix(DEVICES[x], ['B:size=1MiB', 'M:size=16'], { duration: '20ms', warmup: '2ms' }),
  panels: [rate('M'), bandwidth('B')],
} satisfies Figure<Device>;
