/** The state of justitia for `inspect` and `gauges`, by context and by device. */
import { TRAFFIC_NAMES } from '../../verbs/labels.ts';
import type { PolicyGauge, PolicyState } from '../../verbs/provider.ts';
import { RATE_GBPS, TOKEN_BYTES, UNPACED_GBPS } from './columns.ts';
import { ratesText, short, stateOf, tailText } from './device-state.ts';
import { type Kinds, LATENCY, UNKNOWN } from './kinds.ts';
import type { JustitiaOptions } from './options.ts';
import type { Member } from './pacer.ts';

const KINDS = ['idle', 'D', 'M', 'B'] as const;

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
  const state = stateOf(grants, targetUs * 1e3);
  return [
    {
      device: context.device,
      tenant: context.tenant,
      kind: KINDS[kind],
      because: declared ? `declared as ${TRAFFIC_NAMES[kind]}` : 'by what it sends',
      does: isPaced
        ? `${short(grants[RATE_GBPS])} Gbit/s on the wire, in tokens of ${grants[TOKEN_BYTES]} bytes`
        : 'left alone',
      why: isPaced
        ? ratesText(state) + tailText(state)
        : kind === LATENCY
          ? `latency applications are never held${tailText(state)}`
          : 'there is nothing to share',
    },
  ];
}

/** The gauges of a device; empty if it has no members. */
export function gaugesOf(
  members: readonly Member[],
  { targetUs }: JustitiaOptions,
): Omit<PolicyGauge, 'policy'>[] {
  if (members.length === 0) return [];
  const [{ context, columns }] = members;
  const state = stateOf(columns.grants, targetUs * 1e3);
  const gauge = (name: string, unit: string, value: number) => ({
    device: context.device,
    tenant: '',
    name,
    unit,
    value,
  });
  return [
    gauge('safeUtil', 'Gbit/s', state.safeUtilGbps),
    gauge('rMin', 'Gbit/s', state.rMinGbps),
    gauge('estimate', 'us', state.tailNs / 1e3),
    gauge('referenceShare', '% of the link', 100 * state.referenceShare),
  ];
}
