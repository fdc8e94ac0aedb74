import { type WindowRules, windowsRuler } from '../link/windows.ts';
import { type PalosOptions, palosOptions } from './options.ts';

/** The ruler of palos: the part of the window of each member. */
export const windows = windowsRuler(
  'windows',
  palosOptions.transform(({ sums }) => ({ sums })),
);

/** The options of palos as rules. */
export const windowRulesOf = ({ sums }: PalosOptions): WindowRules => ({ sums });
