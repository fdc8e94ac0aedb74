/**
 * The agent of drum at one host and device: it computes the rates of its host's applications together with the agents of
 * the hosts to which they send (docs/policies/drum.md, Agents). A round is one iteration of Algorithm 2:
 *
 *   each host    x-step; REPORTS to the hosts with which its applications communicate
 *   each host    once the reports of its senders have arrived: z-step and U-step; ANSWERS to these senders
 *   each host    once its own reports have been answered, or after the window: the next round
 *
 * Missing values are those of the last round, and messages of earlier rounds are discarded. Agents rest while nothing
 * changes.
 */
import type { Agent, AgentActions, AgentKind } from '../../../coordinator/agent.ts';
import type { MembersView } from '../../../coordinator/ruler.ts';
import { HostSolver } from './host-solver.ts';
import {
  ANSWERS,
  type Header,
  type Rates,
  REPORTS,
  readAnswers,
  readHeader,
  readUse,
  writeAnswers,
  writeRates,
  writeReports,
} from './messages.ts';
import type { Pull } from './model.ts';
import { Peer } from './peer.ts';
import { DEFAULT_TERMS, drumTerms, type TermRules, termsAt } from './terms.ts';
import { OWN_HOST, UNKNOWN_HOST, Uses } from './uses.ts';

/** How long a round waits for messages, in addition to a round trip. */
const WINDOW_NS = 1e6;
/** The residual at which a host has nothing more to change, relative to its rates, in two rounds in a row. */
const TOLERANCE = 1e-5;
const CALM_ROUNDS = 2;
/** Rounds after a change, after which a host stops even if it has not converged. */
const MOST_ROUNDS = 2000;
/** Penalties that no longer fit are computed again after this many rounds or before a host rests, at most this often. */
const REFIT_ROUNDS = 48;
const MOST_REFITS = 10;
/** After this many rounds without a rest, each round lasts a whole window, whatever peers send. */
const QUICK_ROUNDS = 1000;
/**
 * In a daemon, a host rests for this long for each application after it has solved: about ten times as long as it takes.
 * Otherwise, a program could keep the daemon busy.
 */
const REST_NS_PER_ROW = 50_000;
/** Rounds without peers that run at a time, and the pause after them. */
const ROUNDS_AT_ONCE = 64;
const PAUSE_NS = 1000;
/** Contexts learn of their rates when the agents come to rest, and in every round of this many. */
const TELL_ROUNDS = 32;
/** The least relative change of a rate that is sent to contexts. */
const LEAST_CHANGE = 1e-4;
/** The agent looks for a host without a known agent after this interval, and then at ever longer ones. */
const RETRY_NS = 1e6;
const MOST_RETRY_NS = 1e8;
/** Rates inside are in millions per second. */
const MILLION = 1e6;
/** Completions that a host without a limit can poll. */
const NO_LIMIT_PER_S = 1e12;
/** Assumed until a context or an option says what the device can issue. */
const SOME_REQUESTS_PER_S = 1e6;

/** Timer tokens. */
const ROUND = 0;
const RETRY = 1;
const LATE = 2;

/** What a round waits for: reports of senders, answers to the own reports, its time, or nothing. */
type Phase = 'reports' | 'answers' | 'pause' | 'rest';

/** The agent of drum. */
export class DrumAgent implements Agent {
  private members!: MembersView;
  private uses!: Uses;
  private terms: TermRules | null = null;
  private readonly peers: (Peer | undefined)[] = [];
  private solver: HostSolver | null = null;
  /** Whether applications, traffic or terms have changed since the solver was made. */
  private isStale = true;
  private isDeciding = false;
  private phase: Phase = 'rest';
  /** Microseconds of the device's clock, or more: numbers must not repeat after a restart. */
  private round = 0;
  private beganNs = 0;
  private restedNs = Number.NEGATIVE_INFINITY;
  private roundsInRow = 0;
  private calmRounds = 0;
  private refits = 0;
  private retryNs = RETRY_NS;
  private isRetrying = false;
  /** Peers that have sent something in this round. */
  private readonly heardFrom = new Set<Peer>();
  /** The rates that contexts were sent last. */
  private readonly sentRates = new Map<number, Rates>();

  onStart(out: AgentActions): void {
    this.members = out.members(drumTerms);
    this.uses = new Uses(this.members, out.gids.join(' '));
  }

  onTold(member: number, words: Float64Array, out: AgentActions): void {
    const use = readUse(words);
    if (use === null) return;
    this.uses.set(member, use);
    this.sentRates.delete(member);
    this.change(out);
  }

  onLeft(member: number, out: AgentActions): void {
    this.sentRates.delete(member);
    if (this.uses.remove(member)) this.change(out);
  }

  onMembers(out: AgentActions): void {
    const before = this.terms;
    const now = termsAt(this.members);
    const isSame = before !== null && now !== null && sameTerms(before, now);
    if (!this.isDeciding && now !== null && !isSame && this.solver !== null) this.change(out);
  }

  onPeer(number: number, change: 'up' | 'down', out: AgentActions): void {
    const peer = this.peerOf(number);
    peer.isUp = change === 'up';
    if (change === 'down') peer.reset();
    this.change(out);
  }

  onSilent(number: number, isSilent: boolean, out: AgentActions): void {
    const peer = this.peerOf(number);
    if (peer.isSilent === isSilent) return;
    peer.isSilent = isSilent;
    this.change(out);
  }

  forgetPeer(number: number): boolean {
    for (const { to } of this.solver?.demands ?? []) if (to.has(number)) return false;
    this.peers[number] = undefined;
    return true;
  }

  onMessage(number: number, words: Float64Array, out: AgentActions): void {
    const header = readHeader(words);
    if (header === null) return;
    const peer = this.peerOf(number);
    if (!peer.isLive) return;
    if (header.kind === REPORTS) this.heardReports(number, peer, header, words, out);
    if (header.kind === ANSWERS) this.heardAnswers(number, peer, header, words, out);
  }

  onTimer(token: number, out: AgentActions): void {
    if (token === RETRY) {
      this.isRetrying = false;
      this.change(out);
      return;
    }
    if (token === LATE) {
      if (this.phase === 'answers' && !this.awaitsReports) this.stepRows(out);
    } else if (this.phase === 'reports') this.stepRows(out);
    else if (this.phase === 'answers') this.finish(out);
    else if (this.phase === 'pause') this.begin(out);
    this.proceed(out);
  }

  private peerOf(number: number): Peer {
    const known = this.peers[number];
    if (known !== undefined) return known;
    const peer = new Peer();
    this.peers[number] = peer;
    return peer;
  }

  /** Applications, traffic or peers have changed. */
  private change(out: AgentActions): void {
    this.isStale = true;
    if (!this.members.isRemote) this.roundsInRow = 0;
    const rows = this.solver?.rowKeys.length ?? 0;
    const atNs = this.restedNs + REST_NS_PER_ROW * rows;
    if (this.phase !== 'rest' || !this.members.isRemote || out.nowNs >= atNs) this.wake(out);
    else {
      this.renew();
      this.phase = 'pause';
      out.timer(atNs, ROUND);
    }
  }

  private wake(out: AgentActions): void {
    if (this.phase !== 'rest') return;
    this.renew();
    this.begin(out);
    this.proceed(out);
  }

  /** Rates will change again. */
  private renew(): void {
    [this.roundsInRow, this.calmRounds, this.refits] = [0, 0, 0];
    this.solver?.restart();
  }

  private heardReports(
    number: number,
    peer: Peer,
    header: Header,
    words: Float64Array,
    out: AgentActions,
  ): void {
    const { isCurrent, hasChanged } = peer.report(header, words);
    if (!isCurrent) return;
    this.heardFrom.add(peer);
    peer.listen(header.isDone);
    if (hasChanged) this.isStale = true;
    if (!peer.hasNews) return;
    if (this.phase === 'reports') this.proceed(out);
    // Hosts that begin at different times could wait for each other's answers. A row can take another step meanwhile.
    else if (this.phase === 'answers' && !this.awaitsReports) out.timer(out.nowNs + this.roundTripNs, LATE);
    else if (this.phase === 'rest' && (hasChanged || !header.isDone)) this.wake(out);
    else if (this.phase === 'rest') this.answer(number, peer, out);
  }

  private heardAnswers(
    number: number,
    peer: Peer,
    header: Header,
    words: Float64Array,
    out: AgentActions,
  ): void {
    if (header.round !== peer.reportedRound) return;
    this.heardFrom.add(peer);
    peer.listen(header.isDone);
    for (const answer of readAnswers(words)) this.solver?.ask(answer.key, number, answer);
    // Rows that ask for many applications do so in several messages, of which the last one ends the wait.
    if (header.part === header.parts - 1) peer.answered(header.round, out.nowNs - this.beganNs);
    if (this.phase === 'answers') this.proceed(out);
    else if (!header.isDone) this.wake(out);
  }

  /** Makes a new solver if applications, traffic or terms have changed. */
  private refresh(out: AgentActions): void {
    if (!this.isStale) return;
    this.isStale = false;
    const terms = this.decidedTerms(out);
    let isUnknown = false;
    const demands = this.uses.demands((gid, fromGid) => {
      if (out.gids.includes(gid)) return OWN_HOST;
      const peer = out.peerAt(gid, fromGid);
      if (peer < 0) isUnknown = true;
      return peer >= 0 && this.peerOf(peer).isLive ? peer : UNKNOWN_HOST;
    });
    if (isUnknown) this.retrySoon(out);
    else this.retryNs = RETRY_NS;
    const requests = terms.requestsPerS || this.uses.requestsPerS || SOME_REQUESTS_PER_S;
    const completions = terms.completionsPerS || NO_LIMIT_PER_S;
    this.solver = new HostSolver(
      {
        ...{ alpha: terms.alpha, beta: terms.beta },
        ...{ requests: requests / MILLION, completions: completions / MILLION },
      },
      demands,
      this.pulls(),
      this.solver,
    );
    [this.calmRounds, this.refits] = [0, 0];
    for (const [number, peer] of this.peers.entries()) this.keepWatch(number, peer, out);
  }

  private *pulls(): Iterable<Pull> {
    for (const peer of this.peers) if (peer !== undefined) yield* peer.counted;
  }

  private decidedTerms(out: AgentActions): TermRules {
    const known = termsAt(this.members);
    if (known === null) {
      this.isDeciding = true;
      try {
        out.decide(drumTerms, false);
      } finally {
        this.isDeciding = false;
      }
    }
    const terms = known ?? termsAt(this.members) ?? DEFAULT_TERMS;
    this.terms = terms;
    return terms;
  }

  /** Watches a peer while its values count. */
  private keepWatch(number: number, peer: Peer | undefined, out: AgentActions): void {
    if (peer === undefined) return;
    const matters = peer.hasPulls || this.solver!.demands.some(({ to }) => to.has(number));
    if (matters === peer.isWatched || !peer.isUp) return;
    peer.isWatched = matters;
    if (!matters) peer.isSilent = false;
    out.watch(number, matters);
  }

  private retrySoon(out: AgentActions): void {
    if (this.isRetrying) return;
    this.isRetrying = true;
    out.timer(out.nowNs + this.retryNs, RETRY);
    this.retryNs = Math.min(2 * this.retryNs, MOST_RETRY_NS);
  }

  /** Whether this host has nothing more to change. */
  private get isDone(): boolean {
    return this.calmRounds >= CALM_ROUNDS || (this.solver?.iteration ?? 0) >= MOST_ROUNDS;
  }

  /** Begins a round. */
  private begin(out: AgentActions): void {
    this.refresh(out);
    this.beganNs = out.nowNs;
    this.round = Math.max(this.round + 1, Math.floor(out.nowNs / 1000));
    this.roundsInRow++;
    this.heardFrom.clear();
    this.solver!.stepRequests();
    for (const [number, peer] of this.peers.entries()) if (peer?.isLive) this.report(number, peer, out);
    this.phase = 'reports';
    out.timer(out.nowNs + this.windowNs / 2, ROUND);
  }

  private report(number: number, peer: Peer, out: AgentActions): void {
    const reports = this.solver!.reportsTo(number);
    if (reports.length > 0) peer.isReported = true;
    // The peer must hear once that nothing is sent to it any more.
    if (!peer.isReported) return;
    peer.reportedRound = this.round;
    for (const words of writeReports(this.round, this.isDone, reports)) out.send(number, words);
  }

  /** The longest round trip to a peer. */
  private get roundTripNs(): number {
    return this.peers.reduce((most, peer) => Math.max(most, peer?.rttNs ?? 0), 0);
  }

  private get windowNs(): number {
    return WINDOW_NS + this.roundTripNs;
  }

  /** Does what need not wait any longer. */
  private proceed(out: AgentActions): void {
    for (;;) {
      if (this.phase === 'reports' && !this.awaitsReports) this.stepRows(out);
      else if (this.phase === 'answers' && !this.awaitsAnswers) this.finish(out);
      else return;
    }
  }

  private get awaitsReports(): boolean {
    return this.peers.some((peer) => peer?.isLive && peer.hasPulls && !peer.isDone && !peer.hasNews);
  }

  private get awaitsAnswers(): boolean {
    return this.peers.some(
      (peer) => peer?.isLive && peer.reportedRound === this.round && peer.answeredRound !== this.round,
    );
  }

  private stepRows(out: AgentActions): void {
    this.refresh(out);
    this.solver!.stepRows();
    this.phase = 'answers';
    out.timer(this.beganNs + this.windowNs, ROUND);
    for (const [number, peer] of this.peers.entries()) {
      if (!peer?.isLive || peer.heard === 0) continue;
      if (peer.hasNews || (!this.isDone && peer.hasPulls)) this.answer(number, peer, out);
    }
  }

  private answer(number: number, peer: Peer, out: AgentActions): void {
    peer.used = peer.heard;
    const { solver } = this;
    const answers = [...peer.counted].flatMap((pull) => {
      const ask = solver?.answer(pull);
      return ask === undefined ? [] : [{ key: pull.key, ...ask }];
    });
    for (const words of writeAnswers(peer.heard, this.isDone, answers)) out.send(number, words);
  }

  /** Ends a round, and begins the next one unless all is done. */
  private finish(out: AgentActions): void {
    const solver = this.solver!;
    // A missing answer may bring changes.
    if (solver.residual > TOLERANCE) this.calmRounds = 0;
    else if (!this.awaitsAnswers) this.calmRounds++;
    const isRefit = this.calmRounds === CALM_ROUNDS || solver.iteration % REFIT_ROUNDS === 0;
    if (isRefit && this.refits < MOST_REFITS && solver.refit()) {
      this.calmRounds = 0;
      this.refits++;
    }
    for (const [number, peer] of this.peers.entries()) {
      if (!peer?.isLive) continue;
      if (!this.heardFrom.has(peer)) peer.missed();
      if (peer.answeredRound === this.round && solver.reportsTo(number).length === 0) peer.isReported = false;
    }
    const isOver = this.isDone && this.peers.every((peer) => !peer?.isLive || peer.isDone) && !this.isStale;
    if (isOver || solver.iteration % TELL_ROUNDS === 0) this.tellRates(out);
    if (isOver) {
      this.phase = 'rest';
      this.restedNs = out.nowNs;
      out.timer(Number.POSITIVE_INFINITY, ROUND);
    } else this.beginSoon(out);
  }

  private beginSoon(out: AgentActions): void {
    const isQuick = this.roundsInRow < QUICK_ROUNDS;
    const mayGoOn = out.nowNs > this.beganNs || this.roundsInRow % ROUNDS_AT_ONCE !== 0;
    if (isQuick && mayGoOn) {
      this.begin(out);
      return;
    }
    this.phase = 'pause';
    out.timer(isQuick ? out.nowNs + PAUSE_NS : this.beganNs + this.windowNs, ROUND);
  }

  /** Tells contexts their parts of the rates of their applications, if they have changed. */
  private tellRates(out: AgentActions): void {
    const solver = this.solver!;
    const { isHeldBack } = solver;
    const spare = solver.spareCompletions;
    for (const [key, { sending, all }] of this.uses.contexts()) {
      const completions = solver.completionsOf(key);
      if (completions === undefined) continue;
      const requestsPerS = (MILLION * (solver.rateOf(key) ?? 0)) / Math.max(1, sending.size);
      // If the host can poll more completions, all applications get more in proportion.
      const completionsPerS = (MILLION * completions * spare) / all.length;
      for (const member of all) {
        const part = sending.has(member) ? requestsPerS : 0;
        this.tell(member, { requestsPerS: part, completionsPerS, isHeldBack }, out);
      }
    }
  }

  private tell(member: number, rates: Rates, out: AgentActions): void {
    const before = this.sentRates.get(member);
    if (before !== undefined && isClose(before, rates)) return;
    this.sentRates.set(member, rates);
    out.tell(member, writeRates(rates));
  }
}

function sameTerms(a: TermRules, b: TermRules): boolean {
  return (
    a.alpha === b.alpha &&
    a.beta === b.beta &&
    a.requestsPerS === b.requestsPerS &&
    a.completionsPerS === b.completionsPerS
  );
}

function isClose(a: Rates, b: Rates): boolean {
  const near = (one: number, other: number) => Math.abs(one - other) <= LEAST_CHANGE * other;
  return (
    near(a.requestsPerS, b.requestsPerS) &&
    near(a.completionsPerS, b.completionsPerS) &&
    a.isHeldBack === b.isHeldBack
  );
}

/** Agents of drum. */
export const drumAgents: AgentKind<DrumAgent> = { name: 'drum', create: () => new DrumAgent() };
