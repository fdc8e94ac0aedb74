import { gbps, mmps } from '../../../mix/metrics.ts';
import { LARGE_BYTES } from '../../../policies/perf/classifier.ts';
import { perfOptions } from '../../../policies/perf/options.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range, ratio } from '../../engine/expect.ts';

const OPTIONS = perfOptions.parse({});
const PARAMETERS = {
  'mean size from which it is a B_App, bytes': [1024, LARGE_BYTES],
  'time between two looks at the queues, ms': [5, OPTIONS.samplePeriodNs / 1e6],
  'window, ms': [1000, OPTIONS.windowNs / 1e6],
  Th_M_App: [5, OPTIONS.thMApp],
  'SUB_MSG_SIZE, bytes': [16384, OPTIONS.subMsgSizeBytes],
  '0_WAIT_UNIT, bytes': [1024, OPTIONS.zeroWaitUnitBytes],
  QNum_allow: [1, OPTIONS.qNumAllow],
  'QNum_capa, of a ConnectX-6': [9, OPTIONS.qNumCapa],
} as const;

/** Messages of M for each `bytes` of B. */
const opportunities = (runs: Runs, word: string, bytes: number) =>
  mmps(runs[word], 'M') / ((gbps(runs[word], 'B') * 1000) / 8 / bytes);

export default {
  part: 4,
  title: "The paper's parameters are the defaults; 16 waits give small messages 16 times the opportunities",
  source:
    'PeRF 3.3, 3.5.1, 4.1, 4.2, appendix A (perf-3.3-params-classifier, perf-4.1-params-lmse, perf-4.2-params-mqse)',
  note: 'An opportunity is a turn of the queue pair: a packet, bare, or the sub-message between two batches of waits.',
  mixes: {
    bare: mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
    paper: mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy: 'perf:paper' }),
  },
  checks: [
    ...Object.entries(PARAMETERS).map(([what, [paper, ours]]) => ({
      what,
      unit: '',
      measure: () => ours,
      expect: range(paper, paper),
    })),
    {
      what: 'messages of M for each turn of B, bare',
      unit: 'x',
      measure: (runs: Runs) => opportunities(runs, 'bare', 4096),
      expect: ratio(1),
    },
    {
      what: 'messages of M for each turn of B, 0_WAIT_NUM 16',
      unit: 'x',
      measure: (runs: Runs) => opportunities(runs, 'paper', 16384),
      expect: ratio(16),
    },
  ],
} satisfies Claim;
