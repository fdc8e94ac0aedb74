/** The coordinator of one device turns its members' counters into grants. It has no clock: times are arguments. */
import { decide, type MasterRules, Tenants } from './master.ts';
import { DEFAULT_CAPACITY, type MemberPage, MemberTable, memberTableBytes } from './member-table.ts';
import { Entitlements, type ShareRules, share } from './shares.ts';
import { SlotRotation } from './slot-rotation.ts';

/**
 * Each member requests passes, and a pass reads all members: without this minimum interval, thousands would cost a
 * core.
 */
const MIN_PASS_NS_PER_MEMBER = 1000;

/** The coordinator of one device as its members use it: in this process, or a client of a coordinator elsewhere. */
export interface DeviceCoordinator {
  /** The maximum number of members. */
  readonly capacity: number;
  /** Adds a context of a tenant ('': a tenant of its own). Returns null if the table is full. */
  join(tenant: string): MemberPage | null;
  leave(page: MemberPage): void;
  /**
   * Turns counters into grants: at once if a member's class changed (`isNews`), otherwise only some time after the last
   * pass. Counters that a concurrent pass of another thread misses are read by the next pass.
   */
  runPass(rules: MasterRules, nowNs: number, isNews?: boolean): void;
  /**
   * Recomputes static rates, after a member got its first queue pair or lost its last. False: another thread holds
   * the lock.
   */
  share(rules: ShareRules, nowNs: number): boolean;
  /** Begins the next tenant's slot if it is due. */
  rotate(nowNs: number, slotNs: number): void;
  /** Asks a coordinator elsewhere to read the members' counters at once. */
  notify?(): void;
  /** Whether members of this view are to be notified. */
  readonly hasChanges: boolean;
  /** Returns, and clears, the rows of members whose isolation changed, each once. */
  takeChanges(): number[];
  /**
   * A coordinator elsewhere calls `news` when it has changes that did not originate here, and `beat` when the members'
   * usage counters are due.
   */
  listen?(news: () => void, beat: () => void): void;
}

export class Coordinator implements DeviceCoordinator {
  readonly members: MemberTable;
  private readonly tenants = new Tenants();
  private readonly entitlements = new Entitlements();
  private readonly rotation = new SlotRotation();
  /** Rows of this view whose isolation changed since they were last notified. */
  private changes: number[] = [];
  /** By row, 1: this view notifies the member. Members of other views are notified there. */
  private readonly ownRows: Uint8Array;
  /** By row, 1: the row is among the changes. */
  private readonly isChanged: Uint8Array;
  private lastPassNs = Number.NEGATIVE_INFINITY;

  constructor(members: MemberTable = new MemberTable(new ArrayBuffer(memberTableBytes(DEFAULT_CAPACITY)))) {
    this.members = members;
    this.ownRows = new Uint8Array(members.capacity);
    this.isChanged = new Uint8Array(members.capacity);
  }

  join(tenant: string): MemberPage | null {
    const page = this.members.join(tenant === '' ? null : tenantId(tenant));
    if (page !== null) this.ownRows[page.row] = 1;
    return page;
  }

  leave(page: MemberPage): void {
    const { row } = page;
    if (this.ownRows[row] === 0) return;
    this.ownRows[row] = 0;
    if (this.isChanged[row] === 1) this.changes = this.changes.filter((member) => member !== row);
    this.isChanged[row] = 0;
    this.members.leave(page.row);
  }

  runPass(rules: MasterRules, nowNs: number, isNews = true): void {
    const { members } = this;
    if (!isNews && nowNs - this.lastPassNs < members.rowLimit * MIN_PASS_NS_PER_MEMBER) return;
    if (!members.tryLock(nowNs)) return;
    this.lastPassNs = nowNs;
    try {
      decide(members, this.tenants, rules, nowNs, this.markChanged);
    } finally {
      members.unlock();
    }
  }

  get capacity(): number {
    return this.members.capacity;
  }

  /** @param silentNs a member that has not written for this long has no share; by default, silence has no effect */
  share(rules: ShareRules, nowNs: number, silentNs = Number.POSITIVE_INFINITY): boolean {
    if (!this.members.tryLock(nowNs)) return false;
    try {
      share(this.members, this.tenants, this.entitlements, rules, nowNs - silentNs, this.markChanged);
    } finally {
      this.members.unlock();
    }
    return true;
  }

  rotate(nowNs: number, slotNs: number): void {
    if (!this.members.tryLock(nowNs)) return;
    try {
      this.rotation.rotate(this.members, this.tenants, { nowNs, slotNs }, this.markChanged);
    } finally {
      this.members.unlock();
    }
  }

  private readonly markChanged = (member: number): void => {
    if (this.ownRows[member] === 0 || this.isChanged[member] === 1) return;
    this.isChanged[member] = 1;
    this.changes.push(member);
  };

  get hasChanges(): boolean {
    return this.changes.length > 0;
  }

  takeChanges(): number[] {
    const all = this.changes;
    for (let i = 0; i < all.length; i++) this.isChanged[all[i]] = 0;
    this.changes = [];
    return all;
  }
}

/** The number that identifies a tenant in memory shared between threads: 53 bits, from two FNV-1a hashes. */
export function tenantId(tenant: string): number {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let i = 0; i < tenant.length; i++) {
    const code = tenant.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + i), 0x01000193) ^ (low >>> 15);
  }
  return (low >>> 0) + (high & 0x1fffff) * 2 ** 32;
}
