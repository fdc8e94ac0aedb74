/**
 * `isoverbs/rdma-cm`: connections by address, as an API like that of node:net, over librdmacm on real devices
 * and in memory on simulated ones. The device that an address leads to is opened for you, queue pairs are
 * made for you or by you.
 *
 * Which provider: option `provider`; else that of ISOVERBS_DEVICE, else real devices where there are any,
 * else the simulated fabric (its hosts are sim0, sim1 ...).
 */
import {
  type CmAcceptOptions,
  type CmConnection,
  type CmConnectOptions,
  type CmDatagramServerOptions,
  type CmEnvironment,
  type CmMulticastOptions,
  type CmResolveOptions,
  connect as connectIn,
  type DatagramPeer,
  type DatagramRequest,
  DatagramServer,
  joinMulticast as joinIn,
  type MulticastMember,
  requireFunctions,
  requireOptions,
  resolveDatagram as resolveIn,
  Server,
} from './objects/rdma-cm/index.ts';
import { type OpenDeviceOptions, openDevice, providerFor, underPolicies } from './open.ts';

export {
  type CmAcceptOptions,
  type CmCallOptions,
  CmConnection,
  type CmConnectionEvents,
  type CmConnectionOptions,
  type CmConnectOptions,
  type CmDatagramOptions,
  type CmDatagramServerOptions,
  CmError,
  type CmListenOptions,
  type CmMulticastOptions,
  type CmPlaceOptions,
  type CmPrivateData,
  type CmResolveOptions,
  ConnectRequest,
  DatagramEnd,
  DatagramPeer,
  type DatagramRequest,
  DatagramServer,
  type DatagramServerEvents,
  type DatagramTarget,
  MulticastMember,
  Server,
  type ServerEvents,
} from './objects/rdma-cm/index.ts';

/** Options of openDevice(), for the devices that addresses lead to. */
export type CmDeviceOptions = OpenDeviceOptions;

/**
 * A server of reliable connections (rdma_listen(3)); listen() starts it. Options are those of every queue
 * pair that it makes.
 */
export function createServer(
  options?: CmAcceptOptions & CmDeviceOptions,
  onConnection?: (connection: CmConnection) => void,
): Server;
export function createServer(onConnection: (connection: CmConnection) => void): Server;
export function createServer(
  options: (CmAcceptOptions & CmDeviceOptions) | ((connection: CmConnection) => void) = {},
  onConnection?: (connection: CmConnection) => void,
): Server {
  if (typeof options === 'function') return createServer({}, options);
  const server = new Server(environment('createServer', options), options);
  if (onConnection !== undefined) server.on('connection', onConnection);
  return server;
}

/**
 * Connects to a server: resolves address and route, makes the queue pair, connects (rdma_connect(3)).
 * @throws CmError when the connection manager says no: `event`, `status` and `reason` tell
 * @throws ConnectionError when time runs out or the name is unknown
 * @throws UnsupportedError where there is no rdma_cm
 */
export async function connect(options: CmConnectOptions & CmDeviceOptions): Promise<CmConnection> {
  return connectIn(environment('connect', options), options);
}

/** A server that tells who asks where to send datagrams: the queue pair, its Q_Key and how to get there. */
export function createDatagramServer(
  options: CmDatagramServerOptions & CmDeviceOptions = {},
  onRequest?: (request: DatagramRequest) => void,
): DatagramServer {
  const server = new DatagramServer(environment('createDatagramServer', options), options);
  if (onRequest !== undefined) server.on('request', onRequest);
  return server;
}

/**
 * Asks a datagram server where to send, and makes the queue pair to do it with.
 * @throws CmError, ConnectionError, UnsupportedError, as connect()
 */
export async function resolveDatagram(options: CmResolveOptions & CmDeviceOptions): Promise<DatagramPeer> {
  return resolveIn(environment('resolveDatagram', options), options);
}

/**
 * Joins a multicast group ('239.1.2.3'; rdma_join_multicast(3)) with a queue pair that receives what is sent
 * to it. @throws CmError, ConnectionError, UnsupportedError, as connect()
 */
export async function joinMulticast(
  group: string,
  options: CmMulticastOptions & CmDeviceOptions = {},
): Promise<MulticastMember> {
  return joinIn(environment('joinMulticast', options), group, options);
}

/** @throws InvalidArgumentError for options that are none */
function environment(verb: string, options: CmDeviceOptions): CmEnvironment {
  requireOptions(verb, options);
  requireFunctions(verb, options);
  const { provider: wanted, policy, tenant } = options;
  const provider = providerFor(wanted);
  return {
    provider: underPolicies(provider, policy),
    openDevice: (name) => openDevice(name, { provider, policy, tenant }),
  };
}
