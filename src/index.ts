/**
 * isoverbs: RDMA verbs for Node.js. Open a device, allocate memory, connect queue pairs, post requests.
 * The flat verbs under their C names are in 'isoverbs/verbs', the simulated fabric in 'isoverbs/sim'.
 */
export type { Driver, DriverChoice, DriverName, WorkerDriverOptions } from './drivers/index.ts';
export * from './objects/index.ts';
export {
  defaultProvider,
  getDeviceList,
  type OpenDeviceOptions,
  openDevice,
  type PolicyChoice,
  type ProviderName,
} from './open.ts';
export { compose, type Interceptor } from './shim/compose.ts';
export type { Gate } from './shim/gate.ts';
export * from './verbs/index.ts';
