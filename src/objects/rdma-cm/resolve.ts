/** Resolves a name to an identifier with device and route, within a time limit. */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import {
  type CmAddress,
  ConnectionError,
  type Provider,
  RDMA_CM_EVENT_ADDR_RESOLVED,
  RDMA_CM_EVENT_ROUTE_RESOLVED,
} from '../../verbs/index.ts';
import { Context } from '../context.ts';
import { Identifier } from './identifier.ts';
import type { CmCallOptions } from './options.ts';

const MAPPED = '::ffff:';
const DEFAULT_TIMEOUT_MS = 10_000;
/** Time limit of one resolution step; attempt() limits the whole. */
const RESOLVE_MS = 5000;

/** Names of devices that a program may take for hosts, because simulated hosts have the names of their devices. */
const DEVICE = /^(sim|soft|rxe|mlx[45]_)\d+$/;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '::1']);

/** Converts a host to an address for rdma_cm. The simulator resolves names itself. */
export async function addressOf(provider: Provider, host: string): Promise<string> {
  if (provider.name === 'sim') return host;
  // User-space devices have loopback addresses themselves.
  if (provider.name === 'soft' && host === 'localhost') return host;
  if (provider.name !== 'soft' && LOOPBACK.has(host)) return ownAddress(provider) ?? host;
  if (isIP(host) !== 0) return host;
  try {
    return (await lookup(host)).address;
  } catch (cause) {
    const hint = DEVICE.test(host) ? '; name the address of the host, not a device' : '';
    throw new ConnectionError(`cannot find '${host}': ${(cause as Error).message}${hint}`, { cause });
  }
}

/** A local address to use for loopback, which has no RDMA device: that of the first device with IPv4. */
function ownAddress(provider: Provider): string | null {
  for (const { name } of provider.getDeviceList()) {
    const context = new Context(provider, name);
    const entry = context.gids().find(({ gid, type }) => gid.startsWith(MAPPED) && type === 'RoCE v2');
    context.close();
    if (entry !== undefined) return entry.gid.slice(MAPPED.length);
  }
  return null;
}

/** Resolves the address and, except for multicast groups, the route. @throws CmError, ConnectionError */
export async function resolve(
  id: Identifier,
  provider: Provider,
  options: Omit<CmCallOptions, 'port'> & { host: string; port: number },
  withRoute = true,
): Promise<void> {
  const { host, port, localAddress, localPort = 0 } = options;
  const what = `cannot reach ${host}:${port}`;
  const remote = { address: await addressOf(provider, host), port };
  const local = localAddress === undefined ? null : await addressOf(provider, localAddress);
  id.check(what);
  const from: CmAddress | null =
    local !== null ? { address: local, port: localPort } : localPort > 0 ? anyAddress(localPort) : null;
  id.cm.resolveAddr(id.handle, from, remote, RESOLVE_MS);
  await id.expect(what, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (!withRoute) return;
  id.cm.resolveRoute(id.handle, RESOLVE_MS);
  await id.expect(what, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

function anyAddress(port: number): CmAddress {
  return { address: '0.0.0.0', port };
}

/**
 * Runs an attempt on a new identifier, with its time limit and signal. A failure destroys the identifier.
 */
export async function attempt<T>(
  what: string,
  provider: Provider,
  portSpace: number,
  limits: { timeoutMs?: number; signal?: AbortSignal },
  run: (id: Identifier) => Promise<T>,
): Promise<T> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = limits;
  signal?.throwIfAborted();
  const id = Identifier.create(provider, portSpace);
  const timer = setTimeout(
    () => id.fail(new ConnectionError(`${what}: no answer within ${timeoutMs} ms`)),
    timeoutMs,
  );
  const abort = () => id.fail(signal?.reason);
  signal?.addEventListener('abort', abort);
  id.keepAlive(true);
  try {
    return await run(id);
  } catch (error) {
    id.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}
