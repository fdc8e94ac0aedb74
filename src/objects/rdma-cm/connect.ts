import {
  type CmEvent,
  RDMA_CM_EVENT_CONNECT_RESPONSE,
  RDMA_CM_EVENT_ESTABLISHED,
  RDMA_PS_TCP,
} from '../../verbs/index.ts';
import { CmConnection } from './connection.ts';
import { type CmEnvironment, DevicePool } from './device-pool.ts';
import type { Identifier } from './identifier.ts';
import { bytesOf, type CmAcceptOptions, type CmConnectOptions, connParam, requireCall } from './options.ts';
import { QpResources } from './qp-resources.ts';
import { attempt, resolve } from './resolve.ts';

/** The client's side: address, route, queue pair, REQ, REP, RTU. */
export function connect(env: CmEnvironment, options: CmConnectOptions): Promise<CmConnection> {
  requireCall('connect', options);
  const { host = 'localhost', port } = options;
  const what = `cannot connect to ${host}:${port}`;
  return attempt(what, env.provider, RDMA_PS_TCP, options, async (id) => {
    await resolve(id, env.provider, { ...options, host });
    return makeConnection(id, new DevicePool(env, false), options, async (connection) => {
      const data = connection.request(bytesOf(options.privateData));
      id.cm.connect(id.handle, connParam(connection.qp, options, data));
      connection.setPeer(await id.expect(what, RDMA_CM_EVENT_CONNECT_RESPONSE));
      connection.toRts(options);
      id.cm.establish(id.handle);
    });
  });
}

/** The server's side: queue pair, REP, and the wait for the RTU. */
export function accept(
  id: Identifier,
  request: CmEvent,
  pool: DevicePool,
  options: CmAcceptOptions,
): Promise<CmConnection> {
  return makeConnection(
    id,
    pool,
    options,
    async (connection) => {
      const data = connection.reply(bytesOf(options.privateData));
      connection.toRts(options);
      id.cm.accept(id.handle, connParam(connection.qp, options, data));
      const what = `the connection with ${connection.remoteAddress}:${connection.remotePort} was not established`;
      await id.expect(what, RDMA_CM_EVENT_ESTABLISHED);
    },
    request,
  );
}

/** Creates the queue pair and runs the exchange; closes everything when that fails. */
async function makeConnection(
  id: Identifier,
  pool: DevicePool,
  options: CmAcceptOptions,
  run: (connection: CmConnection) => Promise<void>,
  request: CmEvent | null = null,
): Promise<CmConnection> {
  const resources = new QpResources(pool, id.info().deviceName, 'RC', options);
  const connection = new CmConnection(id, resources);
  if (request !== null) connection.setPeer(request);
  try {
    await connection.prepare(options);
    await run(connection);
    connection.begin();
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}
