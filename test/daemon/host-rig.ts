/** Hosts of the daemon, and processes that are their clients, without a socket between them. */
import type * as M from '../../src/coordinator/member-table.ts';
import {
  type DaemonLink,
  RemoteCoordinator,
  type RemoteMember,
} from '../../src/daemon/client/remote-coordinator.ts';
import { Client } from '../../src/daemon/devices.ts';
import { Host, type HostOptions } from '../../src/daemon/host.ts';
import { type PageShape, rowAt } from '../../src/daemon/pages.ts';
import type { GivenGroups } from '../../src/daemon/protocol.ts';
import { type Identity, NO_LABELS } from '../../src/daemon/rules.ts';
import { RULINGS, SHAPE } from '../support/columns.ts';

export const RULES = { qNumAllow: 1, qNumCapa: 9, selective: false };
export const LINK_GBPS = 100;

export const hostOf = (more: Pick<HostOptions, 'inspectProcess'> = {}) =>
  new Host({
    rulings: RULINGS,
    linkGbps: (device) => (device.startsWith('sim') ? LINK_GBPS : null),
    ...more,
  });
export const identity = (tenant: string, more: Partial<Identity> = {}): Identity => ({
  tenant,
  weight: 1,
  gbps: null,
  labels: NO_LABELS,
  maxQps: 0,
  maxRequestsPerS: 0,
  hasTenants: false,
  ...more,
});
export const pages = (shape: PageShape = SHAPE) => ({
  counters: new Float64Array(shape.reportsBytes / 8),
  grants: new Float64Array(shape.grantsBytes / 8),
});

/** A link on which nothing arrives. Members that join are added to `seats`. */
export const silentLink = (seats: RemoteMember[], more: Partial<DaemonLink> = {}): DaemonLink => ({
  listen() {},
  memberJoined: (seat: RemoteMember) => void seats.push(seat),
  memberLeft() {},
  signal() {},
  poll: () => false,
  lacksRuler() {},
  declared() {},
  lineAdded() {},
  tell: () => true,
  ...more,
});

/** A process: its client at the host, and its end of the link. */
export class Process implements DaemonLink {
  readonly client: Client;
  private readonly host: Host;
  private listeners: { readonly onNews: () => void; readonly onBeat: () => void }[] = [];
  private free = 0;
  private readonly members = new Map<number, RemoteMember>();
  nowNs = 0;

  constructor(host: Host, tenant: string, more: Partial<Identity> = {}, pid = 4711) {
    this.host = host;
    this.client = new Client(identity(tenant, more), pages(host.shape), pid);
  }

  listen(onNews: () => void, onBeat: () => void): void {
    this.listeners.push({ onNews, onBeat });
  }

  memberJoined(member: RemoteMember): void {
    member.seatNumber = this.free++;
    const why = this.host.join(this.client, member.seatNumber, member.device, this.nowNs, member.tenant);
    if (why !== null) throw new Error(why);
    this.host.pass(this.nowNs);
    member.attach(rowAt(this.client.pages, member.seatNumber, this.host.shape), this.host.layout);
    member.setLabels(this.host.giveLabels(this.client, member.seatNumber));
    member.setRates(this.client.seats.get(member.seatNumber)?.tenant.rates.given);
    member.assignedTenant = this.client.seats.get(member.seatNumber)?.tenant.name;
    this.members.set(member.seatNumber, member);
  }

  poll(): boolean {
    return false;
  }

  declared(): void {
    for (const [seatNumber, member] of this.members) {
      const seat = this.client.seats.get(seatNumber);
      const { unsentGroups, ownGroups, unsentRated } = member;
      member.unsentRated = null;
      if (seat !== undefined && unsentRated !== null)
        this.host.rates.report(seat, unsentRated.version, unsentRated.qps);
      const names = [...unsentGroups];
      unsentGroups.clear();
      const groups = Object.fromEntries(names.map((name) => [name, ownGroups.get(name) ?? null]));
      if (seat !== undefined) this.host.groups.setBy(seat, groups);
    }
  }

  /** Weights of groups of the tenant of this seat have changed. */
  regroup(seatNumber: number, given: GivenGroups): void {
    this.members.get(seatNumber)?.setGroups(given);
    this.notify();
  }

  lineAdded(): void {}
  tell(): boolean {
    return true;
  }

  lacksRuler(ruler: string): void {
    throw new Error(`no ruler ${ruler}`);
  }

  memberLeft(member: RemoteMember): void {
    this.members.delete(member.seatNumber);
    this.host.leave(this.client, member.seatNumber, this.nowNs);
    this.host.pass(this.nowNs);
  }

  signal(): void {
    this.host.markDirty(this.client);
    this.host.pass(this.nowNs);
  }

  /** Labels of this seat have changed. */
  relabel(seatNumber: number): void {
    this.members.get(seatNumber)?.setLabels(this.host.giveLabels(this.client, seatNumber));
    this.members.get(seatNumber)?.setRates(this.client.seats.get(seatNumber)?.tenant.rates.given);
    this.notify();
  }

  /** The daemon has gone. */
  end(): void {
    for (const member of this.members.values()) member.detach();
    this.members.clear();
  }

  notify(): void {
    for (const { onNews } of this.listeners) onNews();
  }

  /** Every client does this every 20 ms. */
  beat(): void {
    for (const { onBeat } of this.listeners) onBeat();
    this.notify();
  }

  join(device = 'sim0', tenant = ''): M.MemberPage {
    return new RemoteCoordinator(device, this).join(tenant) as M.MemberPage;
  }
}
