import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

const D = 'D:size=16,think=1us';
const B = 'B:size=1MB';
const REMOTE_READ = 'op=read,host=1,to=0';
/** Both leave host 0: what it WRITEs, and what host 1 READs from it. */
const WAYS = {
  'D reads, B writes': [`${D},${REMOTE_READ}`, B],
  'D writes, B reads': [D, `${B},${REMOTE_READ}`],
};
type Way = keyof typeof WAYS;

export default {
  title: 'READs of a remote host against local WRITEs',
  source: 'Justitia appendix C.3, fig. 34: (a), (b) D reads; (c), (d) B reads',
  x: { title: '', values: Object.keys(WAYS) as Way[] },
  mix: (way) => onInfiniBand(WAYS[way]),
  series: { 'D alone': (way) => onInfiniBand(WAYS[way].filter((app) => app.startsWith('D'))) },
  panels: [median<Way>('D'), p99<Way>('D'), bandwidth<Way>('B')],
} satisfies Figure<Way>;
