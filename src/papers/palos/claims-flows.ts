/** Palos shares the link among small and large flows of a group by bytes. */

import { gbps, share } from '../../mix/metrics.ts';
import type { Claim } from '../engine/claim.ts';
import { atLeast, closedForm, reported } from '../engine/expect.ts';
import { byteShares, cutTimeShares, packetShares, type SmallAndLarge, timeShares } from './closed-form.ts';
import {
  both,
  inEach,
  inForms,
  inGroup,
  LARGE_BYTES,
  large,
  PACKETS,
  SIZES,
  share1or3,
  small,
} from './forms.ts';

const ONE = inGroup('one');

const flowsOf = (bytes: number): SmallAndLarge => ({
  small: { count: 16, bytes },
  large: { count: 1, bytes: LARGE_BYTES },
});

const fourDigits = (values: number[]) => values.map((value) => value.toFixed(4)).join(', ');
const CUT = SIZES.map((bytes) => cutTimeShares(flowsOf(bytes), PACKETS.mtuBytes, PACKETS));

const BY_PAYLOAD =
  'first measured by completions, which come in batches of 32 messages, 2 % of what flows of 2048 B send in the run; now by payload';

const flowShares: Claim = {
  id: 'flow-shares',
  system: 'palos',
  part: 1,
  title: '16 small flows and a large flow share the link by bytes, whatever the size of the small messages',
  source: 'Palos V-A, fig. 7: steady at about 16/17 and 1/17; the values relative to alone are closed forms',
  shows: ['palos-V.A-fig7-palos', 'palos-V-summary-isolation'],
  note:
    'At MTU 1500. Relative to alone, in the same form: the parts of the time of the link, in whole packets. With slices cut ' +
    `at the byte, as in the paper, they would be ${fourDigits(CUT.map((one) => one.small))} for small flows of ` +
    `${SIZES.join(', ')} B, and ${fourDigits(CUT.map((one) => one.large))} for the large flow.`,
  mixes: {
    ...inForms('large', large(ONE)),
    ...Object.assign(
      {},
      ...SIZES.flatMap((bytes) => [
        inForms(`small ${bytes}`, small(bytes, ONE)),
        inForms(`both ${bytes}`, [large(ONE), small(bytes, ONE)]),
      ]),
    ),
  },
  checks: SIZES.flatMap((bytes) => {
    const at = `${bytes} B`;
    const [bytesOf, packetsOf, timeOf] = [
      byteShares(flowsOf(bytes)),
      packetShares(flowsOf(bytes), PACKETS),
      timeShares(flowsOf(bytes), PACKETS),
    ];
    return [
      ...inEach(
        { what: 'share of the small flows in the payload', at, unit: '' },
        both(closedForm(bytesOf.small, 0.01)),
        (named) => share(named(`both ${bytes}`), 'small'),
      ),
      ...inEach(
        { what: 'share of the large flow in the payload', at, unit: '' },
        { ...both(closedForm(bytesOf.large, 0.03)), bare: closedForm(packetsOf.large, 0.05) },
        (named) => share(named(`both ${bytes}`), 'large'),
      ),
      ...inEach(
        { what: 'small flows, relative to alone', at, unit: 'x' },
        both(closedForm(timeOf.small, 0.01)),
        (named) => gbps(named(`both ${bytes}`), 'small') / gbps(named(`small ${bytes}`), 'small'),
      ).map((check) => ({ ...check, deviation: BY_PAYLOAD })),
      ...inEach(
        { what: 'large flow, relative to alone', at, unit: 'x' },
        both(closedForm(timeOf.large, 0.03)),
        (named) => gbps(named(`both ${bytes}`), 'large') / gbps(named('large'), 'large'),
      ),
    ];
  }),
};

const THROUGHPUT = [
  { name: '1 large flow', apps: large(ONE), app: 'large', least: 0.97 },
  { name: '16 large flows', apps: large(ONE, 16), app: 'large', least: 0.97 },
  { name: '16 small flows of 256 B', apps: small(256, ONE), app: 'small', least: 0.9 },
  { name: '16 small flows of 64 B', apps: small(64, ONE), app: 'small', least: undefined },
];

const throughput: Claim = {
  id: 'throughput',
  system: 'palos',
  part: 8,
  title: 'Palos leaves flows nearly the throughput of the bare device',
  source: 'Our own bounds',
  shows: [],
  note: 'With the CPU costs of a policy, on the cores of the applications.',
  mixes: Object.assign({}, ...THROUGHPUT.map(({ name, apps }) => inForms(name, apps))),
  checks: THROUGHPUT.flatMap(({ name, app, least }) =>
    inEach(
      { what: `throughput of ${name}, relative to bare`, unit: 'x' },
      both(least === undefined ? reported('limited by CPUs') : atLeast(least)),
      (named, runs) => gbps(named(name), app) / gbps(runs[`${name} bare`], app),
    ),
  ),
};

const OPERATIONS = [
  { name: 'SEND', of: 'op=send' },
  { name: 'UC', of: 'transport=uc' },
  { name: 'UD', of: 'op=send,transport=ud' },
];

const BYTES = 1024;

const operations: Claim = {
  id: 'operations',
  system: 'palos',
  part: 1,
  title: '16 small flows and a large flow share the link by bytes, whatever their operation and transport',
  source: 'Our own expectation: Palos schedules by bytes',
  shows: [],
  note: 'Alongside UD, the large flow consists of WRITEs, because datagrams are not longer than the MTU.',
  mixes: Object.assign(
    {},
    ...OPERATIONS.map(({ name, of }) =>
      inForms(name, [large(name === 'UD' ? ONE : `${ONE},${of}`), small(BYTES, `${ONE},${of}`)]),
    ),
  ),
  checks: OPERATIONS.flatMap(({ name }) => {
    const { small: ofSmall, large: ofLarge } = byteShares(flowsOf(BYTES));
    return [
      ...inEach(
        { what: 'share of the small flows in the payload', at: name, unit: '' },
        both(closedForm(ofSmall, 0.01)),
        (named) => share(named(name), 'small'),
      ),
      ...inEach(
        { what: 'share of the large flow in the payload', at: name, unit: '' },
        {
          ...both(closedForm(ofLarge, 0.03)),
          bare: closedForm(packetShares(flowsOf(BYTES), PACKETS).large, 0.05),
        },
        (named) => share(named(name), 'large'),
      ),
    ];
  }),
};

const READ = 'op=read,size=2MB,depth=2';

const reads: Claim = {
  id: 'reads',
  system: 'palos',
  part: 1,
  title:
    'READs share the link by weight, and their responses are scheduled under the weight of the responder',
  source: 'Our own expectation; the paper does not mention READs',
  shows: [],
  note: 'READs from host 0 and WRITEs of host 1 load the same link. In software, the responder does not schedule READs.',
  mixes: {
    ...inForms(
      'reads',
      [1, 3].map((weight) => `B:name=r${weight},${READ},${inGroup('a')},qpWeight=${weight}`),
    ),
    ...inForms('both', [
      `B:name=read,${READ},${inGroup('a', 1)}`,
      `B:name=write,size=2MB,host=1,to=0,${inGroup('b', 3)}`,
    ]),
  },
  checks: [
    ...inEach(
      { what: 'share of the READs of weight 3 alongside READs of weight 1', unit: '' },
      { ...share1or3(3 / 4), bare: closedForm(1 / 2, 0.05) },
      (named) => share(named('reads'), 'r3'),
    ),
    ...inEach(
      {
        what: "share of READs in a group of weight 1 alongside the responder's WRITEs in one of weight 3",
        unit: '',
      },
      { hardware: closedForm(1 / 4, 0.01), software: reported(1 / 4), bare: reported(1 / 2) },
      (named) => share(named('both'), 'read'),
    ),
  ],
};

export const CLAIMS: readonly Claim[] = [flowShares, operations, reads, throughput];
