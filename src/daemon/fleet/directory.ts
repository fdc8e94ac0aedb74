/** The daemons of a fleet, and the GIDs of their devices, as the daemons announce them. Times are arguments. */
import { Budget } from '../budgets.ts';
import { type AnnouncedDevice, decodeAnnouncement } from './wire.ts';

/** Each daemon announces itself at this interval. */
export const ANNOUNCE_NS = 500e6;
/** A daemon that has not announced itself for this long counts as gone: three announcements in a row are missing. */
export const SILENT_NS = 3.5 * ANNOUNCE_NS;
/** The most daemons, and the most new daemons in one interval. Further ones are ignored. */
export const MAX_HOSTS = 2048;
const NEW_PER_INTERVAL = 256;
/** Limit on changed announcements of one daemon, which cost more than repeated ones. */
const CHANGES = { most: 32, perS: 4 };
/** Limit on frames from one daemon. */
const FRAMES = { most: 4096, perS: 8192 };

/** A daemon of the fleet. */
interface FleetHost {
  readonly id: string;
  name: string;
  heardNs: number;
  /** Its last announcement. */
  bytes: Uint8Array;
  devices: readonly AnnouncedDevice[];
  readonly changes: Budget;
  readonly frames: Budget;
}

/** A device with agents. */
export interface FleetDevice extends AnnouncedDevice {
  readonly host: FleetHost;
}

export class FleetDirectory {
  private readonly changed: (gid: string, qpNum: number, isAlive: boolean) => void;
  private readonly hosts = new Map<string, FleetHost>();
  /** The device of each GID. The first daemon that announces a GID keeps it until that daemon is gone. */
  private readonly byGid = new Map<string, FleetDevice>();
  private newHosts = 0;
  private expiredNs = Number.NEGATIVE_INFINITY;

  /** @param changed called at each announcement of a device (it is alive), and when the device is gone */
  constructor(changed: (gid: string, qpNum: number, isAlive: boolean) => void) {
    this.changed = changed;
  }

  get size(): number {
    return this.present.length;
  }

  /** The daemons that have not ended. */
  private get present(): FleetHost[] {
    return [...this.hosts.values()].filter(({ devices }) => devices.length > 0);
  }

  has(id: string): boolean {
    return this.hosts.has(id);
  }

  /** The host names of the first `count` daemons. */
  names(count: number): string[] {
    return this.present.slice(0, count).map(({ name }) => name);
  }

  at(gid: string): FleetDevice | undefined {
    return this.byGid.get(gid);
  }

  /** Handles an announcement of a daemon. Returns false if the announcement was ignored. */
  hear(id: string, bytes: Uint8Array, nowNs: number): boolean {
    const known = this.hosts.get(id);
    const isSame = known !== undefined && Buffer.compare(known.bytes, bytes) === 0;
    if (known !== undefined && isSame) known.heardNs = nowNs;
    else if (!this.update(id, known, bytes, nowNs)) return false;
    const host = this.hosts.get(id);
    if (host !== undefined) this.confirm(host);
    return true;
  }

  private update(id: string, known: FleetHost | undefined, bytes: Uint8Array, nowNs: number): boolean {
    const isTooMany = this.hosts.size === MAX_HOSTS || this.newHosts === NEW_PER_INTERVAL;
    if (known === undefined ? isTooMany : !known.changes.tryTake(nowNs)) return false;
    const content = decodeAnnouncement(bytes);
    if (content === null) return false;
    const { host: name, devices } = content;
    if (known !== undefined) this.remove(known, devices);
    // A daemon that ends is known until it is silent: it would get new budgets if it ended and began all the time.
    if (known === undefined && devices.length === 0) return true;
    if (known === undefined) this.newHosts++;
    const budgets = { changes: new Budget(CHANGES, nowNs), frames: new Budget(FRAMES, nowNs) };
    const host = known ?? { id, name, heardNs: nowNs, bytes, devices, ...budgets };
    // A copy, because the bytes are part of a larger buffer.
    Object.assign(host, { name, heardNs: nowNs, bytes: Uint8Array.from(bytes), devices });
    this.hosts.set(id, host);
    return true;
  }

  private confirm(host: FleetHost): void {
    for (const device of host.devices) {
      for (const gid of device.gids) {
        if (!this.byGid.has(gid)) this.byGid.set(gid, { ...device, host });
        if (this.byGid.get(gid)?.host === host) this.changed(gid, device.qpNum, true);
      }
    }
  }

  /** Removes a daemon. Devices that are also in `next` stay alive. */
  private remove(host: FleetHost, next: readonly AnnouncedDevice[]): void {
    this.hosts.delete(host.id);
    for (const { gids, qpNum } of host.devices) {
      for (const gid of gids) {
        if (this.byGid.get(gid)?.host !== host) continue;
        this.byGid.delete(gid);
        const stays = next.some((one) => one.qpNum === qpNum && one.gids.includes(gid));
        if (!stays) this.changed(gid, qpNum, false);
      }
    }
  }

  /** Removes silent daemons. To be called every ANNOUNCE_NS. */
  expire(nowNs: number): void {
    const isLate = nowNs - this.expiredNs > 2 * ANNOUNCE_NS;
    this.expiredNs = nowNs;
    this.newHosts = 0;
    // Announcements that arrived while this process was not running must be read first.
    if (isLate) return;
    for (const host of this.hosts.values()) if (nowNs - host.heardNs > SILENT_NS) this.remove(host, []);
  }
}
