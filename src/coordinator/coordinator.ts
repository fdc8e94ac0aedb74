/**
 * The coordinator of one device: its rulers turn what members report into grants. It has no clock: times are arguments.
 */
import type { AgentLineEvents } from './agent.ts';
import { coordinatorMemory, type MemberPage, MemberTable } from './member-table.ts';
import { Members, type Silence } from './members.ts';
import type { Decider, Description, MembersView, Ruler } from './ruler.ts';
import { Tenants, tenantId } from './tenants.ts';

/**
 * Each member requests passes, and a pass reads all members: without this minimum interval, thousands would cost a
 * core.
 */
const MIN_PASS_NS_PER_MEMBER = 1000;

/** A ruler at this device. */
interface Ruling {
  readonly view: MembersView;
  readonly decider: Decider<unknown>;
  /** Its last decision. */
  lastNs: number;
}

/** The coordinator of one device as its members use it: in this process, or a client of a coordinator elsewhere. */
export interface DeviceCoordinator {
  /** The maximum number of members. */
  readonly capacity: number;
  /** Adds a context of a tenant ('': a tenant of its own; or its number). Returns null if the table is full. */
  join(tenant: string | number): MemberPage | null;
  /** Removes a context. A second call does nothing. */
  leave(page: MemberPage): void;
  /** The rate of the device's link, as its contexts report it. A coordinator elsewhere knows it itself. */
  setLink?(linkGbps: number): void;
  /**
   * Lets a ruler turn reports into grants: at once if a member reported something that affects others (`isNews`),
   * otherwise only some time after its last decision. Reports that a concurrent decision of another thread misses are
   * read by the next one. Returns false if another thread is deciding.
   */
  decide<Rules>(ruler: Ruler<Rules>, rules: Rules, nowNs: number, isNews?: boolean): boolean;
  /** Asks a coordinator elsewhere to read the members' counters at once. */
  notify?(): void;
  /** The members as a ruler sees them. A coordinator elsewhere does not show them. */
  membersOf?(ruler: Ruler): MembersView;
  /** Tells a coordinator elsewhere that a member has set the weight of a group; null: has given it up. */
  setGroup?(page: MemberPage, name: string, weight: number | null): void;
  /** Gives a member a line to the agent of this name, which runs next to a coordinator elsewhere. */
  line?(page: MemberPage, agent: string, events: AgentLineEvents): void;
  /** Notifies a member of changed grants with the next announcement. */
  markChanged?(member: number): void;
  /** Whether members of this view are to be notified. */
  readonly hasChanges: boolean;
  /** Returns, and clears, the rows of members that must act on changed grants at once, each once. */
  takeChanges(): number[];
  /**
   * A coordinator elsewhere calls `news` when it has changes that did not originate here, and `beat` when the members'
   * usage counters are due.
   */
  listen?(news: () => void, beat: () => void): void;
}

export class Coordinator implements DeviceCoordinator {
  readonly members: MemberTable;
  private readonly tenants: Tenants;
  /** Rows of this view that must act on changed grants and have not been notified yet. */
  private changes: number[] = [];
  /** By row, 1: this view notifies the member. Members of other views are notified there. */
  private readonly ownRows: Uint8Array;
  /** By row, 1: the row is among the changes. */
  private readonly isChanged: Uint8Array;
  /** By ruler, from its first decision on. */
  private readonly rulings = new Map<string, Ruling>();
  private readonly silence: Silence;

  /** @param silence how it is known that a member is silent */
  constructor(members: MemberTable = new MemberTable(coordinatorMemory()), silence: Silence = 'by rules') {
    this.members = members;
    this.silence = silence;
    this.tenants = new Tenants(members);
    this.ownRows = new Uint8Array(members.capacity);
    this.isChanged = new Uint8Array(members.capacity);
  }

  join(tenant: string | number): MemberPage | null {
    const id = typeof tenant === 'number' ? tenant : tenantId(tenant);
    const page = this.members.join(tenant === '' ? null : id);
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

  setLink(linkGbps: number): void {
    this.members.linkGbps = linkGbps;
  }

  decide<Rules>(ruler: Ruler<Rules>, rules: Rules, nowNs: number, isNews = true): boolean {
    const { members } = this;
    const ruling = this.rulings.get(ruler.name) ?? this.begin(ruler);
    if (!isNews && !this.isRested(ruling, nowNs)) return true;
    if (!members.tryLock(nowNs)) return false;
    ruling.lastNs = nowNs;
    try {
      ruling.decider.decide(rules, nowNs, this.markChanged);
    } finally {
      members.unlock();
    }
    return true;
  }

  /** Whether a ruler would decide now about reports that are no news: long enough after its last decision. */
  isDue(ruler: Ruler, nowNs: number): boolean {
    const ruling = this.rulings.get(ruler.name);
    return ruling === undefined || this.isRested(ruling, nowNs);
  }

  private isRested({ lastNs }: Ruling, nowNs: number): boolean {
    return nowNs - lastNs >= this.members.rowLimit * MIN_PASS_NS_PER_MEMBER;
  }

  /** Lays out the columns of a ruler; the first call binds them. */
  private begin<Rules>(ruler: Ruler<Rules>): Ruling {
    const { members, tenants } = this;
    const view = new Members(members, tenants, members.layout.add(ruler), this.silence);
    // Rules are those of the same ruler.
    const decider = ruler.begin(view) as Decider<unknown>;
    const ruling = { view, decider, lastNs: Number.NEGATIVE_INFINITY };
    this.rulings.set(ruler.name, ruling);
    return ruling;
  }

  /** What the tenant of a member gets by a ruler and why, for people. */
  describe(ruler: Ruler, member: number): Description {
    const { decider } = this.rulings.get(ruler.name) ?? this.begin(ruler);
    this.tenants.group();
    return decider.describe?.(this.tenants.tenantOf(member)) ?? {};
  }

  membersOf(ruler: Ruler): MembersView {
    return (this.rulings.get(ruler.name) ?? this.begin(ruler)).view;
  }

  get capacity(): number {
    return this.members.capacity;
  }

  readonly markChanged = (member: number): void => {
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
