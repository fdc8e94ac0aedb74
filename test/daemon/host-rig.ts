/** Hosts of the daemon, and processes that are their clients, without a socket between them. */
import type * as M from '../../src/coordinator/member-table.ts';
import {
  type DaemonLink,
  RemoteCoordinator,
  type RemoteMember,
} from '../../src/daemon/client/remote-coordinator.ts';
import { Client, Host, type HostOptions } from '../../src/daemon/host.ts';
import { COUNTERS_BYTES, columnsAt, GRANTS_BYTES } from '../../src/daemon/pages.ts';
import type { Identity } from '../../src/daemon/rules.ts';

export const RULES = { qNumAllow: 1, qNumCapa: 9, selective: false };
export const LINK_GBPS = 100;

export const hostOf = (more: Pick<HostOptions, 'inspectProcess'> = {}) =>
  new Host({
    rules: RULES,
    linkGbps: (device) => (device.startsWith('sim') ? LINK_GBPS : null),
    ...more,
  });
export const identity = (tenant: string, more: Partial<Identity> = {}): Identity => ({
  tenant,
  weight: 1,
  gbps: null,
  class: null,
  maxQps: 0,
  maxRequestsPerS: 0,
  hasTenants: false,
  ...more,
});
export const pages = () => ({
  counters: new Float64Array(COUNTERS_BYTES / 8),
  grants: new Float64Array(GRANTS_BYTES / 8),
});

/** A process: its client at the host, and its end of the link. */
export class Process implements DaemonLink {
  readonly client: Client;
  private readonly host: Host;
  private listeners: { readonly onNews: () => void; readonly onBeat: () => void }[] = [];
  private free = 0;
  nowNs = 0;

  constructor(host: Host, tenant: string, more: Partial<Identity> = {}, pid = 4711) {
    this.host = host;
    this.client = new Client(identity(tenant, more), pages(), pid);
  }

  listen(onNews: () => void, onBeat: () => void): void {
    this.listeners.push({ onNews, onBeat });
  }

  memberJoined(member: RemoteMember): void {
    member.seatNumber = this.free++;
    const why = this.host.join(this.client, member.seatNumber, member.device, this.nowNs, member.tenant);
    if (why !== null) throw new Error(why);
    this.host.pass(this.nowNs);
    member.attach(columnsAt(this.client.pages, member.seatNumber));
  }

  poll(): void {}

  memberLeft(member: RemoteMember): void {
    this.host.leave(this.client, member.seatNumber, this.nowNs);
    this.host.pass(this.nowNs);
  }

  signal(): void {
    this.host.markDirty(this.client);
    this.host.pass(this.nowNs);
  }

  notify(): void {
    for (const { onNews } of this.listeners) onNews();
  }

  /** As each client does every 20 ms. */
  beat(): void {
    for (const { onBeat } of this.listeners) onBeat();
    this.notify();
  }

  join(device = 'sim0', tenant = ''): M.MemberPage {
    return new RemoteCoordinator(device, this, 1e5).join(tenant) as M.MemberPage;
  }
}
