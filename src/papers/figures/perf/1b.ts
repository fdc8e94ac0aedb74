import { rate } from '../../engine/panels.ts';
import { byBackground } from '../../perf/background.ts';

export default byBackground(
  'b',
  'M:name=fg,size=16',
  rate('fg', { title: 'Message rate of a 16 B application' }),
);
