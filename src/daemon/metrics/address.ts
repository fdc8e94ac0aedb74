/** Where the metrics are served: on a loopback address, or on a Unix socket. */
import { BlockList, isIP } from 'node:net';
import { ConfigError } from '../../verbs/errors.ts';
import { requireSocketPath } from '../ipc/socket-path.ts';

export type MetricsAddress = { readonly host: string; readonly port: number } | { readonly path: string };

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

function isLoopback(host: string): boolean {
  const family = isIP(host);
  return family !== 0 && LOOPBACK.check(host, family === 6 ? 'ipv6' : 'ipv4');
}

/**
 * Parses `PORT`, `127.0.0.1:PORT`, `[::1]:PORT`, or the path of a socket, which contains a slash; port 0 selects a free
 * port. @throws ConfigError
 */
export function metricsAddress(text: string): MetricsAddress {
  if (text.includes('/')) {
    requireSocketPath(text, 'metrics');
    return { path: text };
  }
  const [, bracketed, plain, digits] = /^(?:(?:\[([^\]]*)\]|([^:]*)):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65535) {
    throw new ConfigError(
      `metrics: '${text}' is not an address; use PORT, 127.0.0.1:PORT, [::1]:PORT or the path of a socket`,
    );
  }
  const host = bracketed ?? plain ?? '127.0.0.1';
  if (isLoopback(host)) return { host, port };
  throw new ConfigError(
    `metrics: ${host === '' ? 'the empty host' : host} is not a loopback address (127.0.0.0/8 or ::1); for remote access, put your own proxy in front`,
  );
}

/**
 * Whether the header Host names this host by a loopback address. A page of another site can rebind its own name to a
 * loopback address and then read what it fetches, but its browser still sends that name.
 */
export function isLocalHost(header: string): boolean {
  const [, bracketed, plain] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header) ?? [];
  const host = bracketed ?? plain ?? '';
  return host.toLowerCase() === 'localhost' || isLoopback(host);
}
