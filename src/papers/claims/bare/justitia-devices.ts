import { gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm } from '../../engine/expect.ts';

const [MTU, HEADERS] = [4096, 82];
/** Rows of the table: profile, link in Gbps. */
const DEVICES = [
  ['cx3-56g', 56],
  ['cx5-100g', 100],
  ['cx4-40g', 40],
  ['cx4-40g', 10],
  ['cx3-56g', 10],
] as const;
const nameOf = ([profile, link]: (typeof DEVICES)[number]) => `${profile} at ${link} Gbps`;

export default {
  part: 2,
  title: 'The devices of Justitia: all of the link but headers',
  source: 'Justitia appendix A, table 1 (justitia-A-table1)',
  note: 'ConnectX-5 stands for ConnectX-4 at 100 Gbps. The sixth row is iWARP, which no profile is.',
  mixes: Object.fromEntries(
    DEVICES.map((device) => [
      nameOf(device),
      mix(device[0], 'B:size=1MiB', { set: { linkGbps: device[1] }, duration: '10ms' }),
    ]),
  ),
  checks: DEVICES.map((device) => ({
    what: `bandwidth of one application: ${nameOf(device)}`,
    unit: 'Gbps',
    measure: (runs: Runs) => gbps(runs[nameOf(device)], 'B'),
    expect: closedForm((device[1] * MTU) / (MTU + HEADERS)),
  })),
} satisfies Claim;
