/** Palos serves flows that declare latency first. */

import { avgUs, gbps } from '../../mix/metrics.ts';
import type { Claim } from '../engine/claim.ts';
import { atLeast, atMost, below, equal, range, reported } from '../engine/expect.ts';
import { both, flows, inEach, inForms, inGroup, LINK_BYTES_PER_US, large, PACKETS } from './forms.ts';

const ONE = inGroup('one');
const LABEL = `${ONE},kind=latency`;
/** The pause prevents the flow from synchronising with the rounds of the large flows. */
const latency = (bytes: number, labels: string) => `D:name=small,size=${bytes},think=1us,${labels}`;
const RUN = { duration: '20ms' };
const COUNTS = [1, 2, 4, 8, 16];
const PAPER = 1.79;

const latencyFlow: Claim = {
  id: 'latency-flow',
  system: 'palos',
  part: 2,
  title: 'A small flow that declares latency hardly waits for large flows in its group',
  source: 'Palos V-A, fig. 8: 1.79 times alone alongside 16 large flows; the throughput is our own bound',
  shows: [],
  note: 'At MTU 1500, with 64 B as in the caption. Alone: on the bare device.',
  mixes: {
    alone: flows(latency(64, LABEL), RUN),
    ...Object.assign(
      {},
      ...COUNTS.flatMap((count) => [
        inForms(`labelled ${count}`, [large(ONE, count), latency(64, LABEL)], RUN),
      ]),
    ),
    ...inForms('unlabelled', [large(ONE, 16), latency(64, ONE)], RUN),
  },
  checks: [
    ...COUNTS.flatMap((count) =>
      inEach(
        { what: 'latency alongside 1 to 16 large flows, relative to alone', at: `${count} large`, unit: 'x' },
        both(atMost(PAPER)),
        (named, runs) => avgUs(named(`labelled ${count}`), 'small') / avgUs(runs.alone, 'small'),
      ),
    ),
    ...inEach(
      { what: 'latency alongside 16 large flows, relative to alone', unit: 'x' },
      { ...both(reported(PAPER)), bare: range(4.4, 5) },
      (named, runs) => avgUs(named('labelled 16'), 'small') / avgUs(runs.alone, 'small'),
    ),
    ...COUNTS.flatMap((count) =>
      inEach(
        { what: 'throughput of the large flows, relative to bare', at: `${count} large`, unit: 'x' },
        both(atLeast(0.97)),
        (named, runs) =>
          gbps(named(`labelled ${count}`), 'large') / gbps(runs[`labelled ${count} bare`], 'large'),
      ),
    ),
    ...inEach(
      { what: 'latency alongside 16 large flows without the label, relative to alone', unit: 'x' },
      { ...both(reported('not stated')), bare: reported(5) },
      (named, runs) => avgUs(named('unlabelled'), 'small') / avgUs(runs.alone, 'small'),
    ),
  ],
};

const longMessages: Claim = {
  id: 'long-latency-messages',
  system: 'palos',
  part: 2,
  title: 'Messages longer than the limit are treated as normal, even if their flow declares latency',
  source: 'Palos IV-C: a limit on the size of messages; it is one MTU here',
  shows: [],
  mixes: Object.assign(
    {},
    ...[ONE, LABEL].map((labels) =>
      inForms(labels === ONE ? 'unlabelled' : 'labelled', [large(ONE, 16), latency(4096, labels)], RUN),
    ),
  ),
  checks: inEach(
    {
      what: 'latency of messages of 4096 B alongside 16 large flows, with the label relative to without',
      unit: 'x',
    },
    both(equal(0.03)),
    (named) => avgUs(named('labelled'), 'small') / avgUs(named('unlabelled'), 'small'),
  ),
};

const CAP = 0.05;
const HOG_BYTES = 1024;
const LARGE_WEIGHT = 100;
const HOG = `M:name=hog,size=${HOG_BYTES},qps=1,${LABEL}`;
const HEAVY = large(`${ONE},qpWeight=${LARGE_WEIGHT}`, 16);

const hog: Claim = {
  id: 'latency-hog',
  system: 'palos',
  part: 2,
  title: 'A flow that declares latency but sends all the time gets no more than the cap, 5 % of the link',
  source: 'Our own option; the paper has no cap, so such a flow would get the whole link',
  shows: [],
  note:
    'The large flows have 100 times the weight of the hog, so that its own share is negligible. The other latency flow ' +
    'declares latency, too.',
  mixes: {
    alone: flows(latency(64, LABEL), RUN),
    ...inForms('all', [HEAVY, HOG, latency(64, LABEL)], RUN),
  },
  checks: [
    ...inEach(
      { what: 'part of the link that the hog gets', unit: '' },
      { ...both(atMost(CAP + 1 / (16 * LARGE_WEIGHT + 1))), bare: reported('as much as it can send') },
      (named) => {
        const wirePerByte = (HOG_BYTES + PACKETS.headerBytes + PACKETS.rethBytes) / HOG_BYTES;
        return (gbps(named('all'), 'hog') * wirePerByte * 125) / LINK_BYTES_PER_US;
      },
    ),
    ...inEach(
      {
        what: 'latency of the other flow alongside the hog and 16 large flows, relative to alone',
        unit: 'x',
      },
      { ...both(below(2.5)), bare: reported('not stated') },
      (named, runs) => avgUs(named('all'), 'small') / avgUs(runs.alone, 'small'),
    ),
  ],
};

export const CLAIMS: readonly Claim[] = [latencyFlow, longMessages, hog];
