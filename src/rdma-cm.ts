/**
 * `isoverbs/rdma-cm`: connections by address with an API like node:net, over librdmacm on real devices, over UDP sockets
 * on user-space RoCE devices, and in memory on simulated ones. It opens the device that an address resolves to. Queue pairs
 * are created automatically or by the program.
 *
 * The provider is taken from the option `provider`, otherwise from ISOVERBS_PROVIDER or ISOVERBS_DEVICE; otherwise it is that
 * of the real devices if there are any, or else the simulated fabric (its hosts are sim0, sim1 ...).
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

/** Options of openDevice() for the devices to which addresses resolve. `labels` are those of the queue pairs. */
export type CmDeviceOptions = Omit<OpenDeviceOptions, 'labels'>;

/**
 * Creates a server for reliable connections (rdma_listen(3)); listen() starts it. The options apply to every queue pair
 * of the server.
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
 * Connects to a server: resolves address and route, creates the queue pair and connects (rdma_connect(3)).
 * @throws CmError when the connection manager reports a failure, with `event`, `status` and `reason`
 * @throws ConnectionError after the time limit, or for an unknown name
 * @throws UnsupportedError without rdma_cm
 */
export async function connect(options: CmConnectOptions & CmDeviceOptions): Promise<CmConnection> {
  return connectIn(environment('connect', options), options);
}

/** Creates a server that tells clients where to send datagrams: the queue pair, its Q_Key and its address. */
export function createDatagramServer(
  options: CmDatagramServerOptions & CmDeviceOptions = {},
  onRequest?: (request: DatagramRequest) => void,
): DatagramServer {
  const server = new DatagramServer(environment('createDatagramServer', options), options);
  if (onRequest !== undefined) server.on('request', onRequest);
  return server;
}

/**
 * Asks a datagram server for its address, and creates a queue pair to reach it.
 * @throws CmError, ConnectionError, UnsupportedError, as connect()
 */
export async function resolveDatagram(options: CmResolveOptions & CmDeviceOptions): Promise<DatagramPeer> {
  return resolveIn(environment('resolveDatagram', options), options);
}

/**
 * Joins a multicast group ('239.1.2.3'; rdma_join_multicast(3)) with a queue pair that receives its datagrams.
 * @throws InvalidArgumentError if `group` is not a multicast address; CmError, ConnectionError,
 * UnsupportedError, as connect()
 */
export async function joinMulticast(
  group: string,
  options: CmMulticastOptions & CmDeviceOptions = {},
): Promise<MulticastMember> {
  return joinIn(environment('joinMulticast', options), group, options);
}

/** @throws InvalidArgumentError when `options` is not an object */
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
