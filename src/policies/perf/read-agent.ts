/**
 * READ isolation: the data of a READ leaves by the peer's device, so it competes with the tenants there. The agent of the
 * reader's host reports the reader to the agent of the peer's host. That agent makes the reader a member of its device and
 * answers with the grants. The hosts know each other only through messages. Any of these may be lost, so the report is
 * repeated at each sample.
 */
import type { Agent, AgentActions, AgentKind } from '../../coordinator/agent.ts';
import type { Columned } from '../../coordinator/layout.ts';
import { MEMBER, type MemberPage, WRITTEN_NS } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { QNUM_ALLOW, SLOT_END_NS, SLOT_NUMBER, SLOT_STATE, SPLIT } from './columns.ts';
import { master } from './master.ts';
import { slots } from './slot-rotation.ts';

/** Kinds of messages. */
const REPORT = 1;
const GRANT = 2;
const LEAVE = 3;

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

/** Members that one peer may have here, and the time after which a silent one is removed. */
const MAX_READERS = 4096;
const SILENT_NS = 1e9;
const SWEEP_NS = 1e8;
const SWEEP = 0;
/** A report that is not answered within this time, or whose answer is lost, does not hold up the next one. */
const ANSWER_NS = 1e5;
/** A reader whose reports are not answered for this long sends as if there were no tenants at the peer. */
const UNANSWERED_NS = 2e6;

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
  private readonly peer: number;
  private readonly words = new Float64Array(REPORT_WORDS);
  private readonly out: AgentActions;
  private readonly granted: () => void;
  private lastGrant = 0;
  /** The last report that was answered, and the last one with news. */
  private answered = 0;
  private news = 0;
  /** When the last report was sent, and when the first that is not answered. */
  private sentNs = 0;
  private unansweredNs = 0;
  /** What is to be reported when the last report is answered: flags, as in a report. */
  private pending = 0;

  /** @param granted is called when it must act on its grants at once */
  constructor(peer: number, number: number, tenant: number, out: AgentActions, granted: () => void) {
    this.peer = peer;
    this.out = out;
    this.granted = granted;
    [this.words[0], this.words[1], this.words[3]] = [REPORT, number, tenant];
  }

  /** Whether the grants do not take the last news into account yet. */
  get isAwaiting(): boolean {
    return this.answered < this.news && this.out.nowNs - this.unansweredNs < UNANSWERED_NS;
  }

  /**
   * Reports what the page says to the peer, where one of the rulers decides. Only one report is on its way at a time,
   * because answers may queue behind the data that the peer sends.
   */
  report(isForSlots: boolean, isNews: boolean): void {
    const { words, out } = this;
    const { nowNs } = out;
    this.pending |= (isForSlots ? FOR_SLOTS : FOR_MASTER) | (isNews ? IS_NEWS : 0);
    if (isNews) {
      if (this.answered >= this.news) this.unansweredNs = nowNs;
      this.news = words[2] + 1;
    }
    if (this.answered === words[2] || nowNs - this.sentNs >= ANSWER_NS) this.send(nowNs);
  }

  private send(nowNs: number): void {
    const { words, page } = this;
    words[2]++;
    words[4] = this.pending;
    this.pending = 0;
    this.sentNs = nowNs;
    words.set(page.columns(master).reports, REPORT_HEADER);
    words.set(page.columns(slots).reports, SLOTS_REPORTED);
    this.out.send(this.peer, words);
  }

  leave(): void {
    this.out.send(this.peer, [LEAVE, this.words[1]]);
  }

  /** The peer has granted. */
  receive(words: Float64Array, nowNs: number): void {
    // Messages may overtake each other.
    if (!(words[2] > this.lastGrant)) return;
    this.lastGrant = words[2];
    this.answered = Math.max(this.answered, Math.min(words[3], this.words[2]));
    const { page } = this;
    if (words[SLOTS_GRANTED + SLOT_END_NS] !== 0) words[SLOTS_GRANTED + SLOT_END_NS] += nowNs;
    const { grants } = page.columns(master);
    const { grants: slot } = page.columns(slots);
    const isToAct =
      words[GRANT_HEADER + SPLIT] !== grants[SPLIT] ||
      words[GRANT_HEADER + QNUM_ALLOW] !== grants[QNUM_ALLOW] ||
      words[SLOTS_GRANTED + SLOT_STATE] !== slot[SLOT_STATE] ||
      words[SLOTS_GRANTED + SLOT_NUMBER] !== slot[SLOT_NUMBER];
    grants.set(words.subarray(GRANT_HEADER, SLOTS_GRANTED));
    slot.set(words.subarray(SLOTS_GRANTED));
    if (isToAct) this.granted();
    // What is no news waits for the next report: a sample follows soon.
    const isUrgent = (this.pending & (FOR_SLOTS | IS_NEWS)) !== 0;
    if (isUrgent && this.answered === this.words[2]) this.send(nowNs);
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

/** The agent of perf at one host: its own readers, and the readers of other hosts that are members here. */
export class ReadAgent implements Agent {
  private out: AgentActions | null = null;
  /** Own readers by number, and those of other hosts by peer and number. */
  private readonly readers = new Map<number, Reader>();
  private readonly guests = new Map<string, Guest>();
  private readonly guestCounts: number[] = [];
  private nextReader = 0;

  onStart(out: AgentActions): void {
    this.out = out;
  }

  /**
   * The context of a tenant READs from a peer.
   * @param tenant its number; 0: a tenant of its own @param granted is called when it must act on its grants at once
   * @returns null if no agent is known there
   */
  read(gid: string, fromGid: string, tenant: number, granted: () => void): Reader | null {
    const { out } = this;
    const peer = out?.peerAt(gid, fromGid) ?? -1;
    if (out === null || peer < 0) return null;
    const reader = new Reader(peer, this.nextReader, tenant, out, granted);
    this.readers.set(this.nextReader++, reader);
    return reader;
  }

  /** The context of a reader has closed. */
  leave(reader: Reader): void {
    for (const [number, one] of this.readers) {
      if (one === reader) this.readers.delete(number);
    }
    reader.leave();
  }

  onMessage(peer: number, words: Float64Array, out: AgentActions): void {
    const number = words[1];
    if (words[0] === REPORT && words.length === REPORT_WORDS) this.reported(peer, words, out);
    else if (words[0] === LEAVE) this.remove(`${peer} ${number}`, out);
    else if (words[0] === GRANT && words.length === GRANT_WORDS) {
      this.readers.get(number)?.receive(words, out.nowNs);
    }
  }

  private reported(peer: number, words: Float64Array, out: AgentActions): void {
    const guest = this.guestOf(peer, words, out);
    if (guest === null || !(words[2] > guest.lastReport)) return;
    // A reader whose earlier reports were lost is news, too.
    const isNews = guest.lastReport === 0 || (words[4] & IS_NEWS) !== 0;
    const { page } = guest;
    guest.lastReport = words[2];
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
    if (!Number.isSafeInteger(number) || !Number.isSafeInteger(tenant) || count >= MAX_READERS) return null;
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
    answer[2]++;
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
  }
}

/** The agents of perf. */
export const readAgents: AgentKind<ReadAgent> = { name: 'perf', create: () => new ReadAgent() };
