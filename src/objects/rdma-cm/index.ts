export { connect } from './connect.ts';
export { CmConnection, type CmConnectionEvents } from './connection.ts';
export {
  type DatagramRequest,
  DatagramServer,
  type DatagramServerEvents,
  joinMulticast,
  resolveDatagram,
} from './datagram.ts';
export { DatagramEnd, DatagramPeer, type DatagramTarget, MulticastMember } from './datagram-end.ts';
export type { CmEnvironment } from './device-pool.ts';
export { CmError } from './errors.ts';
export { CmListener } from './listener.ts';
export {
  type CmAcceptOptions,
  type CmCallOptions,
  type CmConnectionOptions,
  type CmConnectOptions,
  type CmDatagramOptions,
  type CmDatagramServerOptions,
  type CmListenOptions,
  type CmMulticastOptions,
  type CmPrivateData,
  type CmResolveOptions,
  requireFunctions,
  requireOptions,
} from './options.ts';
export type { CmPlaceOptions } from './qp-resources.ts';
export { ConnectRequest, Server, type ServerEvents } from './server.ts';
