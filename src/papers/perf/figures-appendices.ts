/** PeRF's figures of the appendices. */

import { gbps } from '../../mix/metrics.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { bandwidth, latencies, rate } from '../engine/panels.ts';

// Two kinds of traffic leave host 1: responses to the READs of host 0, and its own WRITEs. PeRF, fig. 19.
const READ = 'op=read';
const WRITE = 'op=write,host=1,to=0';
/** The operations of B_App_single and of the other application. */
const WAYS = { 'B reads': [READ, WRITE], 'B writes': [WRITE, READ] } as const;
type Way = keyof typeof WAYS;
const WAY = { title: '', values: Object.keys(WAYS) as Way[] };

/** B_App_single and an application that uses the other operation. */
const bothWays = (other: string) => (way: Way) => {
  const [b, o] = WAYS[way];
  return mix('cx6-100g', [`B:size=1MiB,${b}`, `${other},${o}`], { duration: '10ms', warmup: '2ms' });
};

/** The policy limits pieces to half the egress FIFO. For longer pieces, it is configured with a larger FIFO. */
const KIB = 1024;

const SIZES = [1, 2, 4, 8, 16, 24, 32, 64].map((kib) => kib * KIB);

const HALF = 24 * KIB;

const cut = (bytes: number) => {
  const believes = bytes > HALF ? `,egressFifoBytes=${1 << 20}` : '';
  return { policy: `perf:subMsgSizeBytes=${bytes},zeroWaitUnitBytes=1024${believes}` };
};

const figure17a: Figure<number> = {
  number: '17a',
  title: 'B_App and M_App by SUB_MSG_SIZE',
  source: 'PeRF appendix A, fig. 17(a): it makes little difference beyond 8 KB',
  note: 'In the model, pieces longer than the egress FIFO (48 KiB) cost bandwidth, which the paper does not show.',
  x: { title: 'SUB_MSG_SIZE', values: SIZES, log: true, bytes: true },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  policies: [],
  series: { perf: cut },
  panels: [bandwidth('B'), rate('M')],
};

const figure17b: Figure<number> = {
  number: '17b',
  title: 'B_App and M_App by 0_WAIT_UNIT',
  source: 'PeRF appendix A, fig. 17(b): a larger one gives B_App more and M_App less',
  note: 'With fixed waits, because adaptive waits do not depend on the unit. 900 is PeRF_S.',
  x: { title: '0_WAIT_UNIT', values: [512, 900, 1024, 1536, 2048, 4096], bytes: true },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  policies: [],
  series: { 'perf:waits=fixed': (unit) => ({ policy: `perf:waits=fixed,zeroWaitUnitBytes=${unit}` }) },
  panels: [bandwidth('B'), rate('M')],
};

const apps = (depth: number) => [
  `B:name=short,size=1MiB,depth=${depth}`,
  `B:name=long,size=1GiB,depth=${depth}`,
];

const figure18: Figure<number> = {
  number: '18',
  title: 'B_Apps with messages of 1 MB and of 1 GB',
  source:
    'PeRF appendix B, fig. 18: (a) bare, shorter messages get less at a depth of one; (b) PeRF corrects this',
  note: 'The paper does not say how much less. In the model, the loss is the gap between a completion and the next packet.',
  x: { title: 'requests outstanding (SQ size)', values: [1, 2, 3, 4, 5] },
  mix: (depth) => mix('cx6-100g', apps(depth), { duration: '22ms', warmup: '2ms' }),
  panels: [
    bandwidth('short', { title: 'Bandwidth with 1 MB' }),
    bandwidth('long', { title: 'Bandwidth with 1 GB' }),
    { title: '1 MB relative to 1 GB', unit: 'x', measure: (run) => gbps(run, 'short') / gbps(run, 'long') },
  ],
};

const figure19a: Figure<Way> = {
  number: '19a',
  title: 'Inbound READ against outbound WRITE: B_App_single and D_App',
  source:
    'PeRF appendix C, fig. 19: the average latency of D_App falls by at least 65 %, B_App_single loses 5 %',
  note: 'In the model, perf lowers the latency of D by 73 % when B reads and by 56 % when B writes.',
  x: WAY,
  mix: bothWays('D:size=16,think=5us'),
  panels: [...latencies<Way>('D'), bandwidth('B')],
};

const figure19b: Figure<Way> = {
  number: '19b',
  title: 'Inbound READ against outbound WRITE: B_App_single and M_App',
  source: 'PeRF appendix C, fig. 19: M_App gets 3 to 50 times its bare rate',
  note: 'Where M reads, 16 READs per round trip are the limit, so a factor of 3 cannot be reached.',
  x: WAY,
  mix: bothWays('M:size=16'),
  panels: [rate('M'), bandwidth('B')],
};

const figure19c: Figure<Way> = {
  number: '19c',
  title: 'Inbound READ against outbound WRITE: B_App_single and B_App_multi with 15 queue pairs',
  source: 'PeRF appendix C, fig. 19(c) and (d)',
  note: 'Under perf:paper, READs of several queue pairs do not take turns: a turn ends when the READs are requested.',
  also: ['19d'],
  x: WAY,
  mix: bothWays('B:name=multi,size=1MiB,qps=15'),
  panels: [
    bandwidth('B', { title: 'Bandwidth of B_App_single' }),
    bandwidth('multi', { title: 'Bandwidth of B_App_multi' }),
  ],
};

export const FIGURES: readonly Figure[] = [figure17a, figure17b, figure18, figure19a, figure19b, figure19c];
