/** What fair is to do on other devices, relative to what each application gets alone. */

import { avgUs, gbps, mmps } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import { PROFILES } from '../../sim/profile/profiles.ts';
import type { Check, Claim } from '../engine/claim.ts';
import { atLeast, atMost } from '../engine/expect.ts';
import { wirePerByte } from '../palos/closed-form.ts';
import { dominantRates, type Tenant } from './closed-form.ts';
import { alongside, checksOf, D, GOAL } from './lines.ts';

const DEVICES = ['cx3-56g', 'cx4-40g', 'cx5-40g', 'cx5-100g'] as const;
type Device = (typeof DEVICES)[number];

/** Messages of B, and those of M and D. */
const LARGE_BYTES = 2 ** 20;
const SMALL_BYTES = 16;
/** Pieces have this size in whole packets, but at least one packet. */
const PIECE_BYTES = 3000;

const wireBytes = (device: Device, bytes: number) => bytes * wirePerByte(bytes, PROFILES[device]);
const linkNs = (device: Device, bytes: number) => (8 * wireBytes(device, bytes)) / PROFILES[device].linkGbps;

function pieceBytes(device: Device): number {
  const { mtuBytes } = PROFILES[device];
  return Math.max(1, Math.floor(PIECE_BYTES / mtuBytes)) * mtuBytes;
}

/** The largest payload rate of B next to the traffic of all other applications of the run. */
function leftGbps(device: Device, { apps }: MixResult): number {
  const others = apps.filter(({ kind }) => kind !== 'B');
  const taken = others.reduce(
    (sum, { messageRateMmps }) => sum + (messageRateMmps * 8 * wireBytes(device, SMALL_BYTES)) / 1e3,
    0,
  );
  return (PROFILES[device].linkGbps - taken) / wirePerByte(LARGE_BYTES, PROFILES[device]);
}

/** A tenant whose requests have this size. Rates are in requests per nanosecond. */
function tenant(device: Device, bytes: number, mostRate?: number): Tenant {
  const { wqeGapNs, processingUnits } = PROFILES[device];
  return { parts: [linkNs(device, bytes), wqeGapNs / processingUnits], mostRate };
}

/** The rate due to M alongside B and D, in millions per second. `alone`: M and D without the others. */
function dueMmps(device: Device, alone: { readonly M: MixResult; readonly D: MixResult }): number {
  const [, rate] = dominantRates([
    tenant(device, pieceBytes(device)),
    tenant(device, SMALL_BYTES, mmps(alone.M, 'M') / 1e3),
    tenant(device, SMALL_BYTES, mmps(alone.D, 'D') / 1e3),
  ]);
  return rate * 1e3;
}

function linesOf(device: Device): Check[] {
  const pieceUs = linkNs(device, pieceBytes(device)) / 1e3;
  return [
    ...checksOf({
      name: device,
      what: `${device}: bandwidth of B, relative to what M and D leave of the link`,
      unit: 'x',
      expect: atLeast(0.95),
      alone: 'B',
      measure: (run) => gbps(run, 'B') / leftGbps(device, run),
    }),
    ...checksOf({
      name: device,
      what: `${device}: rate of M, relative to its rate alone, or to its share if that is less`,
      unit: 'x',
      expect: atLeast(0.95),
      alone: 'M',
      measure: (run, runs) =>
        mmps(run, 'M') / dueMmps(device, { M: runs[`${device} alone M`], D: runs[`${device} alone D`] }),
    }),
    ...checksOf({
      name: device,
      what: `${device}: average latency of D, relative to 1.4 times alone plus the time of a piece`,
      unit: 'x',
      expect: atMost(1),
      alone: 'D',
      measure: (run, runs) => avgUs(run, 'D') / (1.4 * avgUs(runs[`${device} alone D`], 'D') + pieceUs),
    }),
  ];
}

const devices: Claim = {
  id: 'devices',
  system: 'fair',
  part: 2,
  title: 'B, M and D on other devices',
  source:
    `${GOAL}. Shares are max-min fair in dominant resources: a message of M takes 114 bytes of the link and a step of ` +
    'one of the processing units, and its cost is the larger of the two parts. The cost of all messages of M grows like ' +
    'that of B until M has its rate alone',
  shows: [],
  note:
    'A piece is one packet of 4096 bytes, which takes the link .84 us at 40 Gbps, .60 us at 56 Gbps, and .34 us at ' +
    '100 Gbps. On all of these devices, M alone takes less than its share, so its rate alone is due to it.',
  mixes: Object.assign({}, ...DEVICES.map((profile) => alongside(profile, ['B', 'M', D], { profile }))),
  checks: DEVICES.flatMap(linesOf),
};

export const CLAIMS: readonly Claim[] = [devices];
