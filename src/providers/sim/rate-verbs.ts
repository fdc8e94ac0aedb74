/** Rate limits of simulated devices' queue pairs. */

import type { Simulation } from '../../sim/simulation.ts';
import type { Qp } from '../../sim/transport/qp.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidStateError, NoResourcesError, UnsupportedError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import { stateName } from '../../verbs/qp-state.ts';
import { requireInteger, requireObject } from './arguments.ts';
import type { Objects } from './objects.ts';
import type { TimePump } from './time-pump.ts';

const MAX_BYTES = 2 ** 31 - 1;

/** The highest rate limit of a link in units of 1000 bit/s, which has 32 bits. */
export function maxKbps(linkGbps: number): number {
  return Math.min(Math.floor(linkGbps * 1e6), 2 ** 32 - 1);
}

/** Checks a rate in units of 1000 bit/s. @throws InvalidArgumentError when it exceeds the link's rate */
export function requireRate(verb: string, kbps: unknown, sim: Simulation): number {
  return requireInteger(verb, 'rateLimitKbps', kbps, 0, maxKbps(sim.world.params.linkGbps));
}

/**
 * Checks that the queue pair can get a limiter. @throws UnsupportedError when the device has none @throws
 * NoResourcesError when all are in use
 */
export function requireLimiter(verb: string, qp: Qp, kbps: number, sim: Simulation): void {
  if (kbps === 0 || qp.limiter !== null) return;
  const count = sim.world.params.rateLimiters;
  if (count === 0) {
    throw new UnsupportedError(`${verb}: the device has no rate limiters`, { verb, errno: C.EOPNOTSUPP });
  }
  if (!sim.world.hosts[qp.host].limiters.hasFree) {
    throw new NoResourcesError(`${verb}: all ${count} rate limiters of the device are in use`, {
      verb,
      errno: C.ENOMEM,
    });
  }
}

export function rateVerbs(pump: TimePump, objects: Objects): Pick<Provider, 'modifyQpRateLimit'> {
  const verb = 'modifyQpRateLimit';
  return {
    modifyQpRateLimit(handle, limit) {
      const { qp } = objects.qps.require(handle, verb);
      requireObject(verb, 'limit', limit);
      const { maxBurstBytes = 0, typicalPktBytes = 0 } = limit;
      const kbps = requireRate(verb, limit.rateLimitKbps, pump.sim);
      requireInteger(verb, 'maxBurstBytes', maxBurstBytes, 0, MAX_BYTES);
      requireInteger(verb, 'typicalPktBytes', typicalPktBytes, 0, 0xffff);
      if (qp.state !== C.IBV_QPS_RTS) {
        throw new InvalidStateError(
          `${verb}: the queue pair must be in RTS, but is in ${stateName(qp.state)}`,
          {
            verb,
            errno: C.EINVAL,
          },
        );
      }
      requireLimiter(verb, qp, kbps, pump.sim);
      pump.sim.setRate(qp, kbps, maxBurstBytes);
      pump.start();
    },
  };
}
