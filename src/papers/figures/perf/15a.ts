import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, latencies } from '../../engine/panels.ts';
import { DEVICE, DEVICES, type Device } from '../../perf/devices.ts';

export default {
  title: 'Other devices: B_App and D_App',
  source: 'PeRF 5.2.5, fig. 15(a): D_App up to 80 % less on average',
  note: "ConnectX-6 over InfiniBand is drawn with the model's only ConnectX-6. Here D has 43 % (ConnectX-5) and 63 % less under perf.",
  x: DEVICE,
  mix: (x) => mix(DEVICES[x], ['B:size=1MiB', 'D:size=16,think=1us'], { duration: '20ms', warmup: '2ms' }),
  panels: [...latencies<Device>('D'), bandwidth('B')],
} satisfies Figure<Device>;
