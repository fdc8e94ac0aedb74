import { byBackground } from '../background.ts';
import { rate } from '../panels.ts';

export default byBackground(
  'b',
  'M:name=fg,size=16',
  rate('fg', { title: 'Message rate of a 16 B application' }),
);
