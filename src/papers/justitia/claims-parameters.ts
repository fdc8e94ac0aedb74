/** Justitia's parameters: defaults, tokens, chunks, and the cost of the reference flow. */

import { gbps, mmps, p99Us, wireBytes } from '../../mix/metrics.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { compared } from '../engine/compared.ts';
import { atLeast, closedForm, falls, range, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, d, m, ofBoth, RULES, rulesWith } from './declared.ts';

const WITH_D = [b('size=1MB,count=2'), m(), d('size=16,think=1us,count=2')];
const WITHOUT_D = [b('size=3MB'), m()];

const SPELLED = 'targetUs=2,refPeriodUs=20,refCount=10000,chunkBytes=5000,bulkChunkBytes=1000000';

const RUN = { profile: 'cx3-56g', duration: '10ms', warmup: '1ms' };

const defaults: Claim = {
  id: 'defaults',
  system: 'justitia',
  part: 8,
  title: 'The defaults are those of the paper',
  source: 'Justitia 4.3.1 to 4.3.4, 5.2 and 6.1',
  shows: ['justitia-4.3-params', 'justitia-6-targets', 'justitia-5.2-fig10-chunk'],
  note:
    'Options with the values of the paper change nothing: the runs are the same, packet by packet. Two latency ' +
    'applications count as one. The 10 bytes of a reference message are shown by reference-flow.',
  mixes: {
    ...compared(RULES, 'with D', WITH_D, RUN),
    ...compared(
      rulesWith(`${SPELLED},latencyCounts=one,granularity=application`),
      'with D spelled',
      WITH_D,
      RUN,
    ),
    ...compared(RULES, 'without D', WITHOUT_D, RUN),
    ...compared(rulesWith(`${SPELLED},chunks=fixed`), 'without D spelled', WITHOUT_D, RUN),
  },
  checks: ['with D', 'without D'].flatMap((name) =>
    ofBoth(
      { what: '1 if the run with options is the same', at: name, unit: '', expect: range(1, 1) },
      (runs, word) => Number(runs[`${name} ${word}`].traceHash === runs[`${name} spelled ${word}`].traceHash),
    ),
  ),
};

const EXAMPLE = { bytes: 1e6, ops: 5000, gbps: 48, mops: 30, tauUs: 167 };

const EXAMPLE_RUN = {
  profile: 'ideal',
  set: { linkGbps: 56 },
  duration: '22ms',
  warmup: '2ms',
} as const;

const tokenExample: Claim = {
  id: 'token-example',
  system: 'justitia',
  part: 8,
  title: 'A token of 1 MB and 5,000 messages every 167 us is 48 Gbps and 30 million messages/s',
  source: 'Justitia 4.3.4',
  shows: ['justitia-4.3.4-token-example'],
  note: 'On the ideal device, whose message rate has no other bound, without a latency application.',
  mixes: Object.assign(
    {},
    ...Object.entries({ b: [b()], m: [m()], 'b m': [b(), m()] }).map(([name, apps]) =>
      compared(rulesWith(`maxGbps=${EXAMPLE.gbps},tokenMessages=${EXAMPLE.ops}`), name, apps, EXAMPLE_RUN),
    ),
  ),
  checks: [
    ...ofBoth(
      { what: 'bandwidth of B alone', unit: 'Gbps', expect: closedForm(EXAMPLE.gbps, 0.03) },
      (runs, word) => gbps(runs[`b ${word}`], 'B'),
    ),
    ...ofBoth(
      { what: 'rate of M alone', unit: 'Mmps', expect: closedForm(EXAMPLE.mops, 0.03) },
      (runs, word) => mmps(runs[`m ${word}`], 'M'),
    ),
    ...ofBoth(
      {
        what: 'interval of tokens: 5,000 messages by the rate of M',
        unit: 'us',
        expect: closedForm(EXAMPLE.tauUs, 0.03),
      },
      (runs, word) => EXAMPLE.ops / mmps(runs[`m ${word}`], 'M'),
    ),
    ...ofBoth(
      { what: 'bandwidth of B alongside M', unit: 'Gbps', expect: closedForm(EXAMPLE.gbps / 2, 0.03) },
      (runs, word) => gbps(runs[`b m ${word}`], 'B'),
    ),
    ...ofBoth(
      { what: 'rate of M alongside B', unit: 'Mmps', expect: closedForm(EXAMPLE.mops / 2, 0.03) },
      (runs, word) => mmps(runs[`b m ${word}`], 'M'),
    ),
  ],
};

const CHUNKS = [500, 1000, 5000, 50_000, 1_000_000];

const BEST = 5000;

/** With this weight, R_min is 0.99 of MaxRate, so the chunk alone decides how much of it is reached. */
const HEAVY = b('size=10MB,weight=100');

const chunkSize: Claim = {
  id: 'chunk-size',
  system: 'justitia',
  part: 8,
  title:
    'Chunks of 5 KB reach the bandwidth of the device; smaller ones do not, and larger ones isolate less',
  source: 'Justitia 5.2, fig. 10, and appendix D, fig. 38; the numbers are our own',
  shows: ['justitia-5.2-fig10-chunk'],
  note: 'The target of 0.5 us cannot be met, so R_min is in force. In the model, one queue pair of ConnectX-3 sends a message in 114 ns at best.',
  mixes: {
    b: mix('cx3-56g', HEAVY, { duration: '10ms' }),
    ...Object.assign(
      {},
      ...CHUNKS.map((bytes) =>
        compared(rulesWith(`targetUs=0.5,chunkBytes=${bytes}`), `${bytes}`, [HEAVY, d()], {
          profile: 'cx3-56g',
          duration: '30ms',
          warmup: '10ms',
        }),
      ),
    ),
  },
  checks: [
    ...ofBoth(
      { what: 'bandwidth of B in chunks of 5 KB, relative to alone', unit: 'x', expect: atLeast(0.9) },
      (runs, word) => gbps(runs[`${BEST} ${word}`], 'B') / gbps(runs.b, 'B'),
    ),
    ...ofBoth(
      { what: 'bandwidth of B in chunks of 500 B, relative to 5 KB', unit: 'x', expect: falls(1.1) },
      (runs, word) => gbps(runs[`500 ${word}`], 'B') / gbps(runs[`${BEST} ${word}`], 'B'),
    ),
    ...ofBoth(
      { what: 'p99 latency of D alongside chunks of 1 MB, relative to 5 KB', unit: 'x', expect: rises() },
      (runs, word) => p99Us(runs[`1000000 ${word}`], 'D') / p99Us(runs[`${BEST} ${word}`], 'D'),
    ),
    ...CHUNKS.flatMap((bytes): Check[] => [
      {
        what: `bandwidth of B in chunks of ${bytes} B, relative to alone`,
        unit: 'x',
        measure: (runs) => gbps(runs[`${bytes} justitia`], 'B') / gbps(runs.b, 'B'),
        expect: reported('-'),
      },
      {
        what: `p99 latency of D alongside chunks of ${bytes} B`,
        unit: 'us',
        measure: (runs) => p99Us(runs[`${bytes} justitia`], 'D'),
        expect: reported('-'),
      },
    ]),
  ],
};

const REFERENCE_BYTES = 10;
/** A reference message on the wire, with headers and RETH, and its acknowledgement. */
const WIRE_BYTES = REFERENCE_BYTES + 82 + 16;
const ACK_BYTES = 86;
const WINDOW_NS = 90e6;
const LINK_GBPS = 10;

/** Reference messages that left host 0. Each host's messages are acknowledged by the other host. */
function referenceMessages(runs: Runs, word: string): number {
  const run = runs[`d ${word}`];
  const there = wireBytes(run, 'host0', 'host1');
  const back = wireBytes(run, 'host1', 'host0');
  return (WIRE_BYTES * there - ACK_BYTES * back) / (WIRE_BYTES ** 2 - ACK_BYTES ** 2);
}

const referenceFlow: Claim = {
  id: 'reference-flow',
  system: 'justitia',
  part: 8,
  title: 'A reference flow is 0.004 Gbps of payload, less than 0.1 % of 10 Gbps',
  source: 'Justitia appendix E.4: 10 bytes each 20 us',
  shows: ['justitia-E.4-overhead', 'justitia-4.3-params'],
  note:
    'Derived from the bytes on the wire, almost all of which are reference messages and their acknowledgements, because ' +
    'the latency application sends one message each millisecond (2 % of them). With headers, the flow is ten times as much. ' +
    'Updates are shown by incast.',
  mixes: compared(RULES, 'd', d('size=16,think=1ms'), {
    profile: 'cx4-40g',
    set: { linkGbps: LINK_GBPS },
    duration: '100ms',
    warmup: '10ms',
  }),
  checks: [
    ...ofBoth(
      { what: 'payload of the reference flow', unit: 'Gbps', expect: closedForm(0.004, 0.04) },
      (runs, word) => (referenceMessages(runs, word) * REFERENCE_BYTES * 8) / WINDOW_NS,
    ),
    ...ofBoth(
      {
        what: 'share of the wire of 10 Gbps, headers included',
        unit: '',
        expect: reported('0.1 % without headers'),
      },
      (runs, word) => (referenceMessages(runs, word) * WIRE_BYTES * 8) / WINDOW_NS / LINK_GBPS,
    ),
  ],
};

export const CLAIMS: readonly Claim[] = [defaults, tokenExample, chunkSize, referenceFlow];
