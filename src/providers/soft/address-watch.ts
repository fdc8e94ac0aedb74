/**
 * Notices when the address of an open device leaves its host or comes back: the device's port goes down, or becomes active
 * again. It also notices changes of the MTU, which apply to new queue pairs.
 */
import type { Simulation } from '../../sim/simulation.ts';
import type { TimePump } from '../sim/time-pump.ts';
import { addressOf, interfaceOf, interfacesByAddress, mtuOf, type SoftDevice } from './devices.ts';

/** How often addresses are looked up, and how soon again after packets could not be sent. */
const PERIOD_MS = 1000;
const SOONEST_MS = 50;

/** Watches the addresses of open devices while there are any. */
export class AddressWatch {
  private readonly pump: TimePump;
  private readonly devices: readonly SoftDevice[];
  /** Hosts of open devices. */
  private readonly open = new Set<number>();
  private timer: NodeJS.Timeout | null = null;
  private lookedMs = 0;

  constructor(pump: TimePump, devices: readonly SoftDevice[]) {
    this.pump = pump;
    this.devices = devices;
  }

  add(host: number): void {
    this.open.add(host);
    this.timer ??= setInterval(() => this.look(), PERIOD_MS).unref();
  }

  remove(host: number): void {
    this.open.delete(host);
    // Opening the device again requires its address, so its port is active then.
    this.sim.setLink(host, true);
    if (this.open.size > 0 || this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
  }

  /** The kernel refused packets: looks soon, because the sender is still at work, unless it has just done so. */
  suspect(): void {
    if (performance.now() - this.lookedMs < SOONEST_MS) return;
    this.lookedMs = performance.now();
    this.pump.notify(() => this.look());
  }

  private get sim(): Simulation {
    return this.pump.sim;
  }

  private look(): void {
    this.lookedMs = performance.now();
    const here = addressesHere();
    if (here === null) return;
    for (const host of this.open) {
      const address = addressOf(this.devices[host].gid);
      const ndev = interfaceOf(address, here);
      this.sim.setLink(host, ndev !== undefined);
      if (ndev !== undefined) this.sim.world.hosts[host].mtuBytes = mtuOf(address, ndev);
    }
    this.pump.start();
  }
}

/** The interfaces by address; null if the kernel reports none, as to a process that has no descriptor left. */
function addressesHere(): Map<string, string> | null {
  try {
    return interfacesByAddress();
  } catch {
    return null;
  }
}
