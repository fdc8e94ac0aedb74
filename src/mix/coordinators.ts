/**
 * The coordinators of the simulated hosts. By default, members decide at no cost, and see changed grants at once. With
 * `passNs`, the coordinator of a host has a core of its own, on which decisions wait for each other. With `grantNs`,
 * changed grants take that time to become visible. While a coordinator is down, it decides nothing.
 */
import { Coordinator, type DeviceCoordinator } from '../coordinator/coordinator.ts';
import type { Columned } from '../coordinator/layout.ts';
import { MEMBER, type MemberPage } from '../coordinator/member-table.ts';
import type { CoordinatorRegistry, CoordinatorScope, PeerDirectory } from '../coordinator/registry.ts';
import type { MemberColumns, MembersView, Ruler } from '../coordinator/ruler.ts';
import type { CoordinatorCosts } from '../sim/profile/params.ts';
import { NoDeviceError } from '../verbs/errors.ts';
import type { CoordinatorResult } from './result.ts';

/** The clock of the simulation. */
export interface VirtualTime {
  readonly clock: Float64Array;
  /** Calls `action` at this time. Actions with the same time are called in the order of these calls. */
  callAt(timeNs: number, action: () => void): void;
}

export class Coordinators {
  /** Policy registries, by host. */
  private readonly registries: CoordinatorRegistry[][];
  /** By policy entry, layer (innermost first) and GID: the registry of the host with that GID. */
  private readonly byGid: Map<string, CoordinatorRegistry>[][] = [];
  private readonly costs: Readonly<CoordinatorCosts>;
  /** By host. */
  private readonly cores: readonly CoordinatorCore[];

  constructor(time: VirtualTime, costs: Readonly<CoordinatorCosts>, hosts: number) {
    this.costs = costs;
    this.registries = Array.from({ length: hosts }, () => []);
    // Policies of one host must neither reach those of another through the simulation nor change its costs.
    const own = () => ({
      clock: time.clock,
      callAt: (atNs: number, act: () => void) => time.callAt(atNs, act),
    });
    this.cores = Array.from({ length: hosts }, () => new CoordinatorCore(own(), { ...costs }));
  }

  /** The number of hosts. */
  get hosts(): number {
    return this.cores.length;
  }

  /**
   * The coordinators for the policies of one host. Agents find agents of the same policy on hosts with the same entry.
   * @param entry the number of the policy entry in the mix
   */
  scopeOf(host: number, entry: number): CoordinatorScope {
    const core = this.cores[host];
    let layers = 0;
    return {
      create: () => {
        const created = new HostCoordinator(core);
        core.coordinators.push(created);
        return created;
      },
      requireOwn: (device) => requireOwn(host, device),
      added: (registry) => {
        this.registries[host].push(registry);
        return this.directoryOf(registry, entry, layers++);
      },
    };
  }

  /** Returns closures, so that a host cannot read another host's state. */
  private directoryOf(registry: CoordinatorRegistry, entry: number, layer: number): PeerDirectory {
    this.byGid[entry] ??= [];
    this.byGid[entry][layer] ??= new Map();
    const byGid = this.byGid[entry][layer];
    return {
      register: (gid) => {
        // A host cannot take over the GID of another.
        if (!byGid.has(gid)) byGid.set(gid, registry);
      },
      addressOf: (gid, kind) => byGid.get(gid)?.addressOf(gid, kind) ?? null,
    };
  }

  /** Takes the agents of a host out of order, or lets them continue. */
  setAgentsDown(host: number, isDown: boolean): void {
    for (const one of this.registries[host]) one.setAgentsDown(`sim${host}`, isDown);
  }

  /** From now on, the coordinator of a host decides nothing: grants stay, and reports and members are kept. */
  takeDown(host: number): void {
    this.cores[host].takeDown();
  }

  /** The coordinator of a host decides again, at once, by what members report now. */
  bringUp(host: number): void {
    this.cores[host].bringUp();
  }

  /** Stops the core of a host, which then continues with what it had begun. */
  stall(host: number, stallNs: number): void {
    this.cores[host].stall(stallNs);
  }

  private messagesOf(host: number): number {
    return this.registries[host].reduce((total, registry) => total + registry.agentMessages, 0);
  }

  /** What the coordinators have done; undefined if no policy uses one. */
  result(): CoordinatorResult | undefined {
    const { grantNs, passNs } = this.costs;
    const hosts = this.cores.flatMap(({ coordinators, passes }, host) =>
      coordinators.length === 0
        ? []
        : [{ host, passes, busyNs: passes * passNs, messages: this.messagesOf(host) }],
    );
    return hosts.length === 0 ? undefined : { grantNs, passNs, hosts };
  }
}

/** @throws NoDeviceError for the device of another host */
export function requireOwn(host: number, device: string): void {
  if (device === `sim${host}`) return;
  throw new NoDeviceError(
    `host ${host} has no device '${device}', only 'sim${host}': use context.device, and reach other hosts through agents`,
  );
}

/** A ruler at one coordinator, with the rules of its last decision. */
interface Ruling {
  readonly coordinator: HostCoordinator;
  readonly ruler: Ruler<unknown>;
  rules: unknown;
}

/** What the coordinators of one host share: policies inside each other have one each. */
class CoordinatorCore {
  readonly time: VirtualTime;
  readonly costs: Readonly<CoordinatorCosts>;
  readonly coordinators: HostCoordinator[] = [];
  passes = 0;
  isDown = false;
  /** Members of the host notice nothing before this time. */
  stalledUntilNs = 0;
  private busyUntilNs = 0;
  /** The pass that is being made, and the rulings that wait for it. */
  private running: { readonly ruling: Ruling } | null = null;
  private waiting: Ruling[] = [];

  constructor(time: VirtualTime, costs: Readonly<CoordinatorCosts>) {
    this.time = time;
    this.costs = costs;
  }

  get nowNs(): number {
    return this.time.clock[0];
  }

  takeDown(): void {
    this.isDown = true;
    this.running = null;
    this.waiting = [];
  }

  bringUp(): void {
    if (!this.isDown) return;
    this.isDown = false;
    for (const one of this.coordinators) one.decideAll();
  }

  stall(stallNs: number): void {
    const { nowNs } = this;
    this.busyUntilNs = Math.max(this.busyUntilNs, nowNs) + stallNs;
    this.stalledUntilNs = Math.max(this.stalledUntilNs, nowNs + stallNs);
  }

  /** Has a decision made when the core gets to it. It then reads the latest reports, so it need not wait twice. */
  request(ruling: Ruling): void {
    if (this.waiting.includes(ruling)) return;
    this.waiting.push(ruling);
    if (this.running === null) this.beginNext();
  }

  private beginNext(): void {
    const ruling = this.waiting.shift();
    if (ruling === undefined) return;
    this.running = { ruling };
    this.busyUntilNs = Math.max(this.busyUntilNs, this.nowNs) + this.costs.passNs;
    this.finish(this.running);
  }

  /** Ends a pass once the core has spent its time on it, unless the coordinator goes down before. */
  private finish(pass: { readonly ruling: Ruling }): void {
    this.time.callAt(this.busyUntilNs, () => {
      if (this.running !== pass) return;
      if (this.nowNs < this.busyUntilNs) {
        this.finish(pass);
        return;
      }
      this.running = null;
      const { coordinator } = pass.ruling;
      coordinator.pass(pass.ruling, this.nowNs);
      coordinator.announce();
      if (this.running === null) this.beginNext();
    });
  }
}

/** The grants of one ruler for one member. */
interface SentGrants {
  readonly page: Page;
  readonly ruler: Columned;
  readonly values: Float64Array;
}

function accept({ page, ruler, values }: SentGrants): void {
  page.columns(ruler).grants.set(values);
}

/** Changed grants on their way to members. */
interface Delivery {
  readonly dueNs: number;
  readonly grants: readonly SentGrants[];
  /** Members that must act on them at once. */
  readonly changed: readonly (Page | undefined)[];
}

/** The coordinator of one device, as the policies of one provider use it. */
class HostCoordinator implements DeviceCoordinator {
  private readonly core: CoordinatorCore;
  private readonly inner = new Coordinator();
  /** By row. */
  private readonly pages: (Page | undefined)[] = [];
  private readonly rulings = new Map<string, Ruling>();
  private deliveries: Delivery[] = [];
  /** Members whose changed grants have arrived. */
  private readonly changed = new Set<number>();
  private news: () => void = () => {};

  constructor(core: CoordinatorCore) {
    this.core = core;
  }

  get capacity(): number {
    return this.inner.capacity;
  }

  /** Until something is granted, a member may do what it may do without a coordinator, unless that is at once. */
  join(tenant: string | number): MemberPage | null {
    const { isDown, costs } = this.core;
    const page = this.inner.join(tenant);
    if (page === null) return null;
    const view = new Page(page, isDown || costs.grantNs > 0 || costs.passNs > 0);
    this.pages[page.row] = view;
    return view;
  }

  leave(page: MemberPage): void {
    if (this.pages[page.row] !== page) return;
    this.pages[page.row] = undefined;
    this.changed.delete(page.row);
    this.inner.leave(page);
  }

  membersOf(ruler: Ruler): MembersView {
    return this.inner.membersOf(ruler);
  }

  /** An agent has set grants itself, which take their way to members like those of a ruler. */
  markChanged(member: number): void {
    this.inner.markChanged(member);
    this.deliver(null);
  }

  setLink(linkGbps: number): void {
    this.inner.setLink(linkGbps);
  }

  listen(news: () => void): void {
    this.news = news;
  }

  decide<Rules>(ruler: Ruler<Rules>, rules: Rules, nowNs: number, isNews = true): boolean {
    const { core, inner } = this;
    if (ruler.byMembers === true) return inner.decide(ruler, rules, nowNs, isNews);
    const ruling = this.rulingOf(ruler);
    ruling.rules = rules;
    if (core.isDown || (!isNews && !inner.isDue(ruling.ruler, nowNs))) return true;
    if (core.costs.passNs === 0) return this.pass(ruling, nowNs);
    core.request(ruling);
    return true;
  }

  private rulingOf<Rules>(ruler: Ruler<Rules>): Ruling {
    const known = this.rulings.get(ruler.name);
    if (known !== undefined) return known;
    // Rules are those of the same ruler.
    const ruling = { coordinator: this, ruler: ruler as Ruler<unknown>, rules: undefined };
    this.rulings.set(ruler.name, ruling);
    return ruling;
  }

  /** All rulers decide, and members are notified. */
  decideAll(): void {
    const { core } = this;
    for (const ruling of this.rulings.values()) {
      if (core.costs.passNs > 0) core.request(ruling);
      else this.pass(ruling, core.nowNs);
    }
    this.announce();
  }

  /** Makes one decision. */
  pass({ ruler, rules }: Ruling, nowNs: number): boolean {
    if (!this.inner.decide(ruler, rules, nowNs)) return false;
    this.core.passes++;
    this.deliver(ruler);
    return true;
  }

  /** Notifies members of the changes that have arrived. */
  announce(): void {
    if (this.hasChanges) this.news();
  }

  /** Sends members the grants that have changed in a decision of this ruler; null: without a decision. */
  private deliver(ruler: Columned | null): void {
    const { core, inner } = this;
    const { grantNs } = core.costs;
    const grants = this.takeGrants(ruler);
    if (grantNs === 0) {
      for (const one of grants) accept(one);
      return;
    }
    const changed = inner.takeChanges().map((row) => this.pages[row]);
    if (grants.length + changed.length === 0) return;
    // The members see what was decided now, whatever is decided in the meantime.
    const sent = grants.map((one) => ({ ...one, values: one.values.slice() }));
    this.deliveries.push({ dueNs: core.nowNs + grantNs, grants: sent, changed });
    core.time.callAt(core.nowNs + grantNs, this.arrive);
  }

  /** The grants that members have yet to see, of each ruler that has changed any. */
  private takeGrants(ruler: Columned | null): SentGrants[] {
    const { pages } = this;
    const { marks, rowLimit, layout } = this.inner.members;
    const { places } = layout;
    const grants: SentGrants[] = [];
    for (let row = 0; row < rowLimit; row++) {
      const mark = marks[row];
      marks[row] = 0;
      const page = pages[row];
      if (page === undefined) continue;
      for (const place of places) {
        const isChanged =
          (mark & place.mark) !== 0 || (place.name === ruler?.name && page.isAloneUnder(place));
        if (isChanged && place.byMembers !== true)
          grants.push({ page, ruler: place, values: page.send(place) });
      }
    }
    return grants;
  }

  private readonly arrive = (): void => {
    const { core, deliveries } = this;
    const { nowNs, stalledUntilNs, time } = core;
    if (nowNs < stalledUntilNs) {
      time.callAt(stalledUntilNs, this.arrive);
      return;
    }
    while (deliveries.length > 0 && deliveries[0].dueNs <= nowNs) {
      const { grants, changed } = deliveries.shift()!;
      for (const one of grants) accept(one);
      for (const page of changed)
        if (page !== undefined && this.pages[page.row] === page) this.changed.add(page.row);
    }
    this.announce();
  };

  get hasChanges(): boolean {
    return this.changed.size > 0 || this.inner.hasChanges;
  }

  takeChanges(): number[] {
    const all = new Set([...this.changed, ...this.inner.takeChanges()]);
    this.changed.clear();
    return [...all];
  }
}

/** The columns of a member. It sees its grants when they arrive. */
class Page implements MemberPage {
  private readonly inner: MemberPage;
  private readonly isAlone: boolean;
  private readonly byRuler = new Map<string, MemberColumns>();
  /** Rulers by name that have granted it something. */
  private readonly granted = new Set<string>();

  /** @param isAlone whether the member begins with what it may do without a coordinator */
  constructor(inner: MemberPage, isAlone: boolean) {
    this.inner = inner;
    this.isAlone = isAlone;
  }

  get row(): number {
    return this.inner.row;
  }

  get counters(): Float64Array {
    return this.inner.counters;
  }

  get grants(): Float64Array {
    return this.columns(MEMBER).grants;
  }

  /** Whether the ruler has granted nothing yet, so that the member does what it may do without a coordinator. */
  isAloneUnder(ruler: Columned): boolean {
    return this.isAlone && !this.granted.has(ruler.name);
  }

  /** The grants that a ruler has decided, which are now on their way. */
  send(ruler: Columned): Float64Array {
    if (this.isAlone) this.granted.add(ruler.name);
    return this.inner.columns(ruler).grants;
  }

  columns(ruler: Columned): MemberColumns {
    const known = this.byRuler.get(ruler.name);
    if (known !== undefined) return known;
    const { reports, grants } = this.inner.columns(ruler);
    const alone = ruler.grants.map((column) => column.alone ?? column.default);
    const seen = this.isAlone ? Float64Array.from(alone) : grants.slice();
    const columns = { reports, grants: ruler.byMembers === true ? grants : seen };
    this.byRuler.set(ruler.name, columns);
    return columns;
  }

  beat(): void {
    this.inner.beat();
  }
}
