/** The coordinator of one device: members join, their counters become grants. No clock: times are arguments. */
import { decide, type MasterRules, Tenants } from './master.ts';
import { DEFAULT_CAPACITY, type MemberPage, MemberTable, memberTableBytes } from './member-table.ts';
import { Entitlements, type ShareRules, share } from './shares.ts';
import { SlotRotation } from './slot-rotation.ts';

/** A pass looks at all members, and each member calls for one: they are so far apart, or thousands would cost a core. */
const MIN_PASS_NS_PER_MEMBER = 1000;

/** Who decides about one device: in this process, or a client of one elsewhere. */
export interface DeviceCoordinator {
  /** Members that it has places for. */
  readonly capacity: number;
  /** A context of a tenant opens the device; '': a tenant of its own. Null: all places are taken. */
  join(tenant: string): MemberPage | null;
  leave(page: MemberPage): void;
  /**
   * Counters become grants: at once if a member has become something else (`isNews`), else when the last pass is some
   * time ago. What another thread that decides just now has not seen, the next pass sees.
   */
  runPass(rules: MasterRules, nowNs: number, isNews?: boolean): void;
  /** Static rates, after a member had its first queue pair or lost its last. False: another thread decides just now. */
  share(rules: ShareRules, nowNs: number): boolean;
  /** The next tenant's slot begins, if it is time. */
  rotate(nowNs: number, slotNs: number): void;
  /** One elsewhere is to look at once at what a member has written. */
  notify?(): void;
  /** Whether somebody of this view is to be told. */
  readonly hasChanges: boolean;
  /** Places of members whose isolation changed, each once. */
  takeChanges(): number[];
  /**
   * One elsewhere calls `news` when it has changes that nobody here has caused, and `beat` when somebody is to see what
   * its members have done.
   */
  listen?(news: () => void, beat: () => void): void;
}

export class Coordinator implements DeviceCoordinator {
  readonly members: MemberTable;
  private readonly tenants = new Tenants();
  private readonly entitlements = new Entitlements();
  private readonly rotation = new SlotRotation();
  /** Members of this view whose isolation changed since they were last told. */
  private changes: number[] = [];
  /** By place, 1: this view tells it. The others have a view of their own. */
  private readonly ownRows: Uint8Array;
  /** By place, 1: it is among the changes. */
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

  /** @param silentNs who has not written for so long has no share; absent: nobody dies */
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
      this.rotation.rotate(this.members, this.tenants, { nowNs, slotNs: slotNs }, this.markChanged);
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

/** Tenants are told apart by number in memory that threads share: 53 bits of FNV-1a, of two halves. */
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
