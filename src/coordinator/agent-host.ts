/** The agents of one host at a device: their timers, peers and messages. */

import { alarmOf } from '../shim/timers/sleep-alarm.ts';
import { TimerHeap } from '../shim/timers/timer-heap.ts';
import { IsoverbsError, NoResourcesError } from '../verbs/errors.ts';
import type { Alarm, Provider } from '../verbs/provider.ts';
import {
  type Agent,
  type AgentActions,
  type AgentKind,
  type AgentLine,
  type AgentLineEvents,
  requireWords,
} from './agent.ts';
import type { AgentAddress, AgentCarrier, Frame } from './agent-carrier.ts';
import { AgentLink, HELLO_NS, type LinkEvents, NO_GID } from './agent-link.ts';
import type { MemberPage } from './member-table.ts';
import type { MembersView, Ruler } from './ruler.ts';
import { tenantId } from './tenants.ts';

/** What a host's agents need of its coordinator. */
export interface AgentCoordinator {
  members(ruler: Ruler): MembersView;
  changed(member: number): void;
  join(tenant: number, granted: () => void): MemberPage | null;
  leave(page: MemberPage): void;
  decide(ruler: Ruler, nowNs: number, isNews: boolean): void;
  /** Where the agents of this kind receive messages at the device that has this GID; null: that is not known. */
  addressOf(gid: string, kind: AgentKind): AgentAddress | null;
  /** Whether some agents can be reached without datagrams (AgentAddress.carrier). */
  readonly hasCarrier?: boolean;
  /** The device has been opened for agents. Its port has these GIDs. */
  opened(gids: readonly string[]): void;
  /** A handler of an agent has thrown. Absent: the exception goes to the event's caller. */
  failed?(agent: string, error: unknown): void;
}

/** Timers of the host itself. Those of agents have the agent's index in the lowest digits. */
const AGENTS = 64;
const HELLO_TIMER = AGENTS - 1;

interface Running {
  readonly kind: AgentKind;
  readonly agent: Agent;
  /** The hash of its name, by which peers address it. */
  readonly id: number;
  readonly out: AgentActions;
  /** By member. */
  readonly lines: Map<number, Line>;
  /** Peers that it watches. */
  readonly watched: Set<number>;
}

/** A member's line to an agent. */
interface Line {
  readonly end: AgentLine;
  readonly events: AgentLineEvents;
}

export class AgentHost {
  private readonly coordinator: AgentCoordinator;
  private readonly link: AgentLink;
  private readonly running: Running[] = [];
  private readonly timers = new TimerHeap();
  private readonly alarm: Alarm;
  private order = 0;
  /** The next deadline of the alarm; Infinity: none. */
  private alarmNs = Number.POSITIVE_INFINITY;
  private isGreeting = false;
  /** The agent that probes each peer: probes are the link's, one at a time. */
  private readonly probing: (Running | undefined)[] = [];
  private isClosed = false;
  private sent = 0;
  /** Members that agents have added. */
  private readonly guests = new Set<MemberPage>();

  /** @throws IsoverbsError if the device cannot be opened */
  constructor(provider: Provider, device: string, coordinator: AgentCoordinator) {
    this.coordinator = coordinator;
    const events: LinkEvents = {
      message: (peer, id, words) => {
        const to = this.running.find((one) => one.id === id);
        if (to !== undefined) this.raise(to, () => to.agent.onMessage?.(peer, words, to.out));
      },
      peer: (peer, change) => {
        for (const one of this.running) this.raise(one, () => one.agent.onPeer?.(peer, change, one.out));
        this.keepGreeting();
      },
      silent: (peer, isSilent) => {
        for (const one of this.running)
          if (one.watched.has(peer)) this.raise(one, () => one.agent.onSilent?.(peer, isSilent, one.out));
      },
      forget: (peer) => {
        for (const { agent } of this.running) if (agent.forgetPeer?.(peer) !== true) return false;
        for (const { watched } of this.running) watched.delete(peer);
        return true;
      },
      probe: (peer, latencyNs) => {
        const by = this.probing[peer];
        this.probing[peer] = undefined;
        if (by !== undefined) this.raise(by, () => by.agent.onProbe?.(peer, latencyNs, by.out));
      },
    };
    this.link = new AgentLink(provider, device, events, coordinator.hasCarrier);
    try {
      this.alarm = alarmOf(provider, this.link.context, 'nothing', () => this.fire());
      coordinator.opened(this.gids);
    } catch (error) {
      this.link.close();
      throw error;
    }
  }

  get qpNum(): number {
    return this.link.qpNum;
  }

  /** Messages that its agents have sent. Greetings are the link's. */
  get messages(): number {
    return this.sent;
  }

  /** The GIDs of the device's port. */
  get gids(): readonly string[] {
    return this.link.gids.filter((gid) => gid !== NO_GID);
  }

  /** A carrier has brought a frame. */
  receive(frame: Frame, carrier: AgentCarrier): void {
    this.link.receive(frame, carrier);
  }

  /** A carrier reports whether a peer is alive. */
  setAlive(peer: number, isAlive: boolean): void {
    this.link.setAlive(peer, isAlive);
  }

  /** Raises an event of an agent. */
  private raise({ kind }: Running, event: () => void): void {
    const { failed } = this.coordinator;
    if (failed === undefined) {
      event();
      return;
    }
    try {
      event();
    } catch (error) {
      failed(kind.name, error);
    }
  }

  /** Starts the agent of a kind, unless it runs. */
  start<Kind extends Agent>(kind: AgentKind<Kind>): Kind {
    const known = this.running.find((one) => one.kind.name === kind.name);
    // Agents of one name are of one kind.
    if (known !== undefined) return known.agent as Kind;
    if (this.running.length === HELLO_TIMER) {
      throw new NoResourcesError(`a device has at most ${HELLO_TIMER} agents; '${kind.name}' is one more`);
    }
    const agent = kind.create();
    const index = this.running.length;
    const out = this.actions(kind, index);
    const one: Running = { kind, agent, id: tenantId(kind.name), out, lines: new Map(), watched: new Set() };
    this.running.push(one);
    this.raise(one, () => agent.onStart?.(out));
    return agent;
  }

  /** Gives a member a line to the agent of a kind; starts the agent if needed. */
  line(kind: AgentKind, member: number, events: AgentLineEvents): AgentLine {
    this.start(kind);
    const one = this.running.find((running) => running.kind.name === kind.name)!;
    const { agent, out, lines } = one;
    const end = {
      intervalNs: 0,
      tell: (words: ArrayLike<number>) => {
        requireWords(words);
        if (lines.get(member)?.end === end && !this.link.isDown)
          this.raise(one, () => agent.onTold?.(member, Float64Array.from(words), out));
        return true;
      },
    };
    lines.set(member, { end, events });
    if (!this.link.isDown) events.onUp?.(end);
    return end;
  }

  lineOf({ name }: AgentKind, member: number): AgentLine | undefined {
    return this.running.find(({ kind }) => kind.name === name)?.lines.get(member)?.end;
  }

  /** A member has left. */
  left(member: number): void {
    for (const one of this.running) {
      if (one.lines.delete(member)) this.raise(one, () => one.agent.onLeft?.(member, one.out));
    }
  }

  /** Takes the host's agents out of order, or lets them continue. Timers that expire meanwhile fire afterwards. */
  setDown(isDown: boolean): void {
    if (isDown === this.link.isDown) return;
    this.link.isDown = isDown;
    if (isDown) return;
    this.fire();
    for (const { lines } of this.running) for (const { end, events } of lines.values()) events.onUp?.(end);
  }

  /** A ruler has decided. */
  decided(): void {
    if (this.link.isDown) return;
    for (const one of this.running) this.raise(one, () => one.agent.onMembers?.(one.out));
  }

  private actions(kind: AgentKind, index: number): AgentActions {
    const { link, coordinator } = this;
    const id = tenantId(kind.name);
    return {
      get nowNs() {
        return link.nowNs;
      },
      gids: link.gids,
      members: (ruler) => coordinator.members(ruler),
      changed: (member) => coordinator.changed(member),
      tell: (member, words) => {
        requireWords(words);
        const line = this.running[index].lines.get(member);
        if (!link.isDown) line?.events.onTold?.(Float64Array.from(words));
      },
      peerAt: (gid, fromGid) => {
        const address = coordinator.addressOf(gid, kind);
        const peer = address === null ? -1 : link.peerAt(address, fromGid);
        this.keepGreeting();
        return peer;
      },
      gidOf: (peer) => link.gidOf(peer),
      send: (peer, words) => {
        link.send(peer, id, words);
        if (!link.isDown) this.sent++;
      },
      watch: (peer, isWatched) => {
        const { watched } = this.running[index];
        if (isWatched) watched.add(peer);
        else watched.delete(peer);
        link.watch(
          peer,
          this.running.some((one) => one.watched.has(peer)),
        );
      },
      probe: (peer, bytes) => {
        const by = this.running[index];
        if (this.probing[peer] !== undefined) return;
        // Before the call, because a probe that cannot begin ends within it.
        if (!link.isDown) this.probing[peer] = by;
        try {
          link.probe(peer, bytes);
        } catch (error) {
          this.probing[peer] = undefined;
          throw error;
        }
      },
      timer: (atNs, token) => this.setTimer(atNs, token * AGENTS + index),
      join: (tenant, granted) => {
        const page = this.isClosed ? null : coordinator.join(tenant, granted);
        if (page !== null) this.guests.add(page);
        return page;
      },
      leave: (page) => {
        if (this.guests.delete(page)) coordinator.leave(page);
      },
      decide: (ruler, isNews) => {
        if (!this.isClosed) coordinator.decide(ruler, link.nowNs, isNews);
      },
    };
  }

  private setTimer(atNs: number, token: number): void {
    const { timers } = this;
    if (atNs === Number.POSITIVE_INFINITY) {
      timers.remove(token);
      return;
    }
    timers.due[0] = atNs;
    timers.due[1] = this.order++;
    timers.put(token);
    this.setAlarm();
  }

  private setAlarm(): void {
    const { alarm, timers } = this;
    // An alarm that comes earlier sets the next one.
    if (timers.size === 0 || this.isClosed || timers.headNs[0] >= this.alarmNs) return;
    this.alarmNs = timers.headNs[0];
    alarm.atNs[0] = this.alarmNs;
    alarm.set();
  }

  private fire(): void {
    const { timers, link } = this;
    if (link.nowNs >= this.alarmNs) this.alarmNs = Number.POSITIVE_INFINITY;
    if (link.isDown || this.isClosed) return;
    while (!this.isClosed && timers.size > 0 && timers.headNs[0] <= link.nowNs) {
      const token = timers.headToken;
      timers.pop();
      const index = token % AGENTS;
      if (index === HELLO_TIMER) this.greet();
      else {
        const one = this.running[index];
        this.raise(one, () => one.agent.onTimer?.((token - index) / AGENTS, one.out));
      }
    }
    this.setAlarm();
  }

  private keepGreeting(): void {
    if (this.isGreeting || !this.link.hasPeers) return;
    this.isGreeting = true;
    this.setTimer(this.link.nowNs + HELLO_NS, HELLO_TIMER);
  }

  private greet(): void {
    this.link.greet();
    this.setTimer(this.link.nowNs + HELLO_NS, HELLO_TIMER);
  }

  close(): void {
    this.isClosed = true;
    // From now on, nothing of what agents do has an effect.
    this.link.isDown = true;
    for (const page of this.guests) this.coordinator.leave(page);
    this.guests.clear();
    this.alarm.close();
    this.link.close();
  }
}

/** The agent hosts of a provider's devices. */
export class AgentHosts {
  private readonly providerOf: (device: string) => Provider;
  private readonly coordinatorOf: (device: string) => AgentCoordinator;
  private readonly unavailable: (device: string, error: IsoverbsError) => void;
  /** By device. Null: the device has no room for agents. */
  private readonly byDevice = new Map<string, AgentHost | null>();
  /** Devices whose agents are out of order, also those that start later. */
  private readonly down = new Set<string>();

  /** @param unavailable is called with the reason when a device has no room for agents */
  constructor(
    providerOf: (device: string) => Provider,
    coordinatorOf: (device: string) => AgentCoordinator,
    unavailable: (device: string, error: IsoverbsError) => void = () => {},
  ) {
    this.providerOf = providerOf;
    this.coordinatorOf = coordinatorOf;
    this.unavailable = unavailable;
  }

  /** The agent host of a device, created by the first call; null if the device has no room for its queue pairs. */
  hostOf(device: string): AgentHost | null {
    let host = this.byDevice.get(device);
    if (host === undefined) {
      host = this.make(device);
      if (this.down.has(device)) host?.setDown(true);
      this.byDevice.set(device, host);
    }
    return host;
  }

  private make(device: string): AgentHost | null {
    try {
      return new AgentHost(this.providerOf(device), device, this.coordinatorOf(device));
    } catch (error) {
      if (!(error instanceof IsoverbsError)) throw error;
      this.unavailable(device, error);
      return null;
    }
  }

  /** Messages that the agents of open devices have sent. */
  get messages(): number {
    return [...this.byDevice.values()].reduce((total, host) => total + (host?.messages ?? 0), 0);
  }

  decided(device: string): void {
    this.byDevice.get(device)?.decided();
  }

  /** A member of a device has left. */
  left(device: string, member: number): void {
    this.byDevice.get(device)?.left(member);
  }

  setDown(device: string, isDown: boolean): void {
    if (isDown) this.down.add(device);
    else this.down.delete(device);
    this.byDevice.get(device)?.setDown(isDown);
  }

  closeAll(): void {
    for (const device of [...this.byDevice.keys()]) this.close(device);
  }

  /** The last context of a device has closed. */
  close(device: string): void {
    this.byDevice.get(device)?.close();
    this.byDevice.delete(device);
  }
}
