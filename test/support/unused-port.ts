import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * A TCP port of 127.0.0.1 on which nothing listens, and nothing can begin to until `close`: it is the local port of a
 * connection.
 */
export async function unusedPort(): Promise<{ readonly port: number; close(): void }> {
  const server = createServer();
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[peer]] = await Promise.all([accepted, once(socket, 'connect')]);
  server.close();
  return {
    port: socket.localPort!,
    close: () => {
      socket.destroy();
      peer.destroy();
    },
  };
}
