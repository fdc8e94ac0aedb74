/** What leaves host 1: answers to the READs of host 0, and WRITEs of its own: PeRF, fig. 19. */
import { mix } from '../engine/claim.ts';

const READ = 'op=read';
const WRITE = 'op=write,host=1,to=0';
/** B_App_single does the first, the other application the second. */
const WAYS = { 'B reads': [READ, WRITE], 'B writes': [WRITE, READ] } as const;
export type Way = keyof typeof WAYS;
export const WAY = { title: '', values: Object.keys(WAYS) as Way[] };

/** B_App_single and an application that does the other of READ and WRITE. */
export const bothWays = (other: string) => (way: Way) => {
  const [b, o] = WAYS[way];
  return mix('cx6-100g', [`B:size=1MiB,${b}`, `${other},${o}`], { duration: '10ms', warmup: '2ms' });
};
