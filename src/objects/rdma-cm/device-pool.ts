/** The devices that a server or a connection has opened. */
import type { Provider } from '../../verbs/index.ts';
import type { Context } from '../context.ts';

/** Source of devices, provided by the entry point. */
export interface CmEnvironment {
  /** Provider whose rdma_cm is used. */
  provider: Provider;
  /** Opens the device to which an address resolved. */
  openDevice: (name: string) => Context;
}

/** Opens each device once for a server or one connection, and closes it with its last user. */
export class DevicePool {
  private readonly env: CmEnvironment;
  private readonly open = new Map<string, { context: Context; users: number }>();
  private keep: boolean;

  /** @param keep devices without users stay open until close() */
  constructor(env: CmEnvironment, keep: boolean) {
    this.env = env;
    this.keep = keep;
  }

  acquire(name: string): Context {
    const known = this.open.get(name);
    const entry = known?.context.closed === false ? known : { context: this.env.openDevice(name), users: 0 };
    this.open.set(name, entry);
    entry.users++;
    return entry.context;
  }

  release(context: Context): void {
    const entry = this.open.get(context.name);
    if (entry?.context !== context) return;
    entry.users--;
    this.sweep();
  }

  close(): void {
    this.keep = false;
    this.sweep();
  }

  private sweep(): void {
    if (this.keep) return;
    for (const [name, { context, users }] of this.open) {
      if (users > 0) continue;
      this.open.delete(name);
      context.close();
    }
  }
}
