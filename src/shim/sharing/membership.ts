/** How a reliable connection of the application takes part in sharing: over which queue pair its requests go. */
import type { Carrier } from './carrier.ts';
import type { Exchange } from './exchange.ts';

/** On its own queue pair: not connected yet, or there is no reason to share so far. */
export const OWN = 0;
/** On its own queue pair, whose requests must complete before a carrier takes over. */
export const JOINING = 1;
/** Over a carrier. */
export const CARRIED = 2;
/** On its own queue pair for good. */
export const LEFT = 3;

/** Connections that may share carriers: from one protection domain to another, by the same path. */
export interface Group {
  members: number;
  /** The carriers of its members. */
  readonly carriers: Carrier[];
}

/** The queue pairs of the application on one device. */
export interface DeviceLoad {
  qps: number;
}

export class Membership {
  /** The carrier that was made for this connection, whichever carries its requests. */
  readonly own: Carrier;
  readonly load: DeviceLoad;
  /** The remote access (IBV_ACCESS_*) that the peer was told about. */
  readonly accessFlags: number;
  state = OWN;
  /** In JOINING and CARRIED. */
  carrier: Carrier | null = null;
  /** Null until it is connected. */
  group: Group | null = null;
  /** The group that it has left. */
  left: Group | null = null;
  /** How many of the queue pair's real numbers belong to requests that carriers have posted. */
  shift = 0;
  /** Whether the carrier gets nothing more of it, because it has ended. */
  mustLeave = false;
  /** Whether the device has drained its own queue while a carrier still has requests of it. */
  isDrainDue = false;
  /** The first held request that no carrier takes; null if there is none. */
  leavesAt: number | null = null;
  /** How the last carrier failed over which messages to or from the peer went (IBV_WC_*); 0: none has. */
  failStatus = 0;
  /** Null: messages that take a receive are never carried. */
  exchange: Exchange | null = null;

  constructor(own: Carrier, load: DeviceLoad, accessFlags: number) {
    this.own = own;
    this.load = load;
    this.accessFlags = accessFlags;
  }

  /** Whether posted requests must be held, because they may not be issued at once. */
  get holdsPosts(): boolean {
    return this.state === JOINING || (this.state === OWN && this.exchange?.holdsPosts === true);
  }

  /** Goes over this carrier from now on. */
  carry(carrier: Carrier): void {
    carrier.users++;
    this.carrier = carrier;
    this.state = CARRIED;
  }

  /** Goes on its own queue pair for now. */
  pause(): void {
    if (this.carrier !== null) this.carrier.users--;
    this.carrier = null;
    this.state = OWN;
    this.leavesAt = null;
  }

  /** Goes on its own queue pair from now on. */
  leave(): void {
    this.pause();
    this.state = LEFT;
    if (this.group === null) return;
    this.group.members--;
    this.left = this.group;
    this.group = null;
  }
}
