/** Agents of justitia on hosts with coordinators of their own, and a network that may lose, delay and forge messages. */
import type { AgentActions } from '../../../src/coordinator/agent.ts';
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import type { MemberPage } from '../../../src/coordinator/member-table.ts';
import { columnIndex } from '../../../src/coordinator/ruler.ts';
import { RATE_REPORTS, WORST_GID_COLUMNS } from '../../../src/policies/justitia/columns.ts';
import { type JustitiaOptions, justitiaOptions } from '../../../src/policies/justitia/options.ts';
import { rateRulesOf, rates } from '../../../src/policies/justitia/rates.ts';
import { ReferenceFlows } from '../../../src/policies/justitia/reference-flows.ts';
import { writeUpdate } from '../../../src/policies/justitia/updates.ts';
import { gidFromWords, gidToWords } from '../../../src/verbs/gid.ts';

export const LINK_GBPS = 100;
export const gidOf = (host: number) => `::ffff:10.0.0.${host + 1}`;
/** A message takes this long. */
export const DELAY_NS = 2000;
/** Hosts greet the peers that they know at this interval, and answer the first greeting. */
const HELLO_NS = 1e7;
const HELLO = new Float64Array(0);

type Options = Partial<JustitiaOptions>;

/** What a member does at a peer. */
export interface Does {
  sends?: number;
  reads?: number;
  latency?: boolean;
}

/** One host. Peers have the numbers of their hosts. */
export class Host {
  readonly number: number;
  readonly agent = new ReferenceFlows();
  readonly coordinator: Coordinator;
  readonly probes: { readonly peer: number; readonly atNs: number }[] = [];
  readonly told: { readonly member: number; readonly words: readonly number[] }[] = [];
  readonly timers = new Map<number, number>();
  /** Messages sent. */
  sent = 0;
  readonly out: AgentActions;
  readonly up = new Set<number>();
  readonly watched = new Set<number>();
  private readonly network: Network;
  private readonly rules;
  private hasStarted = false;

  constructor(network: Network, number: number, options: Options, isRemote: boolean) {
    this.network = network;
    this.coordinator = new Coordinator(undefined, isRemote ? 'by owner' : 'by rules');
    this.number = number;
    this.rules = rateRulesOf(justitiaOptions.parse({ maxGbps: LINK_GBPS, ...options }), null);
    this.out = {
      get nowNs() {
        return network.nowNs;
      },
      gids: [gidOf(number)],
      members: (ruler) => this.coordinator.membersOf(ruler),
      changed: () => {},
      tell: (member, words) => this.told.push({ member, words: Array.from(words) }),
      peerAt: (gid) => {
        const peer = network.hosts.findIndex((_, one) => gidOf(one) === gid);
        if (peer >= 0) network.greet(number, peer);
        return peer;
      },
      gidOf,
      send: (peer, words) => {
        this.sent++;
        network.send(number, peer, Float64Array.from(words));
      },
      watch: (peer, isWatched) => {
        if (isWatched) this.watched.add(peer);
        else this.watched.delete(peer);
      },
      probe: (peer) => this.probes.push({ peer, atNs: network.nowNs }),
      timer: (atNs, token) => this.timers.set(token, atNs),
      join: () => null,
      leave: () => {},
      decide: (_ruler, isNews) => this.decide(isNews),
    };
  }

  /** The agent may start before anything has been decided. */
  start(): void {
    this.agent.onStart(this.out);
    this.hasStarted = true;
  }

  decide(isNews = true): void {
    this.coordinator.decide(rates, this.rules, this.network.nowNs, isNews);
    if (this.hasStarted) this.agent.onMembers(this.out);
  }

  /** Adds a member. */
  join(reports: Readonly<Record<string, number>>, tenant = ''): MemberPage {
    const page = this.coordinator.join(tenant) as MemberPage;
    this.report(page, reports);
    return page;
  }

  report(page: MemberPage, reports: Readonly<Record<string, number>>): void {
    for (const [name, value] of Object.entries(reports))
      page.columns(rates).reports[columnIndex(RATE_REPORTS, name)] = value;
    this.decide();
  }

  /** A member says what it does at a peer. */
  tell(page: MemberPage, to: number, { sends = 0, reads = 0, latency = false }: Does): void {
    this.agent.onTold(page.row, flowWords(to, this.number, sends, reads, latency ? 1 : 0), this.out);
  }

  /** Adds a bandwidth application that sends to a host. */
  bulk(to: number, weight = 1): MemberPage {
    const page = this.join({ hungryWeight: weight, sendsBulk: 1 });
    this.tell(page, to, { sends: weight });
    return page;
  }

  /** Adds a latency application that talks to a host. */
  latency(to: number, weight = 1): MemberPage {
    const page = this.join({ latencyWeight: weight });
    this.tell(page, to, { latency: true });
    return page;
  }

  /** A column of the device. */
  shown(column: string): number {
    const view = this.coordinator.membersOf(rates);
    return view.grant(column).of(view.device);
  }

  /** The GID of the worst receiver. */
  get worstPeer(): string | null {
    return gidFromWords(
      WORST_GID_COLUMNS.map((name) => this.shown(name)),
      0,
    );
  }

  setPeer(peer: number, change: 'up' | 'down'): void {
    if (change === 'up') this.up.add(peer);
    else this.up.delete(peer);
    this.agent.onPeer(peer, change, this.out);
  }

  receive(peer: number, words: Float64Array): void {
    if (!this.up.has(peer)) {
      this.network.greet(this.number, peer);
      this.setPeer(peer, 'up');
    }
    if (words !== HELLO) this.agent.onMessage(peer, words, this.out);
  }
}

export const flowWords = (to: number, from: number, ...values: number[]) =>
  Float64Array.of(...gidToWords(gidOf(to)), ...gidToWords(gidOf(from)), ...values);

interface Message {
  readonly atNs: number;
  readonly from: number;
  readonly to: number;
  readonly words: Float64Array;
}

/** The hosts and the messages between them. */
export class Network {
  nowNs = 0;
  readonly hosts: Host[] = [];
  /** What happens to the next message: lost, or delivered this often. */
  copiesOf: (message: Message) => number = () => 1;
  private queue: Message[] = [];
  /** Pairs of a host and a peer that it greets. */
  private readonly greeting = new Set<string>();
  private greetNs = 0;

  /** @param isRemote whether the agents run in daemons */
  constructor(count: number, options: Options = {}, isRemote = false) {
    for (let host = 0; host < count; host++) this.hosts.push(new Host(this, host, options, isRemote));
    for (const host of this.hosts) host.start();
  }

  send(from: number, to: number, words: Float64Array): void {
    const message = { atNs: this.nowNs + DELAY_NS, from, to, words };
    for (let copies = this.copiesOf(message); copies > 0; copies--) this.queue.push(message);
  }

  /** Greets a peer now, and from now on. */
  greet(from: number, to: number): void {
    const pair = `${from} ${to}`;
    if (this.greeting.has(pair)) return;
    this.greeting.add(pair);
    this.send(from, to, HELLO);
  }

  private greetAll(): void {
    this.greetNs += HELLO_NS;
    for (const pair of this.greeting) {
      const [from, to] = pair.split(' ').map(Number);
      this.send(from, to, HELLO);
    }
  }

  /** Messages that all hosts have sent, without greetings. */
  get sent(): number {
    return this.hosts.reduce((sum, host) => sum + host.sent, 0);
  }

  /** Lets time pass. */
  advance(ns: number): void {
    const endNs = this.nowNs + ns;
    for (let steps = 0; ; steps++) {
      if (steps > 1e6) throw new Error('time does not advance');
      const message = this.queue.reduce<Message | null>(
        (first, one) => (first === null || one.atNs < first.atNs ? one : first),
        null,
      );
      const timer = this.nextTimer();
      const atNs = Math.min(message?.atNs ?? Infinity, timer?.atNs ?? Infinity, this.greetNs);
      if (atNs > endNs) break;
      this.nowNs = Math.max(this.nowNs, atNs);
      if (atNs === this.greetNs) this.greetAll();
      else if (message?.atNs === atNs) {
        this.queue.splice(this.queue.indexOf(message), 1);
        // Forged messages may have been answered to a host that does not exist.
        this.hosts[message.to]?.receive(message.from, message.words);
      } else if (timer !== null) {
        timer.host.timers.delete(timer.token);
        timer.host.agent.onTimer(timer.token, timer.host.out);
      }
    }
    this.nowNs = endNs;
  }

  private nextTimer(): { host: Host; token: number; atNs: number } | null {
    let next: { host: Host; token: number; atNs: number } | null = null;
    for (const host of this.hosts) {
      for (const [token, atNs] of host.timers) {
        if (next === null || atNs < next.atNs) next = { host, token, atNs };
      }
    }
    return next;
  }
}

/** The words of an update. */
export function wordsOf(
  kind: number,
  number: number,
  first: number,
  second = 0,
  hasLatency = true,
): Float64Array {
  const words = new Float64Array(2);
  writeUpdate(words, { kind, number, confirmed: 0, latency: hasLatency ? 1 : 0, first, second });
  return words;
}
