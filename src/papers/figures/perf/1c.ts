import { average } from '../../engine/panels.ts';
import { byBackground } from '../../perf/background.ts';

export default byBackground(
  'c',
  'D:name=fg,size=16,think=1us',
  average('fg', { title: 'Average latency of a 16 B application' }),
  'Here it is the egress FIFO that a small message waits for: full from 1 KiB on, and as long with every MTU.',
);
