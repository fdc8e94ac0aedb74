import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';
import { DEVICE, DEVICES, type Device } from '../../perf/devices.ts';

export default {
  title: 'Other devices: B_App_single beside B_App_multi of five queue pairs',
  source: 'PeRF 5.2.5, fig. 15(c) and (d): equal shares under PeRF',
  note: "ConnectX-6 over InfiniBand is drawn with the model's only ConnectX-6.",
  also: ['15d'],
  x: DEVICE,
  mix: (x) =>
    mix(DEVICES[x], ['B:name=single,size=1MiB', 'B:name=multi,size=1MiB,qps=5'], {
      duration: '20ms',
      warmup: '2ms',
    }),
  panels: [
    bandwidth('single', { title: 'Bandwidth of B_App_single' }),
    bandwidth('multi', { title: 'Bandwidth of B_App_multi' }),
  ],
} satisfies Figure<Device>;
