/** PeRF's congested network: three hosts in each rack and one trunk. Each B_App sends to its counterpart. */
export const RACKS = Object.freeze({
  hosts: 6,
  topology: 'dumbbell',
  set: Object.freeze({ congestionControl: 'dcqcn' }),
  duration: '100ms',
  warmup: '50ms',
} as const);
export const RACKS_D = 'D:size=16,think=5us,host=0,to=3';
export const RACKS_B = (count: 1 | 3) =>
  count === 1 ? 'B:size=1MiB,count=1,host=0,to=3' : 'B:size=1MiB,count=3,host=0-2,to=3-5';
