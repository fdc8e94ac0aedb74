/** Agents of drum on hosts with coordinators of their own, and a network that loses, delays and reorders messages. */
import type { AgentActions } from '../../../src/coordinator/agent.ts';
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import { type MemberPage, TENANT, WEIGHT } from '../../../src/coordinator/member-table.ts';
import { DrumAgent } from '../../../src/policies/drum/agent/drum-agent.ts';
import { type Rates, readRates, writeUse } from '../../../src/policies/drum/agent/messages.ts';
import { drumTerms, type TermRules } from '../../../src/policies/drum/agent/terms.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';

export const gidOf = (host: number) => `::ffff:10.0.0.${host + 1}`;
const HELLO = new Float64Array(0);
const HELLO_NS = 1e7;
const DOWN_NS = 3.5e7;

/** How the network treats messages. */
export interface Treatment {
  delayNs: number;
  /** Additional delay, random up to this, so that messages overtake each other. */
  jitterNs: number;
  lossPart: number;
}

/** An application of a host. */
export interface App {
  readonly page: MemberPage;
  to: ReadonlyMap<number, number>;
}

interface Event {
  readonly atNs: number;
  readonly run: () => void;
}

/** One host. Peers have the numbers of their hosts. */
export class AgentHost {
  agent = new DrumAgent();
  readonly coordinator: Coordinator;
  readonly rates = new Map<number, Rates>();
  readonly timers = new Map<number, number>();
  readonly heardNs = new Map<number, number>();
  readonly number: number;
  readonly out: AgentActions;
  isDead = false;
  sent = 0;
  readonly rules: TermRules;
  private readonly network: AgentNetwork;

  constructor(network: AgentNetwork, number: number, rules: TermRules, isRemote: boolean) {
    this.coordinator = new Coordinator(undefined, isRemote ? 'by owner' : 'by rules');
    [this.network, this.number, this.rules] = [network, number, rules];
    const requirePeer = (peer: number) => {
      if (peer < 0 || peer >= network.hosts.length) throw new Error(`unknown peer ${peer}`);
    };
    this.out = {
      get nowNs() {
        return network.nowNs;
      },
      gids: [gidOf(number)],
      members: (ruler) => this.coordinator.membersOf(ruler),
      changed: () => {},
      tell: (member, words) => void this.rates.set(member, readRates(Float64Array.from(words))!),
      peerAt: (gid) => {
        const peer = network.hosts.findIndex((_, one) => gidOf(one) === gid);
        if (peer >= 0) network.greet(number, peer);
        return peer;
      },
      gidOf,
      send: (peer, words) => {
        requirePeer(peer);
        if (words.length > 100) throw new Error('too long');
        this.sent++;
        network.send(number, peer, Float64Array.from(words));
      },
      watch: requirePeer,
      probe: () => {},
      timer: (atNs, token) => void this.timers.set(token, atNs),
      join: () => null,
      leave: () => {},
      decide: (_ruler, isNews) => {
        this.coordinator.decide(drumTerms, this.rules, network.nowNs, isNews);
        this.agent.onMembers(this.out);
      },
    };
  }

  /** Adds an application in use. @param to completions per request at other hosts */
  add(tenant: string, weight: number, to: Readonly<Record<number, number>> = {}): App {
    const page = this.coordinator.join(tenant) as MemberPage;
    page.columns(TENANT).reports[WEIGHT] = weight;
    const app = { page, to: new Map(Object.entries(to).map(([peer, per]) => [Number(peer), per])) };
    this.tell(app);
    return app;
  }

  /** An application reports what it does. */
  tell({ page, to }: App, isActive = true): void {
    const peers = [...to].map(([peer, per]) => ({ gid: gidOf(peer), fromGid: gidOf(this.number), per }));
    const words = writeUse({ isActive, requestsPerS: 0, requests: 1, peers });
    this.agent.onTold(page.row, Float64Array.from(words), this.out);
  }

  leave({ page }: App): void {
    this.coordinator.leave(page);
    this.agent.onLeft(page.row, this.out);
  }

  /** The rate that an application was told, in millions per second. */
  rateOf({ page }: App): number {
    return this.rates.get(page.row)!.requestsPerS / 1e6;
  }

  receive(from: number, words: Float64Array): void {
    if (this.isDead) return;
    if (!this.heardNs.has(from)) {
      this.network.greet(this.number, from);
      this.heardNs.set(from, this.network.nowNs);
      this.agent.onPeer(from, 'up', this.out);
    }
    this.heardNs.set(from, this.network.nowNs);
    if (words.length > 0) this.agent.onMessage(from, words, this.out);
  }

  /** The agent dies; with `restart`, another one begins. */
  die(): void {
    this.isDead = true;
    this.timers.clear();
    this.heardNs.clear();
    this.rates.clear();
  }

  restart(): void {
    this.isDead = false;
    this.agent = new DrumAgent();
    this.agent.onStart(this.out);
  }

  /** Peers of which nothing has been heard are down. */
  check(): void {
    for (const [peer, ns] of this.heardNs) {
      if (this.network.nowNs - ns < DOWN_NS) continue;
      this.heardNs.delete(peer);
      this.agent.onPeer(peer, 'down', this.out);
    }
  }
}

/** The hosts and the messages between them. */
export class AgentNetwork {
  nowNs = 1e9;
  readonly hosts: AgentHost[] = [];
  readonly treatment: Treatment = { delayNs: 2000, jitterNs: 0, lossPart: 0 };
  /** Whether two hosts can reach each other. */
  reaches: (from: number, to: number) => boolean = () => true;
  /** What a host sends instead of a message. */
  rewrite: (from: number, to: number, words: Float64Array) => Float64Array = (_from, _to, words) => words;
  private events: Event[] = [];
  private readonly greeting = new Set<string>();
  private greetNs = 1e9;
  private readonly random: RandomStream;

  /** @param isRemote whether the agents run in daemons */
  constructor(rules: readonly TermRules[], seed: number, isRemote = false) {
    this.random = new RandomStream(seed, 'network');
    for (const [number, one] of rules.entries()) this.hosts.push(new AgentHost(this, number, one, isRemote));
    for (const { agent, out } of this.hosts) agent.onStart(out);
  }

  send(from: number, to: number, words: Float64Array): void {
    const { delayNs, jitterNs, lossPart } = this.treatment;
    const [loss, jitter] = [this.random.next(), this.random.next()];
    if (loss < lossPart || !this.reaches(from, to)) return;
    this.events.push({
      atNs: this.nowNs + delayNs + jitter * jitterNs,
      run: () => this.hosts[to].receive(from, words.length === 0 ? words : this.rewrite(from, to, words)),
    });
  }

  greet(from: number, to: number): void {
    const pair = `${from} ${to}`;
    if (this.greeting.has(pair)) return;
    this.greeting.add(pair);
    this.send(from, to, HELLO);
  }

  /** Messages that all agents have sent. */
  get sent(): number {
    return this.hosts.reduce((sum, host) => sum + host.sent, 0);
  }

  /** Lets time pass. */
  advance(ns: number): void {
    const endNs = this.nowNs + ns;
    for (let steps = 0; ; steps++) {
      if (steps > 5e6) throw new Error('time does not advance');
      const next = this.next();
      if (next.atNs > endNs) break;
      this.nowNs = Math.max(this.nowNs, next.atNs);
      next.run();
    }
    this.nowNs = endNs;
  }

  private next(): Event {
    let first: Event = { atNs: this.greetNs, run: () => this.greetAll() };
    let at = -1;
    for (const [i, event] of this.events.entries()) if (event.atNs < first.atNs) [first, at] = [event, i];
    for (const host of this.hosts) {
      for (const [token, atNs] of host.timers) {
        if (atNs >= first.atNs) continue;
        at = -1;
        first = {
          atNs,
          run: () => {
            host.timers.delete(token);
            host.agent.onTimer(token, host.out);
          },
        };
      }
    }
    if (at < 0) return first;
    const event = first;
    return {
      atNs: event.atNs,
      run: () => {
        this.events.splice(this.events.indexOf(event), 1);
        event.run();
      },
    };
  }

  private greetAll(): void {
    this.greetNs += HELLO_NS;
    for (const pair of this.greeting) {
      const [from, to] = pair.split(' ').map(Number);
      if (!this.hosts[from].isDead) this.send(from, to, HELLO);
    }
    for (const host of this.hosts) if (!host.isDead) host.check();
  }
}
