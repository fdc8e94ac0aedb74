/** The order of tenants, which also counts what they send towards the rates of a daemon and the limits of agents. */

import { INBOUND, LOOPBACK } from '../link/link-scheduler.ts';
import type { DaemonRates } from './daemon-rates.ts';
import type { Costs } from './dominant-order.ts';
import type { FlowLimits } from './flow-limits.ts';
import { PacedOrder } from './paced-order.ts';

/** Makes the order of a direction of this kind. The other arguments are those of PacedOrder. */
export type MakeOrder = (kind: number, ...of: ConstructorParameters<typeof PacedOrder>) => PacedOrder;

/** The order of tenants that may have rates. */
export class RatedOrder extends PacedOrder {
  private readonly rates: DaemonRates;
  /** Null: agents set no limits, or the direction is the loopback, which does not use the link. */
  private readonly flows: FlowLimits | null;
  private readonly isInbound: boolean;

  /** The other arguments are those of PacedOrder. */
  constructor(
    { daemonRates, flowLimits }: { daemonRates: DaemonRates; flowLimits: FlowLimits | null },
    kind: number,
    ...rest: ConstructorParameters<typeof PacedOrder>
  ) {
    super(...rest);
    this.rates = daemonRates;
    this.flows = kind === LOOPBACK ? null : flowLimits;
    this.isInbound = kind === INBOUND;
  }

  paces(qp: number): boolean {
    return this.flightBytes(qp, 1) < Number.POSITIVE_INFINITY;
  }

  /** See FlowLimits.flightBytes. */
  flightBytes(qp: number, ns: number): number {
    return this.flows?.flightBytes(qp, this.isInbound, ns) ?? Number.POSITIVE_INFINITY;
  }

  protected override account(qp: number, wireBytes: number, costs: Costs): void {
    const { rates, flows } = this;
    if (rates.isLimiting) rates.take(qp, wireBytes);
    if (flows?.isLimiting) flows.take(qp, this.isInbound, wireBytes, this.requests);
    super.account(qp, wireBytes, costs);
  }
}
