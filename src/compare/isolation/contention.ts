/**
 * What two applications compete for, and what the first is due, from the parameters of the device alone: decided before
 * any run. Every message occupies shared resources of both hosts for some time, and contexts, regions and pages occupy
 * entries of caches. Two applications compete where both together want more than there is.
 */
import { AppCosts } from '../../mix/nics/costs.ts';
import type { App } from '../../mix/resolve.ts';
import { AT_PEER, Cost, capacitiesOf, TIMED } from '../../policies/kit/index.ts';
import type { NicParams } from '../../sim/profile/params.ts';

/** What a victim and an attacker both want. */
export interface Contention {
  /** The resource of which they want the most, and its host: `link out of host 0`. */
  readonly resource: string;
  /** What all those resources leave the victim, in Gbit/s of payload: half, or what the attacker leaves if that is more. */
  readonly dueGbps: number;
}

/** By resource of a host: the part of it that an application takes, and would take if nothing else limited it. */
type Wants = ReadonlyMap<string, number>;

/** Half of a resource is the share of one of two tenants of equal weight. */
const HALF = 0.5;
/** Who wants less of a resource than this, such as the link for requests of READs, does not compete for it. */
const NEGLIGIBLE = 0.05;

/** What the victim and the attacker compete for; null: the device has enough for both. */
export function contentionOf(victim: App, attacker: App, params: Readonly<NicParams>): Contention | null {
  if (!moves(attacker)) return null;
  const rate = rateOf(victim, params);
  const [own, other] = [victim, attacker].map((app) => wantsOf(app, params));
  let resource = '';
  let most = 1;
  let due = 1;
  for (const [name, part] of own) {
    const others = other.get(name) ?? 0;
    const all = part + others;
    if (Math.min(part, others) < NEGLIGIBLE || all <= 1) continue;
    due = Math.min(due, Math.max(HALF, 1 - others) / part);
    if (all <= most) continue;
    most = all;
    resource = name;
  }
  return resource === '' ? null : { resource, dueGbps: due * rate * victim.minBytes * 8 };
}

/** Messages per ns if nothing else uses the device: as many as its queue pairs, cores, pauses, limits and the device allow. */
function rateOf(app: App, params: Readonly<NicParams>): number {
  const ownNs = [
    params.wqeGapNs / app.qps,
    app.thinkNs / (app.qps * app.depth),
    app.rateGbps === 0 ? 0 : (app.minBytes * 8) / (app.rateGbps * app.qps),
    (params.postWrNs + (params.postCallNs + params.doorbellNs + params.pollHitNs) / app.batch) / app.cores,
  ];
  const busiestNs = Math.max(...ownNs, ...timesOf(app, params).values());
  return 1 / busiestNs;
}

function wantsOf(app: App, params: Readonly<NicParams>): Wants {
  const rate = rateOf(app, params);
  const wants = new Map<string, number>();
  for (const [name, ns] of timesOf(app, params)) if (ns > 0) wants.set(name, ns * rate);
  for (const host of new Set([app.host, app.to])) {
    const ends = app.host === app.to ? 2 : 1;
    const { regions, pages } = translationsOf(app, params);
    wants.set(`contexts of host ${host}`, (ends * app.qps) / params.qpcEntries);
    wants.set(`region entries of host ${host}`, (ends * regions) / params.mptEntries);
    wants.set(`page entries of host ${host}`, (ends * pages) / params.mttEntries);
  }
  return wants;
}

/** Regions, and pages that its messages touch, of all contexts at one end. */
function translationsOf({ memory, contexts, qps, maxBytes }: App, { pageBytes }: Readonly<NicParams>) {
  if (memory === null) return { regions: contexts, pages: Math.ceil((qps * maxBytes) / pageBytes) };
  const regions = contexts * memory.regions;
  return { regions, pages: regions * Math.ceil(memory.regionBytes / pageBytes) };
}

/** Whether an application moves messages: not if it only registers, or if no receive lets its SENDs arrive. */
function moves({ isRegistering, op, transport, receives }: App): boolean {
  return !isRegistering && !(op === 'send' && transport === 'rc' && receives === 0);
}

/** How long each message occupies the shared resources of the hosts, in ns. */
function timesOf(app: App, params: Readonly<NicParams>): Map<string, number> {
  const { host, to } = app;
  const costs = new AppCosts(params, [app]);
  const cost = costs.of(app);
  const nsPerUnit = capacitiesOf(costs.facts, host === to ? params.loopbackGbps : params.linkGbps);
  const times = new Map<string, number>();
  const add = (name: string, ns: number) => times.set(name, (times.get(name) ?? 0) + ns);
  for (const [word, resource] of TIMED) {
    const isLink = word === Cost.LINK_OUT || word === Cost.LINK_IN;
    const name = isLink && host === to ? 'loopback' : resource;
    add(`${name} of host ${host}`, cost[word] * nsPerUnit[word]);
    // What leaves the requester's side of a loopback is what arrives at the other.
    if (!isLink || host !== to) add(`${name} of host ${to}`, cost[AT_PEER + word] * nsPerUnit[word]);
  }
  return times;
}
