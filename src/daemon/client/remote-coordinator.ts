/**
 * The coordinator of a device as its client sees it. Members write their counters into memory that the daemon
 * reads, and read its grants. While there is no daemon, they use their own memory, and nothing waits for a daemon.
 */
import { type AgentLine, type AgentLineEvents, requireWords } from '../../coordinator/agent.ts';
import type { DeviceCoordinator } from '../../coordinator/coordinator.ts';
import type { Columned, LayoutNames } from '../../coordinator/layout.ts';
import * as M from '../../coordinator/member-table.ts';
import { NO_RATES, type TargetRates } from '../../coordinator/rates.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { ENOMEM } from '../../verbs/constants.ts';
import { NoResourcesError } from '../../verbs/errors.ts';
import { type Labels, TRAFFIC_NAMES } from '../../verbs/labels.ts';
import { TELLS } from '../budgets.ts';
import { columnsIn, type Row, SEATS_PER_CLIENT } from '../pages.ts';
import type { GivenGroups, GivenLabels, GivenRates } from '../protocol.ts';
import { PATIENCE_MS } from './patience.ts';

/** Clock readings cost as much as this many calls (a power of two). */
const CALLS_PER_POLL = 8;

/** A daemon in busy mode that gives no sign of life for this long is stopped. */
const STALLED_MS = 500;

/** Grants, by ruler and column, until a daemon has granted something. */
export type StandaloneGrants = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** The grants that a tenant's members had last, by ruler. */
export type LastGrants = ReadonlyMap<string, Float64Array>;

/** What a context of a tenant was granted last, and the daemon's name of the tenant. */
export interface LastGranted {
  readonly tenant: string;
  readonly grants: LastGrants;
  readonly rates: TargetRates;
}

/** What a member may do until a daemon has granted something. */
function standaloneGrant(ruler: Columned, index: number, given: StandaloneGrants): number {
  const column = ruler.grants[index];
  return given[ruler.name]?.[column.name] ?? column.alone ?? column.default;
}

/** The columns of one ruler: the daemon's while there is a seat, and the member's own otherwise. */
class View implements MemberColumns {
  readonly ruler: Columned;
  reports: Float64Array;
  grants: Float64Array;
  /** The grants as of the last notification. */
  private readonly notified: Float64Array;
  private readonly standalone: Float64Array;
  /** The grant that is a sign of life (-1: none), its last value, and when that was new. */
  private readonly lifeAt: number;
  private life = Number.NaN;
  private lifeMs = 0;

  /** @param last what the member's tenant was granted last; its part of that is still to be granted */
  constructor(ruler: Columned, standalone: StandaloneGrants, last: LastGrants | null) {
    this.ruler = ruler;
    this.lifeAt = ruler.grants.findIndex(({ orphaned }) => orphaned !== undefined);
    this.reports = Float64Array.from(ruler.reports, (column) => column.default);
    const known = last?.get(ruler.name);
    const isKnown = (i: number) => known !== undefined && known[i] !== ruler.grants[i].default;
    this.standalone = Float64Array.from(ruler.grants, (_, i) =>
      isKnown(i) ? known![i] : standaloneGrant(ruler, i, standalone),
    );
    this.grants = this.standalone.map((value, i) =>
      isKnown(i) ? (ruler.grants[i].joining ?? value) : value,
    );
    this.notified = this.grants.slice();
  }

  /** No grants will come for the time being. */
  goAlone(): void {
    this.grants = this.standalone.slice();
  }

  /** Writes the reports into a row of the daemon, which is about to read them. */
  copyTo(row: Row, layout: LayoutNames): void {
    columnsIn(row, layout, this.ruler)?.reports.set(this.reports);
  }

  /** Returns false if the daemon has no such ruler. */
  attach(row: Row, layout: LayoutNames): boolean {
    const columns = columnsIn(row, layout, this.ruler);
    if (columns === null) return false;
    columns.reports.set(this.reports);
    this.reports = columns.reports;
    this.grants = columns.grants;
    return true;
  }

  /** The last grants stay in force, except for those that the daemon had yet to make. */
  detach(): void {
    const { grants: columns } = this.ruler;
    this.reports = this.reports.slice();
    this.grants = this.grants.map((value, i) =>
      value === columns[i].default ? this.standalone[i] : (columns[i].orphaned ?? value),
    );
  }

  /** Whether a grant that is a sign of life, and says that there is life, has the value that it had at the last call. */
  private get isUnchanged(): boolean {
    const { grants, lifeAt } = this;
    const known = this.life;
    this.life = grants[lifeAt];
    return known === this.life && known !== this.ruler.grants[lifeAt].orphaned;
  }

  /** Looks for a sign of life. @returns whether there has been none for STALLED_MS */
  checkLife(nowMs: number): boolean {
    if (this.lifeAt < 0) return false;
    if (!this.isUnchanged) this.lifeMs = nowMs;
    return nowMs - this.lifeMs > STALLED_MS;
  }

  get hasChanged(): boolean {
    const { grants } = this;
    return this.notified.some((value, i) => grants[i] !== value);
  }

  markNotified(): void {
    this.notified.set(this.grants);
  }
}

/** A member's line to an agent in the daemon. */
export interface RemoteLine extends AgentLine {
  readonly agent: string;
  readonly events: AgentLineEvents;
}

/** A member of this process. Its columns are the daemon's while it has a seat there. */
export class RemoteMember implements M.MemberPage {
  /** Its row among the members of the device in this thread. */
  readonly row: number;
  readonly device: string;
  readonly tenant: string;
  /** Labels by the daemon, which stay when it goes. */
  labels: Partial<Labels> = {};
  private hasNewLabels = false;
  /** Weights of groups by the daemon, which stay when it goes, and the names of those that a program cannot change. */
  groups: ReadonlyMap<string, number> = new Map();
  private readonly fixedGroups = new Set<string>();
  /** Groups that the program has created, and those of which the daemon does not know yet. */
  readonly ownGroups = new Map<string, number>();
  readonly unsentGroups = new Set<string>();
  /** Rates of groups and queue pairs that the daemon gives, and their version. They stay when the daemon ends. */
  rates: TargetRates;
  private ratesVersion = 0;
  /** How many queue pairs have each rate of a version, if the daemon does not know that yet. */
  unsentRated: { readonly version: number; readonly qps: readonly number[] } | null = null;
  isStalled = false;
  /** Its seat in the client's pages; -1 for none. */
  seatNumber = -1;
  /** When it joined, if the daemon has not answered yet and its tenant is known; otherwise Infinity. */
  private joinedMs = Number.POSITIVE_INFINITY;
  /** Why it has no seat; '' if it has one, or may get one. */
  refusal = '';
  assignedTenant: string | undefined;
  private readonly last: LastGrants | null;
  private readonly own: View;
  private readonly views = new Map<string, View>();
  private readonly standalone: StandaloneGrants;
  private readonly link: DaemonLink;
  private seat: { readonly row: Row; readonly layout: LayoutNames } | null = null;
  /** By agent. */
  readonly lines = new Map<string, RemoteLine>();
  private calls = 0;

  constructor(
    of: Pick<RemoteMember, 'row' | 'device' | 'tenant'>,
    standalone: StandaloneGrants,
    link: DaemonLink,
  ) {
    const known = link.lastGrants?.(of.device, of.tenant) ?? null;
    this.last = known?.grants ?? null;
    this.assignedTenant = known?.tenant;
    // Otherwise, the queue pairs of a new context would have no rates until the daemon has answered.
    this.rates = known?.rates ?? NO_RATES;
    if (known !== null) this.joinedMs = performance.now();
    this.link = link;
    this.row = of.row;
    this.device = of.device;
    this.tenant = of.tenant;
    this.standalone = standalone;
    this.own = this.columns(M.MEMBER);
  }

  get counters(): Float64Array {
    return this.own.reports;
  }

  get grants(): Float64Array {
    return this.own.grants;
  }

  /** Writes the reports into the daemon's memory before the daemon reads there. */
  copyTo(row: Row, layout: LayoutNames): void {
    let at = 0;
    for (const { defaults } of layout) {
      row.counters.set(defaults, at);
      at += defaults.length;
    }
    for (const view of this.views.values()) view.copyTo(row, layout);
  }

  /** The daemon has confirmed the seat. */
  attach(row: Row, layout: LayoutNames): void {
    this.seat = { row, layout };
    this.refusal = '';
    this.joinedMs = Number.POSITIVE_INFINITY;
    for (const view of this.views.values()) this.attachView(view);
  }

  private attachView(view: View): void {
    const { seat, device } = this;
    if (seat !== null && !view.attach(seat.row, seat.layout)) this.link.lacksRuler(view.ruler.name, device);
  }

  /** Looks for a sign of life of a daemon in busy mode. */
  checkLife(nowMs: number): void {
    let isStalled = false;
    for (const view of this.views.values()) if (view.checkLife(nowMs)) isStalled = true;
    this.isStalled = isStalled;
    if (nowMs - this.joinedMs > PATIENCE_MS) this.goAlone();
  }

  /** No answer is to be expected, so the last grants of the tenant are in force. */
  goAlone(): void {
    this.joinedMs = Number.POSITIVE_INFINITY;
    if (this.seat === null) for (const view of this.views.values()) view.goAlone();
  }

  get hasSeat(): boolean {
    return this.seat !== null;
  }

  /** The present grants, by ruler. */
  get granted(): LastGrants {
    return new Map([...this.views].map(([name, { grants }]) => [name, grants.slice()]));
  }

  awaitGrants(): void {
    if (this.seat !== null) return;
    if (this.last === null) this.link.awaitSeat?.(this);
    if (this.seat !== null || this.refusal === '') return;
    throw new NoResourcesError(`createQp: this context has no seat at the daemon: ${this.refusal}`, {
      verb: 'createQp',
      errno: ENOMEM,
    });
  }

  awaitCounted(): void {
    if (this.seat === null) this.link.awaitSeat?.(this);
    const isCounted = () =>
      this.grants[M.COUNTED_QPS] === this.counters[M.QPS] || this.grants[M.MAX_QPS] === 0;
    if (this.seat !== null) this.link.awaitGrant?.(isCounted);
  }

  /** The daemon has gone. */
  detach(): void {
    this.seatNumber = -1;
    if (this.seat === null) this.goAlone();
    if (this.seat === null) return;
    this.seat = null;
    for (const view of this.views.values()) view.detach();
    // Another daemon would charge it again.
    this.counters[M.PAID_REQUESTS] = 0;
    this.counters[M.PAID_BYTES] = 0;
  }

  columns(ruler: Columned): View {
    const known = this.views.get(ruler.name);
    if (known !== undefined) return known;
    const view = new View(ruler, this.standalone, this.last);
    this.views.set(ruler.name, view);
    this.attachView(view);
    return view;
  }

  beat(): void {
    this.counters[M.HEARTBEAT]++;
    this.calls = (this.calls + 1) & (CALLS_PER_POLL - 1);
    if (this.calls === 0) this.link.poll();
  }

  pulse(): boolean {
    this.counters[M.HEARTBEAT]++;
    return this.link.poll();
  }

  setLabels({ traffic, ...labels }: GivenLabels): void {
    this.labels = { ...labels, ...(traffic !== undefined && { traffic: TRAFFIC_NAMES.indexOf(traffic) }) };
    this.hasNewLabels = true;
  }

  /** The daemon gives rates of groups and queue pairs; undefined: none. */
  setRates(given: GivenRates | undefined): void {
    if (given === undefined && this.rates.size === 0) return;
    const rates = Object.entries(given?.rates ?? {});
    this.rates = new Map(rates.map(([target, [gbps, sharers]]) => [target, { gbps, sharers }]));
    this.ratesVersion = given?.version ?? 0;
    this.hasNewLabels = true;
  }

  countRated(qps: readonly number[]): void {
    this.unsentRated = { version: this.ratesVersion, qps };
    this.link.declared();
  }

  /** The daemon gives weights of groups; with `isAll`, those that are absent have none. */
  setGroups({ groups, fixed, isAll = false }: GivenGroups): void {
    const weights = new Map(isAll ? [] : this.groups);
    if (isAll) this.fixedGroups.clear();
    for (const [name, weight] of Object.entries(groups)) {
      this.fixedGroups.delete(name);
      if (weight === null) weights.delete(name);
      // What the program has set meanwhile is newer.
      else if (fixed.includes(name) || !this.unsentGroups.has(name)) weights.set(name, weight);
    }
    for (const name of fixed) this.fixedGroups.add(name);
    this.groups = weights;
    this.hasNewLabels = true;
  }

  /** The program has set the weight of a group; null: it has given up the group. */
  setOwnGroup(name: string, weight: number | null): void {
    if (weight === null) this.ownGroups.delete(name);
    else this.ownGroups.set(name, weight);
    this.unsentGroups.add(name);
    if (this.fixedGroups.has(name) || !this.groups.has(name)) return;
    // Without a daemon, other processes of the tenant may still have the group, but nothing would ever say so.
    if (weight === null && this.seat !== null) return;
    const weights = new Map(this.groups);
    if (weight === null) weights.delete(name);
    else weights.set(name, weight);
    this.groups = weights;
  }

  get hasChanged(): boolean {
    if (this.hasNewLabels) return true;
    for (const view of this.views.values()) if (view.hasChanged) return true;
    return false;
  }

  markNotified(): void {
    this.hasNewLabels = false;
    for (const view of this.views.values()) view.markNotified();
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
  /** A counter that affects others has changed. */
  signal(): void;
  /** The daemon has no ruler of this name and these columns, so members keep what they may do alone. */
  lacksRuler(ruler: string, device: string): void;
  /** A member has a new line. */
  lineAdded(member: RemoteMember, line: RemoteLine): void;
  /** A member has something to declare (RemoteMember.unsentGroups, unsentRated). */
  declared(): void;
  /** Tells the agent something, if the member has a seat in a daemon that runs the agent. */
  /** Returns false if the words are lost because there were too many messages. */
  tell(member: RemoteMember, agent: string, words: ArrayLike<number>): boolean;
  /**
   * Called while the program runs: handles what the daemon has sent even if the event loop is blocked. Returns whether it
   * is blocked, and a poll was due.
   */
  poll(): boolean;
  /** What a tenant (as the program names it) was granted last at a device, and its name at the daemon. Null: unknown. */
  lastGrants?(device: string, tenant: string): LastGranted | null;
  /** Waits until the member has a seat, is refused, or will get no answer for the time being. */
  awaitSeat?(member: RemoteMember): void;
  /** Waits until the daemon has granted something, or does not answer. */
  awaitGrant?(isGranted: () => boolean): void;
}

export class RemoteCoordinator implements DeviceCoordinator {
  readonly capacity = SEATS_PER_CLIENT;
  private readonly device: string;
  private readonly link: DaemonLink;
  private readonly members: (RemoteMember | undefined)[] = [];
  private readonly standalone: StandaloneGrants;

  constructor(device: string, link: DaemonLink, standalone: StandaloneGrants = {}) {
    this.device = device;
    this.link = link;
    this.standalone = standalone;
  }

  join(tenant: string): M.MemberPage | null {
    let index = 0;
    while (this.members[index] !== undefined) index++;
    if (index >= this.capacity) return null;
    const member = new RemoteMember({ row: index, device: this.device, tenant }, this.standalone, this.link);
    this.members[index] = member;
    this.link.memberJoined(member);
    return member;
  }

  leave({ row: index }: M.MemberPage): void {
    const member = this.members[index];
    if (member === undefined) return;
    this.members[index] = undefined;
    member.lines.clear();
    this.link.memberLeft(member);
  }

  setGroup({ row }: M.MemberPage, name: string, weight: number | null): void {
    this.members[row]?.setOwnGroup(name, weight);
    this.link.declared();
  }

  listen(onNews: () => void, onBeat: () => void): void {
    this.link.listen(onNews, onBeat);
  }

  line({ row }: M.MemberPage, agent: string, events: AgentLineEvents): void {
    const member = this.members[row];
    if (member === undefined) return;
    const tell = (words: ArrayLike<number>) => {
      requireWords(words);
      return member.lines.get(agent) !== line || this.link.tell(member, agent, words);
    };
    const line: RemoteLine = { agent, events, tell, intervalNs: 1e9 / TELLS.perS };
    member.lines.set(agent, line);
    this.link.lineAdded(member, line);
  }

  /** The daemon decides by its own rules and checks its members periodically. */
  decide(_ruler: unknown, _rules: unknown, _nowNs: number, isNews = true): boolean {
    this.link.poll();
    if (isNews) this.link.signal();
    return true;
  }

  notify(): void {
    this.link.signal();
  }

  get hasChanges(): boolean {
    return this.members.some((member) => member?.hasChanged === true);
  }

  takeChanges(): number[] {
    const changed = this.members.filter((member) => member?.hasChanged === true) as RemoteMember[];
    for (const member of changed) member.markNotified();
    return changed.map(({ row: index }) => index);
  }
}
