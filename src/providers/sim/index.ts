/** `isoverbs/sim`: simulated devices, for programs without a NIC and for users' own tests. */
import type { Provider } from '../../verbs/provider.ts';
import { simulatedDevices } from './arguments.ts';
import { createFabric, type Fabric } from './fabric.ts';

export type { TopologyName, TopologyOptions } from '../../sim/network/topology.ts';
export type {
  AckRequests,
  CongestionControl,
  MrFlush,
  NicParams,
  PalosSums,
  RateLimiterName,
  RrOrder,
  SchedulerName,
} from '../../sim/profile/params.ts';
export { MINIMAL_NIC, PROFILES } from '../../sim/profile/profiles.ts';
export { createFabric, type Fabric, type FabricOptions, type OpenTenant } from './fabric.ts';
export type { Fault } from './faults.ts';

/** The provider of a fabric, as `Context` and `compose` take it. */
export function createSimProvider(fabric: Fabric): Provider {
  return fabric.provider;
}

let shared: Fabric | null = null;

/**
 * The fabric of programs that do not create one themselves: ISOVERBS_SIM_HOSTS hosts (default 2), seed
 * ISOVERBS_SEED (default 1). @throws ConfigError when one of the two variables is not an integer in its range
 */
export function defaultFabric(): Fabric {
  shared ??= createFabric(simulatedDevices());
  return shared;
}

/** The provider of defaultFabric(). */
export function defaultSimProvider(): Provider {
  return defaultFabric().provider;
}
