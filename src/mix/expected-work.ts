import { DEPTHS, SIZES } from './resolve.ts';
import type { AppSpec, MixSpec, OneOrRange } from './spec.ts';

const PACKET_BYTES = 4096;
const ROUND_TRIP_US = 2;
/** The most that a device sends in a microsecond: packets of long messages, and short messages. */
const PACKETS_PER_US = 12;
const MESSAGES_PER_US = 100;

/**
 * About how many packets a run has, for the order in which runs start: a long one that starts last keeps all threads but one
 * waiting. Neither the profile nor the policy counts.
 */
export function expectedPackets({ apps, durationNs }: MixSpec): number {
  const perUs = new Map<number, number>();
  for (const app of apps) {
    const [first, last] = typeof app.host === 'object' ? app.host : [app.host ?? 0, app.host ?? 0];
    for (let host = first; host <= last; host++)
      perUs.set(host, Math.max(perUs.get(host) ?? 0, packetsPerUs(app)));
  }
  return (durationNs / 1000) * [...perUs.values()].reduce((sum, rate) => sum + rate, 0);
}

function packetsPerUs({ kind, sizeBytes, qps = 1, count = 1, depth = DEPTHS[kind] }: AppSpec): number {
  const bytes = isRange(sizeBytes) ? sizeBytes : SIZES[kind];
  const packets = Math.ceil((typeof bytes === 'number' ? bytes : bytes[1]) / PACKET_BYTES);
  const most = packets > 1 ? PACKETS_PER_US : MESSAGES_PER_US;
  return Math.min(most, (packets * depth * qps * count) / ROUND_TRIP_US);
}

/** A distribution counts as if it were not given. */
function isRange(bytes: AppSpec['sizeBytes']): bytes is OneOrRange {
  return typeof bytes === 'number' || Array.isArray(bytes);
}
