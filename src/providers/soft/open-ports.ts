/** The ports of open devices: each has a socket while contexts or identifiers of rdma_cm use it. */
import type { AddressWatch } from './address-watch.ts';
import type { SoftPort } from './port.ts';
import type { RealTimePump } from './pump.ts';

export class OpenPorts {
  private readonly pump: RealTimePump;
  private readonly start: (host: number) => SoftPort;
  private readonly watch: AddressWatch;
  private readonly users = new Map<number, number>();
  /** Handles of channels, and of contexts with asynchronous events, that keep the process alive. */
  private readonly keepers = new Set<number | object>();

  constructor(pump: RealTimePump, start: (host: number) => SoftPort, watch: AddressWatch) {
    this.pump = pump;
    this.start = start;
    this.watch = watch;
  }

  /** Opens the port of a device for its first user. @throws ConnectionError */
  acquire(host: number): void {
    const { open } = this.pump;
    if (!open.has(host)) {
      const port = this.start(host);
      open.set(host, port);
      port.keepAlive(this.keepers.size > 0);
      this.pump.portsChanged();
      this.watch.add(host);
    }
    this.users.set(host, (this.users.get(host) ?? 0) + 1);
  }

  /** Closes the port after its last user. */
  release(host: number): void {
    const left = (this.users.get(host) ?? 0) - 1;
    this.users.set(host, left);
    if (left > 0) return;
    const { open } = this.pump;
    const port = open.get(host);
    open.delete(host);
    this.pump.portsChanged();
    this.watch.remove(host);
    port?.close();
  }

  /** Keeps the port of a device open, and the process alive, until the returned function is called. */
  linger(host: number): () => void {
    const keeper = {};
    this.acquire(host);
    this.keep(keeper, true);
    return () => {
      this.keep(keeper, false);
      this.release(host);
    };
  }

  /** Sets whether waiting for events of this handle keeps the process alive. */
  keep(handle: number | object, keeps: boolean): void {
    if (keeps) this.keepers.add(handle);
    else this.keepers.delete(handle);
    for (const port of this.pump.open.values()) port.keepAlive(this.keepers.size > 0);
  }
}
