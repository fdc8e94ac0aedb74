/**
 * READ isolation: the data of a READ leaves by the peer's device, so it competes with the tenants there. The reader tells
 * the agent of its host, which reports it to the agent of the peer's host. That agent makes the reader a member of its device and
 * answers with the grants. The hosts know each other only through messages. Any of these may be lost, so the report is
 * repeated at each sample.
 */
import type { Agent, AgentActions, AgentKind, AgentLine, AgentLineEvents } from '../../coordinator/agent.ts';
import type { Columned } from '../../coordinator/layout.ts';
import { MEMBER, type MemberPage, SENT_BYTES, WRITTEN_NS } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { gidFromWords, gidToWords } from '../../verbs/gid.ts';
import { QNUM_ALLOW, SLOT_END_NS, SLOT_NUMBER, SLOT_STATE, SPLIT, WIRE_GBPS } from './columns.ts';
import { master } from './master.ts';
import { slots } from './slot-rotation.ts';

/** Kinds of messages. */
const REPORT = 1;
const GRANT = 2;
const LEAVE = 3;
/** Other messages on lines: READ (a context READs from a peer) and UNKNOWN (no agent is known there). */
const READ = 4;
const UNKNOWN = 5;

/** The rulers that a report is for, as bits, and whether it is news. */
const FOR_MASTER = 1;
const FOR_SLOTS = 2;
const IS_NEWS = 4;

// Words of a report: kind, reader, running number, tenant, flags, then the reports of both rulers.
// Words of a grant: kind, reader, running number, number of the last report, then the grants of both rulers. Times are
// relative.
const REPORT_HEADER = 5;
const GRANT_HEADER = 4;
const REPORT_WORDS = REPORT_HEADER + master.reports.length + slots.reports.length;
const GRANT_WORDS = GRANT_HEADER + master.grants.length + slots.grants.length;
const SLOTS_REPORTED = REPORT_HEADER + master.reports.length;
const SLOTS_GRANTED = GRANT_HEADER + master.grants.length;

/**
 * Readers that one member, one tenant and all members may have. Readers of other hosts that one peer, and all peers, may
 * have here: most of a device's members are its own contexts.
 */
const MAX_OF_MEMBER = 64;
const MAX_OF_TENANT = 256;
const MAX_READERS = 1024;
const MAX_OF_PEER = 512;
const MAX_GUESTS = 1024;
/** Of one report. */
const MAX_REPORTED_BYTES = 2 ** 40;
/** The time after which a silent guest is removed. */
const SILENT_NS = 1e9;
const SWEEP_NS = 1e8;
const SWEEP = 0;
/** A report that is not answered within this time, or whose answer is lost, does not hold up the next one. */
const ANSWER_NS = 1e5;
/** A reader whose reports are not answered for this long sends as if there were no tenants at the peer. */
const UNANSWERED_NS = 2e6;
/** Retry time for a peer without an agent: in nanoseconds, but at least this many intervals of the line. */
const RETRY_NS = 1e6;
const RETRY_INTERVALS = 1000;

/** A page in no table: the columns of a reader, as its own host has them. */
class ReaderPage implements MemberPage {
  readonly row = -1;
  readonly counters = new Float64Array(MEMBER.reports.length);
  readonly grants = new Float64Array(MEMBER.grants.length);
  private readonly byRuler = new Map<string, MemberColumns>();

  columns(ruler: Columned): MemberColumns {
    let columns = this.byRuler.get(ruler.name);
    if (columns === undefined) {
      const defaults = (of: Columned['reports']) => Float64Array.from(of, (column) => column.default);
      columns = { reports: defaults(ruler.reports), grants: defaults(ruler.grants) };
      this.byRuler.set(ruler.name, columns);
    }
    return columns;
  }

  beat(): void {}
}

/** A context that READs from a peer. */
export class Reader {
  readonly page = new ReaderPage();
  /** Whether no agent is known at the peer, so that the READs count at the context's own device. */
  isUnknown = false;
  readonly gid: string;
  private readonly fromGid: string;
  private readonly words = new Float64Array(REPORT_WORDS);
  private readonly readers: Readers;
  private lastGrant = 0;
  /** The last report that was answered, and the last one with news. */
  private answered = 0;
  private news = 0;
  /** When the last report was sent, and when the first that is not answered. */
  private sentNs = 0;
  private unansweredNs = 0;
  /** What is to be reported when the last report is answered: flags, as in a report. */
  private pending = 0;

  constructor(gid: string, fromGid: string, number: number, readers: Readers) {
    this.gid = gid;
    this.fromGid = fromGid;
    this.readers = readers;
    [this.words[0], this.words[1]] = [REPORT, number];
  }

  /** The agent does not know it any more, so that its READs count at the context's own device. */
  leave(): void {
    this.isUnknown = true;
    this.forget();
  }

  /** Registers with an agent that does not know this reader. Grant numbers restart. */
  begin(): void {
    this.isUnknown = false;
    this.lastGrant = 0;
    this.readers.tell([READ, this.words[1], ...gidToWords(this.gid), ...gidToWords(this.fromGid)]);
  }

  /** Whether the grants do not take the last news into account yet. */
  get isAwaiting(): boolean {
    if (this.isUnknown || this.answered >= this.news) return false;
    return this.readers.nowNs() - this.unansweredNs < UNANSWERED_NS;
  }

  /**
   * Reports what the page says to the peer, where one of the rulers decides. Only one report is on its way at a time,
   * because answers may queue behind the data that the peer sends.
   */
  report(isForSlots: boolean, isNews: boolean): void {
    const { words, readers } = this;
    if (this.isUnknown) return;
    const nowNs = readers.nowNs();
    this.pending |= (isForSlots ? FOR_SLOTS : FOR_MASTER) | (isNews ? IS_NEWS : 0);
    const isLate = this.answered < this.news && nowNs - this.unansweredNs >= UNANSWERED_NS;
    if (isLate) this.forget();
    if (isNews) {
      if (this.answered >= this.news) this.unansweredNs = nowNs;
      this.news = words[2] + 1;
    }
    const sinceNs = nowNs - this.sentNs;
    if (!this.isUrgent && sinceNs < readers.intervalNs) return;
    if (this.answered === words[2] || sinceNs >= ANSWER_NS) this.send(nowNs);
  }

  /** Other reports can wait: a sample follows soon. */
  private get isUrgent(): boolean {
    return (this.pending & (FOR_SLOTS | IS_NEWS)) !== 0;
  }

  private send(nowNs: number): void {
    const { words, page } = this;
    words[2]++;
    words[4] = this.pending;
    this.pending = 0;
    this.sentNs = nowNs;
    words.set(page.columns(master).reports, REPORT_HEADER);
    words.set(page.columns(slots).reports, SLOTS_REPORTED);
    this.readers.tell(words);
  }

  /** Sends as if there were no tenants at the peer, which does not answer. */
  private forget(): void {
    const { page } = this;
    let hasChanged = false;
    for (const ruler of [master, slots]) {
      const { grants } = page.columns(ruler);
      for (const [i, column] of ruler.grants.entries()) {
        hasChanged ||= grants[i] !== column.default;
        grants[i] = column.default;
      }
    }
    if (hasChanged) this.readers.granted();
  }

  /** The peer has granted. */
  receive(words: Float64Array): void {
    // Messages may overtake each other.
    if (!(words[2] > this.lastGrant)) return;
    this.lastGrant = words[2];
    this.answered = Math.max(this.answered, Math.min(words[3], this.words[2]));
    const { page, readers } = this;
    const { grants } = page.columns(master);
    const { grants: slot } = page.columns(slots);
    const isToAct =
      words[GRANT_HEADER + SPLIT] !== grants[SPLIT] ||
      words[GRANT_HEADER + QNUM_ALLOW] !== grants[QNUM_ALLOW] ||
      words[SLOTS_GRANTED + SLOT_STATE] !== slot[SLOT_STATE] ||
      words[SLOTS_GRANTED + SLOT_NUMBER] !== slot[SLOT_NUMBER];
    grants.set(words.subarray(GRANT_HEADER, SLOTS_GRANTED));
    slot.set(words.subarray(SLOTS_GRANTED));
    if (isToAct) readers.granted();
    if (this.isUrgent && this.answered === this.words[2]) this.send(readers.nowNs());
  }
}

/** One context's READs from peers, over its line to the agent. */
export class Readers {
  readonly nowNs: () => number;
  /** Called when the context must act on its grants at once. */
  readonly granted: () => void;
  private readonly open: (events: AgentLineEvents) => void;
  private isOpen = false;
  private line: AgentLine | null = null;
  /** By number. */
  private readonly all: Reader[] = [];
  /** When to ask again for peers whose agents are unknown, by GID. */
  private readonly retryNs = new Map<string, number>();
  private readonly events: AgentLineEvents = {
    onUp: (line) => {
      this.line = line;
      for (const reader of this.all) reader.begin();
    },
    onTold: (words) => {
      const reader = this.all[words[1]];
      if (words[0] === UNKNOWN && reader !== undefined) this.lost(reader);
      else if (words[0] === GRANT && words.length === GRANT_WORDS) reader?.receive(words);
    },
  };

  /** @param open opens the context's line to the agent (`CoordinatorRegistry.line`), when it first READs from a peer */
  constructor(nowNs: () => number, granted: () => void, open: (events: AgentLineEvents) => void) {
    this.nowNs = nowNs;
    this.granted = granted;
    this.open = open;
  }

  get intervalNs(): number {
    return this.line?.intervalNs ?? 0;
  }

  tell(words: ArrayLike<number>): void {
    this.line?.tell(words);
  }

  /** No agent is known at the peer, for now. */
  private lost(reader: Reader): void {
    if (reader.isUnknown) return;
    reader.leave();
    this.retryNs.set(reader.gid, this.nowNs() + Math.max(RETRY_NS, RETRY_INTERVALS * this.intervalNs));
  }

  /** The reader for a peer, reached from the port with the GID `fromGid`; null while no agent is known there. */
  of(gid: string, fromGid: string): Reader | null {
    // The peer is the device itself.
    if (gid === fromGid || gid === '') return null;
    if (!this.isOpen) {
      this.isOpen = true;
      this.open(this.events);
    }
    if (this.line === null) return null;
    const nowNs = this.nowNs();
    const isToRetry = !((this.retryNs.get(gid) ?? 0) > nowNs);
    let reader = this.all.find((one) => one.gid === gid);
    if (reader === undefined) {
      if (!isToRetry) return null;
      reader = new Reader(gid, fromGid, this.all.length, this);
      this.all.push(reader);
      reader.begin();
    } else if (reader.isUnknown && isToRetry) reader.begin();
    return reader.isUnknown ? null : reader;
  }
}

/** A reader of another host, which is a member here. */
interface Guest {
  readonly peer: number;
  readonly number: number;
  readonly page: MemberPage;
  readonly answer: Float64Array;
  lastReport: number;
  heardNs: number;
}

/** A reader of this host. */
interface Own {
  readonly member: number;
  /** Its number on the member's line. */
  readonly number: number;
  readonly peer: number;
  readonly tenant: number;
}

/** The agent of perf at one host: its own readers, and the readers of other hosts that are members here. */
export class ReadAgent implements Agent {
  /** Own readers by the number that peers know, and those of other hosts by peer and number. */
  private readonly readers = new Map<number, Own>();
  private readonly guests = new Map<string, Guest>();
  private readonly guestCounts: number[] = [];
  private nextReader = 0;
  /** The number of the last grant that was sent, to any reader. */
  private lastGrant = 0;
  /** Numbers that peers know, by member and number on its line. */
  private readonly numbers = new Map<number, Map<number, number>>();

  onTold(member: number, words: Float64Array, out: AgentActions): void {
    if (words[0] === READ) this.read(member, words, out);
    else if (words[0] === REPORT && words.length === REPORT_WORDS) {
      const number = this.numbers.get(member)?.get(words[1]);
      const own = number === undefined ? undefined : this.readers.get(number);
      if (number === undefined || own === undefined) {
        out.tell(member, [UNKNOWN, words[1]]);
        return;
      }
      [words[1], words[3]] = [number, own.tenant];
      out.send(own.peer, words);
    }
  }

  /** A member READs from a peer. */
  private read(member: number, words: Float64Array, out: AgentActions): void {
    const [, number] = words;
    const [gid, fromGid] = [gidFromWords(words, 2), gidFromWords(words, 6)];
    const numbers = this.numbers.get(member) ?? new Map<number, number>();
    this.numbers.set(member, numbers);
    this.end(numbers.get(number), out);
    numbers.delete(number);
    const tenant = tenantOf(member, out);
    const isKnown =
      gid !== null && fromGid !== null && !out.gids.includes(gid) && this.hasRoom(numbers, tenant);
    const peer = isKnown ? out.peerAt(gid, fromGid) : -1;
    if (peer < 0) {
      out.tell(member, [UNKNOWN, number]);
      return;
    }
    numbers.set(number, this.nextReader);
    this.readers.set(this.nextReader++, { member, number, peer, tenant });
  }

  /** Whether a member with these numbers, of a tenant, may have one more reader. */
  private hasRoom(numbers: ReadonlyMap<number, number>, tenant: number): boolean {
    if (numbers.size >= MAX_OF_MEMBER || this.readers.size >= MAX_READERS) return false;
    if (tenant === 0 || this.readers.size < MAX_OF_TENANT) return true;
    let count = 0;
    for (const one of this.readers.values()) if (one.tenant === tenant) count++;
    return count < MAX_OF_TENANT;
  }

  /** A reader is gone. */
  private end(number: number | undefined, out: AgentActions): void {
    const own = number === undefined ? undefined : this.readers.get(number);
    if (number === undefined || own === undefined) return;
    this.readers.delete(number);
    out.send(own.peer, [LEAVE, number]);
  }

  /** A peer that is silent may be another one soon, at the same GID: its readers look for it again. */
  onPeer(peer: number, change: 'up' | 'down', out: AgentActions): void {
    if (change === 'up') return;
    for (const [known, own] of this.readers) {
      if (own.peer !== peer) continue;
      this.readers.delete(known);
      this.numbers.get(own.member)?.delete(own.number);
      out.tell(own.member, [UNKNOWN, own.number]);
    }
  }

  onLeft(member: number, out: AgentActions): void {
    for (const number of this.numbers.get(member)?.values() ?? []) this.end(number, out);
    this.numbers.delete(member);
  }

  forgetPeer(peer: number): boolean {
    for (const own of this.readers.values()) if (own.peer === peer) return false;
    for (const guest of this.guests.values()) if (guest.peer === peer) return false;
    return true;
  }

  onMessage(peer: number, words: Float64Array, out: AgentActions): void {
    const number = words[1];
    if (words[0] === REPORT && words.length === REPORT_WORDS) this.reported(peer, words, out);
    else if (words[0] === LEAVE) this.remove(`${peer} ${number}`, out);
    else if (words[0] === GRANT && words.length === GRANT_WORDS) this.granted(peer, words, out);
  }

  private granted(peer: number, words: Float64Array, out: AgentActions): void {
    const own = this.readers.get(words[1]);
    if (own?.peer !== peer) return;
    words[1] = own.number;
    if (words[SLOTS_GRANTED + SLOT_END_NS] !== 0) words[SLOTS_GRANTED + SLOT_END_NS] += out.nowNs;
    out.tell(own.member, words);
  }

  private reported(peer: number, words: Float64Array, out: AgentActions): void {
    const guest = this.guestOf(peer, words, out);
    if (guest === null || !(words[2] > guest.lastReport)) return;
    // A reader whose earlier reports were lost is news, too.
    const isNews = guest.lastReport === 0 || (words[4] & IS_NEWS) !== 0;
    const { page } = guest;
    guest.lastReport = words[2];
    // Nothing counts the bytes that are READ from this host, so the report has to be believed (claims.ts).
    const bytes = (words[REPORT_HEADER + WIRE_GBPS] / 8) * (out.nowNs - guest.heardNs);
    page.counters[SENT_BYTES] += 1 + (bytes < MAX_REPORTED_BYTES ? bytes : 0);
    guest.heardNs = out.nowNs;
    page.columns(master).reports.set(words.subarray(REPORT_HEADER, SLOTS_REPORTED));
    page.columns(slots).reports.set(words.subarray(SLOTS_REPORTED));
    page.counters[WRITTEN_NS] = out.nowNs;
    page.beat();
    if ((words[4] & FOR_MASTER) !== 0) out.decide(master, isNews);
    if ((words[4] & FOR_SLOTS) !== 0) out.decide(slots, true);
    this.answer(guest, out);
  }

  private guestOf(peer: number, words: Float64Array, out: AgentActions): Guest | null {
    const [, number, , tenant] = words;
    const key = `${peer} ${number}`;
    const known = this.guests.get(key);
    if (known !== undefined) return known;
    const count = this.guestCounts[peer] ?? 0;
    const isValid = Number.isSafeInteger(number) && Number.isSafeInteger(tenant) && tenant >= 0;
    if (!isValid || count >= MAX_OF_PEER || this.guests.size >= MAX_GUESTS) return null;
    const page = out.join(tenant, () => this.answer(guest, out));
    if (page === null) return null;
    const answer = new Float64Array(GRANT_WORDS);
    [answer[0], answer[1]] = [GRANT, number];
    const guest: Guest = { peer, number, page, answer, lastReport: 0, heardNs: out.nowNs };
    this.guests.set(key, guest);
    this.guestCounts[peer] = count + 1;
    if (this.guests.size === 1) out.timer(out.nowNs + SWEEP_NS, SWEEP);
    return guest;
  }

  private answer({ peer, page, answer, lastReport }: Guest, out: AgentActions): void {
    answer[2] = ++this.lastGrant;
    answer[3] = lastReport;
    answer.set(page.columns(master).grants, GRANT_HEADER);
    answer.set(page.columns(slots).grants, SLOTS_GRANTED);
    // The clocks of two hosts differ.
    if (answer[SLOTS_GRANTED + SLOT_END_NS] !== 0) answer[SLOTS_GRANTED + SLOT_END_NS] -= out.nowNs;
    out.send(peer, answer);
  }

  /** Removes readers of which nothing is heard. */
  onTimer(_token: number, out: AgentActions): void {
    for (const [key, guest] of this.guests) {
      if (out.nowNs - guest.heardNs > SILENT_NS) this.remove(key, out);
    }
    if (this.guests.size > 0) out.timer(out.nowNs + SWEEP_NS, SWEEP);
  }

  private remove(key: string, out: AgentActions): void {
    const guest = this.guests.get(key);
    if (guest === undefined) return;
    this.guests.delete(key);
    this.guestCounts[guest.peer]--;
    out.leave(guest.page);
    out.decide(master, true);
    out.decide(slots, true);
  }
}

/** The number of a member's tenant; 0: a tenant of its own. */
function tenantOf(member: number, out: AgentActions): number {
  const { tenants } = out.members(master);
  tenants.group();
  const tenant = tenants.tenantOf(member);
  return tenant < 0 ? 0 : Math.max(0, tenants.idOf(tenant));
}

/** The agents of perf. */
export const readAgents: AgentKind<ReadAgent> = { name: 'perf', create: () => new ReadAgent() };
