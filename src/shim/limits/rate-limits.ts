/** Rates of queue pairs that a policy enforces (Policy.limitsRates), so that they do not reach the device. */
import {
  EINVAL,
  IBV_QP_RATE_LIMIT,
  IBV_QP_STATE,
  IBV_QPS_RESET,
  IBV_QPS_RTS,
} from '../../verbs/constants.ts';
import { InvalidArgumentError, InvalidStateError, shown } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import { checkModify, stateName } from '../../verbs/qp-state.ts';
import type { QpAttr, QpRateLimit } from '../../verbs/types.ts';
import type { Feeder } from '../feeder.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Tables } from '../tables.ts';

const MAX_KBPS = 0xffffffff;

/** Checks a rate in units of 1000 bit/s. @throws InvalidArgumentError if it is none, or exceeds the link's */
function requireRate(verb: string, { context }: QpLedger, kbps: unknown): number {
  const linkGbps = context.nic?.linkGbps ?? 0;
  const most = linkGbps > 0 ? Math.floor(linkGbps * 1e6) : MAX_KBPS;
  if (typeof kbps === 'number' && Number.isInteger(kbps) && kbps >= 0 && kbps <= most) return kbps;
  throw new InvalidArgumentError(
    `${verb}: rateLimitKbps must be a whole number from 0 (no limit) to ${most}, the rate of the link, got ${shown(kbps)}`,
    { verb },
  );
}

/** The verbs that set rates. */
export class RateLimits {
  private readonly isOn: boolean;
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly feeder: Feeder;

  /** @param isOn whether the policy enforces rates; if not, they go to the device */
  constructor(isOn: boolean, next: Provider, tables: Tables, feeder: Feeder) {
    this.isOn = isOn;
    this.next = next;
    this.tables = tables;
    this.feeder = feeder;
  }

  /** Calls `modifyQp` of the device, without the rate. @throws as a device that has limiters */
  modifyQp(handle: number, attr: QpAttr, mask: number): void {
    const qp = this.tables.qp(handle);
    if (!this.isOn || qp === undefined || (mask & IBV_QP_RATE_LIMIT) === 0) {
      this.next.modifyQp(handle, attr, mask);
      const resets = (mask & IBV_QP_STATE) !== 0 && attr.qpState === IBV_QPS_RESET;
      if (resets && qp !== undefined && qp.rateLimitKbps > 0) this.set(qp, 0);
      return;
    }
    checkModify(qp.type, qp.state, attr, mask);
    const kbps = requireRate('modifyQp', qp, attr.rateLimitKbps);
    this.next.modifyQp(handle, attr, mask & ~IBV_QP_RATE_LIMIT);
    this.set(qp, kbps);
  }

  /**
   * ibv_modify_qp_rate_limit(3). Bursts are the policy's own, so the attributes for them have no effect.
   * @throws InvalidArgumentError, InvalidStateError as a device that has limiters does
   */
  modifyQpRateLimit(handle: number, limit: QpRateLimit): void {
    const verb = 'modifyQpRateLimit';
    const qp = this.tables.qp(handle);
    if (!this.isOn || qp === undefined) {
      this.next.modifyQpRateLimit(handle, limit);
      return;
    }
    if (typeof limit !== 'object' || limit === null)
      throw new InvalidArgumentError(`${verb}: limit must be an object, got ${shown(limit)}`, { verb });
    const kbps = requireRate(verb, qp, limit.rateLimitKbps);
    if (qp.state !== IBV_QPS_RTS) {
      throw new InvalidStateError(
        `${verb}: the queue pair must be in RTS, but is in ${stateName(qp.state)}`,
        {
          verb,
          errno: EINVAL,
        },
      );
    }
    this.set(qp, kbps);
    this.feeder.drain();
  }

  private set(qp: QpLedger, kbps: number): void {
    qp.rateLimitKbps = kbps;
    this.feeder.deferChange(qp, 'rate');
  }

  /** What `queryQp` reports. */
  attrOf({ rateLimitKbps }: QpLedger): Pick<QpAttr, 'rateLimitKbps'> {
    return this.isOn ? { rateLimitKbps } : {};
  }
}
