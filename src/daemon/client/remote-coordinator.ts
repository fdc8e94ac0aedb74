/**
 * The coordinator of a device as its client sees it. Members write their counters into memory that the daemon
 * reads, and read its grants. While there is no daemon they use memory of their own, and nothing waits for
 * one.
 */
import type { DeviceCoordinator } from '../../coordinator/coordinator.ts';
import * as M from '../../coordinator/member-table.ts';
import { SEATS_PER_CLIENT } from '../pages.ts';

type Columns = Omit<M.MemberPage, 'row'>;

/** Grants that switch something; members are notified when one of them changes. */
const NOTIFIED_COLUMNS = [M.SPLIT, M.QNUM_ALLOW, M.SLOT_STATE, M.RATE_GBPS];

/** Clock readings cost as much as this many calls (a power of two). */
const CALLS_PER_POLL = 8;

/** A member of this process. Its columns are the daemon's while it has a seat there. */
export class RemoteMember implements M.MemberPage {
  /** Its row among the members of the device in this thread. */
  readonly row: number;
  readonly device: string;
  readonly tenant: string;
  counters: Float64Array = new Float64Array(M.COUNTERS);
  grants: Float64Array;
  /** Its seat in the client's pages; -1 for none. */
  seatNumber = -1;
  private readonly standaloneGbps: number;
  private readonly notified = new Float64Array(NOTIFIED_COLUMNS.length);
  private readonly link: DaemonLink;
  private calls = 0;

  constructor(of: Pick<RemoteMember, 'row' | 'device' | 'tenant'>, grants: Float64Array, link: DaemonLink) {
    this.link = link;
    this.row = of.row;
    this.device = of.device;
    this.tenant = of.tenant;
    this.grants = grants;
    this.standaloneGbps = grants[M.RATE_GBPS];
    this.markNotified();
  }

  /** Writes the counters into the daemon's memory before the daemon reads there. */
  copyTo({ counters }: Columns): void {
    counters.set(this.counters);
  }

  /** The daemon has confirmed the seat. */
  attach(columns: Columns): void {
    this.copyTo(columns);
    this.counters = columns.counters;
    this.grants = columns.grants;
  }

  /**
   * The daemon has gone; its last grants stay in force. A rate of zero does not, because nothing would ever
   * raise it.
   */
  detach(): void {
    this.seatNumber = -1;
    this.counters = this.counters.slice();
    this.grants = this.grants.slice();
    if (!(this.grants[M.RATE_GBPS] > 0)) this.grants[M.RATE_GBPS] = this.standaloneGbps;
  }

  poll(): void {
    this.calls = (this.calls + 1) & (CALLS_PER_POLL - 1);
    if (this.calls === 0) this.link.poll();
  }

  get hasChanged(): boolean {
    return NOTIFIED_COLUMNS.some((column, i) => this.grants[column] !== this.notified[i]);
  }

  markNotified(): void {
    for (let i = 0; i < NOTIFIED_COLUMNS.length; i++) this.notified[i] = this.grants[NOTIFIED_COLUMNS[i]];
  }
}

/** The link between the members of a process and the daemon. */
export interface DaemonLink {
  /**
   * `onNews` is called when the daemon has changed a grant; `onBeat` is called regularly while a daemon reads
   * what members write.
   */
  listen(onNews: () => void, onBeat: () => void): void;
  /** Called when members come and go. */
  memberJoined(member: RemoteMember): void;
  memberLeft(member: RemoteMember): void;
  /** Something that affects others has changed. */
  signal(): void;
  /** Called while the program runs: handles what the daemon has sent even if the event loop is blocked. */
  poll(): void;
}

export class RemoteCoordinator implements DeviceCoordinator {
  readonly capacity = SEATS_PER_CLIENT;
  private readonly device: string;
  private readonly link: DaemonLink;
  private readonly members: (RemoteMember | undefined)[] = [];
  /** Grants of a member until a daemon grants something. */
  private readonly standaloneGrants: Float64Array;

  /** @param standaloneGbps the rate a member may send until it has heard from the daemon */
  constructor(device: string, link: DaemonLink, standaloneGbps: number) {
    this.device = device;
    this.link = link;
    this.standaloneGrants = new Float64Array(M.GRANTS);
    this.standaloneGrants[M.RATE_GBPS] = standaloneGbps;
  }

  join(tenant: string): M.MemberPage | null {
    let index = 0;
    while (this.members[index] !== undefined) index++;
    if (index >= this.capacity) return null;
    const member = new RemoteMember(
      { row: index, device: this.device, tenant },
      this.standaloneGrants.slice(),
      this.link,
    );
    this.members[index] = member;
    this.link.memberJoined(member);
    return member;
  }

  leave({ row: index }: M.MemberPage): void {
    const member = this.members[index];
    if (member === undefined) return;
    this.members[index] = undefined;
    this.link.memberLeft(member);
  }

  listen(onNews: () => void, onBeat: () => void): void {
    this.link.listen(onNews, onBeat);
  }

  /** The daemon decides by its own rules and checks its members periodically. */
  runPass(_rules: unknown, _nowNs: number, isNews = true): void {
    this.link.poll();
    if (isNews) this.link.signal();
  }

  share(): boolean {
    this.link.signal();
    return true;
  }

  notify(): void {
    this.link.signal();
  }

  /** A tenant slot is shorter than a round trip to the daemon, so tenants never rotate. */
  rotate(): void {}

  get hasChanges(): boolean {
    return this.members.some((member) => member?.hasChanged === true);
  }

  takeChanges(): number[] {
    const changed = this.members.filter((member) => member?.hasChanged === true) as RemoteMember[];
    for (const member of changed) member.markNotified();
    return changed.map(({ row: index }) => index);
  }
}
