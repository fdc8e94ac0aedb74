/**
 * Weights of the groups of tenants. Programs set them, and the last weight counts; the rules and operators fix them. All
 * contexts of the tenant on the device receive the weights in force.
 */
import { isGroupName, MAX_GROUPS } from '../verbs/groups.ts';
import { isWeight } from '../verbs/labels.ts';
import type { GivenGroups } from './protocol.ts';

/** Contexts of programs and their groups: what a tenant may have of pairs of both on a device. */
const MAX_MEMBERSHIPS = 16_384;
/** Names with new weights of one tenant that wait to be sent, as a limit for new groups: they are sent slowly. */
const MAX_CHANGED = 4 * MAX_GROUPS;
/** Groups in one message, so that it fits a frame with the longest names. */
const GROUPS_PER_MESSAGE = 256;
/** New weights of one tenant that are sent together, and the time between. A tenant may have a thousand contexts. */
const GROUPS_PER_TURN = 32;
const TURN_NS = 20e6;
/**
 * Weights that the contexts of a tenant receive in that time, all together: a tenant may have a thousand contexts, each
 * of which receives a thousand weights when it joins.
 */
const WEIGHTS_PER_TURN = 4096;

/** A context with the groups that its program has created. */
export interface GroupSeat {
  readonly client: object;
  readonly seatNumber: number;
  readonly tenant: { readonly seats: Iterable<GroupSeat>; readonly groups: TenantGroups };
  /** Weights as the program last set them. */
  readonly groups: Map<string, number>;
  /** Whether the client has received the labels of the context, so that it must hear of changes. */
  readonly hasLabels: boolean;
}

/** The groups of one tenant at one device. */
export class TenantGroups {
  /** By name: the last weight that a program set, and the seats whose programs have created the group. */
  private readonly set = new Map<string, { weight: number; readonly seats: Set<GroupSeat> }>();
  private memberships = 0;
  /** Weights by the rules or an operator. */
  private fixed: ReadonlyMap<string, number> = new Map();
  /** Groups whose weights have changed since the contexts received them. */
  readonly changed = new Set<string>();
  /** The names of all groups, sorted; null: not sorted yet. */
  private sorted: readonly string[] | null = null;
  /** When everything sent so far has taken its time (WEIGHTS_PER_TURN). */
  private sentNs = Number.NEGATIVE_INFINITY;

  /** Null: no weight is in force. */
  weightOf(name: string): number | null {
    return this.fixed.get(name) ?? this.set.get(name)?.weight ?? null;
  }

  /** The groups that have a weight, by name. */
  get names(): readonly string[] {
    this.sorted ??= [...new Set([...this.fixed.keys(), ...this.set.keys()])].sort();
    return this.sorted;
  }

  /** Whether the contexts may receive more now. */
  maySend(nowNs: number): boolean {
    return this.sentNs <= nowNs + TURN_NS;
  }

  /** Notes that contexts have received weights. */
  noteSent(weights: number, nowNs: number): void {
    this.sentNs = Math.max(this.sentNs, nowNs) + (weights / WEIGHTS_PER_TURN) * TURN_NS;
  }

  /** What contexts receive of some groups. */
  given(names: readonly string[]): GivenGroups {
    const fixed = names.filter((name) => this.fixed.has(name));
    return { groups: Object.fromEntries(names.map((name) => [name, this.weightOf(name)])), fixed };
  }

  /** Takes over the weights by the rules and an operator. */
  fix(fixed: ReadonlyMap<string, number>): void {
    const before = this.fixed;
    this.fixed = fixed;
    this.sorted = null;
    for (const name of new Set([...before.keys(), ...fixed.keys()])) {
      if (before.get(name) !== fixed.get(name)) this.changed.add(name);
    }
  }

  /** A program has set a weight; null: its context has given up the group. Too many groups have no effect here. */
  setBy(seat: GroupSeat, name: string, weight: number | null): void {
    if (weight === null) {
      this.remove(seat, name);
      return;
    }
    const known = this.set.get(name);
    const isFull = this.set.size >= MAX_GROUPS || this.changed.size >= MAX_CHANGED;
    if (known === undefined && isFull) return;
    if (known?.seats.has(seat) !== true) {
      if (this.memberships >= MAX_MEMBERSHIPS) return;
      this.memberships++;
    }
    if (known === undefined) this.sorted = null;
    const group = known ?? { weight, seats: new Set() };
    group.weight = weight;
    group.seats.add(seat);
    this.set.set(name, group);
    seat.groups.set(name, weight);
    // The program may have been told another weight in the meantime, so it hears of this one in any case.
    this.changed.add(name);
  }

  private remove(seat: GroupSeat, name: string): void {
    seat.groups.delete(name);
    const group = this.set.get(name);
    if (group === undefined || !group.seats.delete(seat)) return;
    this.memberships--;
    if (group.seats.size > 0) return;
    this.set.delete(name);
    this.sorted = null;
    this.changed.add(name);
  }

  leave(seat: GroupSeat): void {
    for (const name of [...seat.groups.keys()]) this.remove(seat, name);
  }
}

/** A message to the context in a seat. */
export interface GroupMessage extends GivenGroups {
  readonly client: object;
  readonly seatNumber: number;
}

/** The tenants with weights to be sent, and when. */
export class GroupNews {
  private readonly tenants = new Set<GroupSeat['tenant']>();
  /** Seats that must receive all weights, and whether they must even if there are none. */
  private readonly seats = new Map<GroupSeat, boolean>();
  private nextNs = Number.NEGATIVE_INFINITY;

  /** Whether something is to be sent. */
  get isPending(): boolean {
    return this.tenants.size + this.seats.size > 0;
  }

  /** A program has set weights; null: its context has given up the group. Invalid ones have no effect. */
  setBy(seat: GroupSeat, groups: Readonly<Record<string, number | null>>): void {
    for (const [name, weight] of Object.entries(groups)) {
      if (isGroupName(name) && (weight === null || isWeight(weight)))
        seat.tenant.groups.setBy(seat, name, weight);
    }
    this.mark(seat.tenant);
  }

  /** Takes over the weights of a tenant by the rules and an operator. */
  fix(tenant: GroupSeat['tenant'], fixed: ReadonlyMap<string, number>): void {
    tenant.groups.fix(fixed);
    this.mark(tenant);
  }

  /** A seat was taken: its client receives all weights. */
  joined(seat: GroupSeat): void {
    this.seats.set(seat, false);
  }

  /** A context has left a seat, perhaps of another tenant, for this one. @param groups those that its program has created */
  moved(seat: GroupSeat, groups: ReadonlyMap<string, number>): void {
    this.seats.set(seat, true);
    this.setBy(seat, Object.fromEntries(groups));
  }

  left(seat: GroupSeat): void {
    seat.tenant.groups.leave(seat);
    this.seats.delete(seat);
    this.mark(seat.tenant);
  }

  private mark(tenant: GroupSeat['tenant']): void {
    if (tenant.groups.changed.size > 0) this.tenants.add(tenant);
  }

  /** The messages that are due. Weights of one tenant are sent in turns, so that no program keeps the daemon busy. */
  take(nowNs: number): GroupMessage[] {
    const messages: GroupMessage[] = [];
    for (const seat of this.seats.keys()) {
      const { groups } = seat.tenant;
      if (!seat.hasLabels || !groups.maySend(nowNs)) continue;
      messages.push(...this.all(seat));
      groups.noteSent(groups.names.length, nowNs);
    }
    if (nowNs < this.nextNs || this.tenants.size === 0) return messages;
    this.nextNs = nowNs + TURN_NS;
    for (const tenant of this.tenants)
      if (tenant.groups.maySend(nowNs)) this.takeChanged(tenant, nowNs, messages);
    return messages;
  }

  /** Adds the messages about some weights of a tenant that have changed. */
  private takeChanged(tenant: GroupSeat['tenant'], nowNs: number, messages: GroupMessage[]): void {
    const { groups, seats } = tenant;
    const names = [...groups.changed].slice(0, GROUPS_PER_TURN);
    for (const name of names) groups.changed.delete(name);
    if (groups.changed.size === 0) this.tenants.delete(tenant);
    const given = groups.given(names);
    const before = messages.length;
    for (const seat of seats) if (seat.hasLabels) messages.push(messageTo(seat, given));
    groups.noteSent((messages.length - before) * names.length, nowNs);
  }

  private all(seat: GroupSeat): GroupMessage[] {
    const { groups } = seat.tenant;
    const { names } = groups;
    const isNeeded = names.length > 0 || this.seats.get(seat) === true;
    this.seats.delete(seat);
    if (!isNeeded) return [];
    const messages = [messageTo(seat, { ...groups.given(names.slice(0, GROUPS_PER_MESSAGE)), isAll: true })];
    for (let i = GROUPS_PER_MESSAGE; i < names.length; i += GROUPS_PER_MESSAGE) {
      messages.push(messageTo(seat, groups.given(names.slice(i, i + GROUPS_PER_MESSAGE))));
    }
    return messages;
  }
}

function messageTo({ client, seatNumber }: GroupSeat, given: GivenGroups): GroupMessage {
  return { client, seatNumber, ...given };
}
