/** Figures and tables of the papers that are not drawn, with the reasons. */
import type { NotShown } from './paper.ts';

const never = (title: string, reason: string, ...ids: string[]): NotShown => ({
  ids,
  title,
  why: 'never',
  reason,
});
const numbered = (paper: string, numbers: string) => numbers.split(' ').map((number) => `${paper}-${number}`);

const DRAWING = 'it is a drawing without measurements';
const CPU = 'it shows CPU and memory of a C program; a model takes CPU costs as given';
const SIZES =
  'the rates exceed the link with the given sizes: 320 Kops of 0.5 MB are 1.3 Tbit/s, on a 40 Gbit/s link';

export const FIGURES_NOT_SHOWN: readonly NotShown[] = [
  never('Architecture and mechanism of PeRF', DRAWING, ...numbered('perf', '4 5a 5b 6a 6b')),
  never(
    'RNICs of the testbed',
    'these are parameters of the profiles: see docs/simulation.md',
    'perf-table-1',
    'justitia-table-1',
  ),
  never('CPU and memory of PeRF', CPU, 'perf-table-2'),
  never('Design and architecture of Justitia', DRAWING, ...numbered('justitia', '1 2 7 8 9')),
  never('The racks of the experiment', DRAWING, 'justitia-25a'),
  never('Justitia against LITE', 'LITE is not among the implemented systems', 'justitia-35', 'justitia-36'),
  never('Architecture of RNICs and of Palos', DRAWING, ...numbered('palos', '1 4 5 6')),
  never('RDMA, the resource model and the architecture of DRUM', DRAWING, ...numbered('drum', '1 3 7')),
  never('Mixtures of a key-value store', SIZES, ...numbered('drum', '15a 15b 15c 15d')),
  never(
    'Redis with values of up to 512 MB',
    'a value of mean size takes 51 ms at 40 Gbit/s, but the paper reports latencies of 7 to 22 us',
    ...numbered('drum', '16a 16b 16c 16d'),
  ),
  never('CPU of DRUM', CPU, ...numbered('drum', '17a 17b 17c')),
  never('Algorithms and architecture of Tassel', DRAWING, ...numbered('tassel', '1 2 3 4 5 6 9')),
];
