import type { MixResult } from '../../../mix/result.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range } from '../../engine/expect.ts';

const D = 'D:name=other,size=16,think=1us';
/** Runs are shorter than the paper's window of a second. */
const POLICY = 'perf:windowNs=1e6,samplePeriodNs=1e5';
const LONG = { duration: '6ms', warmup: '2ms', policy: POLICY };

/** An application and what it is to be taken for. */
const APPS = {
  'mean of 1 KiB': ['B:name=it,size=1024', 'B_single'],
  'mean below 1 KiB, 64 outstanding': ['M:name=it,size=1023,depth=64', 'M_single'],
  'sizes of 512 B to 4 KiB': ['B:name=it,size=512-4096', 'B_single'],
  'more than 5 outstanding': ['M:name=it,size=16,batch=1,depth=6', 'M_single'],
  '5 outstanding': ['M:name=it,size=16,batch=1,depth=5', 'D_single'],
  'large, 4 queue pairs': ['B:name=it,size=64KiB,qps=4', 'B_multi'],
  'small, 4 queue pairs': ['M:name=it,size=16,qps=4', 'M_multi'],
} as const;
/** One tenant whose traffic changes after 2 ms. */
const CHANGING = ['B:name=it,size=1MiB,stop=2ms', 'M:name=then,tenant=it,size=16,start=2ms'];

/** What the tenant is taken for in the end, of how many contexts: 1 when all are as said. */
function takenFor({ policyStates = [] }: MixResult, kind: string): number {
  const its = policyStates.filter(({ tenant }) => tenant === 'it');
  return its.length === 0 ? 0 : its.filter((state) => state.kind === kind).length / its.length;
}

export default {
  part: 7,
  title: 'What is taken for B, M and D, of one queue pair and of several; it follows when traffic changes',
  source: 'PeRF 3.3 (perf-3.3-params-classifier); that a decision is changed is not in its code',
  note: '1: the context is taken for what is said.',
  mixes: {
    ...Object.fromEntries(
      Object.entries(APPS).map(([name, [app]]) => [name, mix('cx6-100g', [app, D], LONG)]),
    ),
    changing: mix('cx6-100g', [...CHANGING, D], { ...LONG, warmup: '1ms' }),
  },
  checks: [
    ...Object.entries(APPS).map(([name, [, kind]]) => ({
      what: `${name}: ${kind}`,
      unit: '',
      measure: (runs: Runs) => takenFor(runs[name], kind),
      expect: range(1, 1),
    })),
    {
      what: 'large messages until 2 ms, small ones then: M_single in the end',
      unit: '',
      measure: (runs: Runs) => takenFor(runs.changing, 'M_single'),
      expect: range(1, 1),
    },
  ],
} satisfies Claim;
