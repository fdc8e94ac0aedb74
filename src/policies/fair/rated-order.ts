/** The order of tenants, which also counts what they send towards the rates that a daemon gives them. */
import type { DaemonRates } from './daemon-rates.ts';
import type { Costs } from './dominant-order.ts';
import { PacedOrder } from './paced-order.ts';

/** Makes the order of one direction. The arguments are those of PacedOrder. */
export type MakeOrder = (...of: ConstructorParameters<typeof PacedOrder>) => PacedOrder;

/** The order of tenants that may have rates. */
export class RatedOrder extends PacedOrder {
  private readonly rates: DaemonRates;

  /** The other arguments are those of PacedOrder. */
  constructor(rates: DaemonRates, ...rest: ConstructorParameters<typeof PacedOrder>) {
    super(...rest);
    this.rates = rates;
  }

  protected override account(qp: number, wireBytes: number, costs: Costs): number {
    if (this.rates.isLimiting) this.rates.take(qp, wireBytes);
    return super.account(qp, wireBytes, costs);
  }
}
