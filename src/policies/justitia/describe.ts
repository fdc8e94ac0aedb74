/** The state of justitia for `inspect` and `gauges`, by context and by device. */
import { TRAFFIC_NAMES } from '../../verbs/labels.ts';
import type { PolicyGauge, PolicyState } from '../../verbs/provider.ts';
import {
  IS_UNMET,
  R_MIN_GBPS,
  RATE_GBPS,
  SAFE_UTIL_GBPS,
  TAIL_NS,
  TOKEN_BYTES,
  UNPACED_GBPS,
} from './columns.ts';
import { type Kinds, LATENCY, THROUGHPUT, UNKNOWN } from './kinds.ts';
import type { JustitiaOptions } from './options.ts';
import type { Member } from './pacer.ts';

const KINDS = ['idle', 'D', 'M', 'B'] as const;
const short = (value: number) => `${Number(value.toPrecision(3))}`;

/** The kind of a context, and what it gets; empty if it has sent nothing. */
export function describe(
  { context, columns, qps }: Member,
  kinds: Kinds,
  { targetUs }: JustitiaOptions,
): Omit<PolicyState, 'policy'>[] {
  const kind = qps.reduce((most, qp) => Math.max(most, kinds.of(qp)), UNKNOWN);
  if (kind === UNKNOWN) return [];
  const { grants } = columns;
  const declared = qps.some(({ labels }) => labels.traffic === kind);
  const isPaced = kind !== LATENCY && grants[RATE_GBPS] < UNPACED_GBPS;
  const unit = kind === THROUGHPUT ? 'a batch' : 'a chunk';
  const unmet =
    grants[IS_UNMET] > 0
      ? `; the target of ${short(targetUs)} us cannot be met: the tail is ${short(grants[TAIL_NS] / 1e3)} us at the lowest rate`
      : '';
  return [
    {
      device: context.device,
      tenant: context.tenant,
      kind: KINDS[kind],
      because: declared ? `declared as ${TRAFFIC_NAMES[kind]}` : 'by what it sends',
      does: isPaced
        ? `${short(grants[RATE_GBPS])} Gbit/s on the wire, ${unit} of ${grants[TOKEN_BYTES]} bytes at a time`
        : 'left alone',
      why: isPaced
        ? `SafeUtil is ${short(grants[SAFE_UTIL_GBPS])} Gbit/s, and R_min is ${short(grants[R_MIN_GBPS])}${unmet}`
        : kind === LATENCY
          ? 'latency applications are never held'
          : 'there is nothing to share',
    },
  ];
}

/** The gauges of a device; empty if it has no members. */
export function gaugesOf(members: readonly Member[]): Omit<PolicyGauge, 'policy'>[] {
  if (members.length === 0) return [];
  const [{ context, columns }] = members;
  const { grants } = columns;
  const gauge = (name: string, unit: string, value: number) => ({
    device: context.device,
    tenant: '',
    name,
    unit,
    value,
  });
  return [
    gauge('safeUtil', 'Gbit/s', grants[SAFE_UTIL_GBPS]),
    gauge('rMin', 'Gbit/s', grants[R_MIN_GBPS]),
    gauge('estimate', 'us', grants[TAIL_NS] / 1e3),
  ];
}
