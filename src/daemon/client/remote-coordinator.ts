/**
 * The coordinator of a device as its client sees it: members write into memory that the daemon reads, and read what
 * it grants. As long as there is no daemon they stand on memory of their own: nobody waits for one.
 */
import type { DeviceCoordinator } from '../../coordinator/coordinator.ts';
import * as M from '../../coordinator/member-table.ts';
import { SLOTS } from '../pages.ts';

type Columns = Omit<M.MemberPage, 'index'>;

/** Grants that switch something: members are told when one is another. */
const TOLD = [M.SPLIT, M.QNUM_ALLOW, M.TURN, M.RATE_GBPS];

/** A look at the clock costs as much as so many calls (a power of two). */
const CALLS_PER_LOOK = 8;

/** A member of this process, whose columns are the daemon's as long as there is one. */
export class Seat implements M.MemberPage {
  /** Among the members of its device in this thread. */
  readonly index: number;
  readonly device: string;
  readonly tenant: string;
  counters: Float64Array = new Float64Array(M.COUNTERS);
  grants: Float64Array;
  /** Its place in the client's pages; -1: none. */
  slot = -1;
  private readonly aloneGbps: number;
  private readonly told = new Float64Array(TOLD.length);
  private readonly link: Link;
  private calls = 0;

  constructor(of: Pick<Seat, 'index' | 'device' | 'tenant'>, grants: Float64Array, link: Link) {
    this.link = link;
    this.index = of.index;
    this.device = of.device;
    this.tenant = of.tenant;
    this.grants = grants;
    this.aloneGbps = grants[M.RATE_GBPS];
    this.take();
  }

  /** Says in the daemon's memory what it says here, before the daemon looks there. */
  copyTo({ counters }: Columns): void {
    counters.set(this.counters);
  }

  /** The daemon has a place for it. */
  attach(columns: Columns): void {
    this.copyTo(columns);
    this.counters = columns.counters;
    this.grants = columns.grants;
  }

  /** The daemon is gone: what it granted last is granted. No rate is no grant: nobody would ever raise it. */
  detach(): void {
    this.slot = -1;
    this.counters = this.counters.slice();
    this.grants = this.grants.slice();
    if (!(this.grants[M.RATE_GBPS] > 0)) this.grants[M.RATE_GBPS] = this.aloneGbps;
  }

  look(): void {
    this.calls = (this.calls + 1) & (CALLS_PER_LOOK - 1);
    if (this.calls === 0) this.link.look();
  }

  get isNews(): boolean {
    return TOLD.some((column, i) => this.grants[column] !== this.told[i]);
  }

  take(): void {
    for (let i = 0; i < TOLD.length; i++) this.told[i] = this.grants[TOLD[i]];
  }
}

/** What connects the members of a process with the daemon. */
export interface Link {
  /**
   * `news` is called when the daemon has granted something else; `beat` now and then, as long as there is a daemon that
   * sees what members write.
   */
  listen(news: () => void, beat: () => void): void;
  /** Members come and go. */
  opened(seat: Seat): void;
  closed(seat: Seat): void;
  /** Something has changed that concerns others. */
  ring(): void;
  /** The program runs: what has come from the daemon is taken, even if its event loop does not turn. */
  look(): void;
}

export class RemoteCoordinator implements DeviceCoordinator {
  readonly capacity = SLOTS;
  private readonly device: string;
  private readonly link: Link;
  private readonly seats: (Seat | undefined)[] = [];
  /** What members have that no daemon has told anything. */
  private readonly aloneGrants: Float64Array;

  /** @param aloneGbps what a member may send as long as it has never heard of the daemon */
  constructor(device: string, link: Link, aloneGbps: number) {
    this.device = device;
    this.link = link;
    this.aloneGrants = new Float64Array(M.GRANTS);
    this.aloneGrants[M.RATE_GBPS] = aloneGbps;
  }

  join(tenant: string): M.MemberPage | null {
    let index = 0;
    while (this.seats[index] !== undefined) index++;
    if (index >= this.capacity) return null;
    const seat = new Seat({ index, device: this.device, tenant }, this.aloneGrants.slice(), this.link);
    this.seats[index] = seat;
    this.link.opened(seat);
    return seat;
  }

  leave({ index }: M.MemberPage): void {
    const seat = this.seats[index];
    if (seat === undefined) return;
    this.seats[index] = undefined;
    this.link.closed(seat);
  }

  listen(news: () => void, beat: () => void): void {
    this.link.listen(news, beat);
  }

  /** The daemon decides by its own rules, and looks by itself now and then. */
  step(_rules: unknown, _nowNs: number, isNews = true): void {
    this.link.look();
    if (isNews) this.link.ring();
  }

  share(): boolean {
    this.link.ring();
    return true;
  }

  ring(): void {
    this.link.ring();
  }

  /** Nobody rotates: a slot is shorter than the way to the daemon and back. */
  rotate(): void {}

  get hasChanges(): boolean {
    return this.seats.some((seat) => seat?.isNews === true);
  }

  takeChanges(): number[] {
    const changed = this.seats.filter((seat) => seat?.isNews === true) as Seat[];
    for (const seat of changed) seat.take();
    return changed.map(({ index }) => index);
  }
}
