/**
 * Rates of queue pairs that an agent sets, for instance to control congestion. Each context has a line to the agent of its
 * device. On it, the context tells the agent of its connections, and the agent sets their rates, as often as it likes: only
 * the last one of each queue pair is kept.
 *
 * To the agent, ten words for each queue pair: 1 (connected) or 0 (destroyed), its handle, and the GIDs of the peer's port
 * and of its own, four words each. From the agent, two words for each: the handle, and the rate in units of 1000 bit/s (0:
 * none).
 */
import { type AgentKind, type AgentLine, MAX_MESSAGE_WORDS } from '../../coordinator/agent.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { gidToWords } from '../../verbs/gid.ts';

const WORDS = 10;
const QPS_PER_MESSAGE = Math.floor(MAX_MESSAGE_WORDS / WORDS);

/** A context with a line to the agent. */
interface Member {
  readonly context: ContextView;
  line: AgentLine | null;
  /** By handle. */
  readonly qps: Map<number, QpView>;
  /** Handles that the agent has not heard of: of connected queue pairs, and of destroyed ones. */
  readonly untold: Set<number>;
  /** Queue pairs whose rates the agent has changed. */
  readonly changed: Set<QpView>;
}

/** The rates that the agents of the devices of one policy set. */
export class AgentRates {
  private readonly registry: CoordinatorRegistry;
  private readonly kind: AgentKind;
  private readonly firstToken: number;
  /** By context. */
  private readonly members: (Member | undefined)[] = [];
  /** By queue pair, in units of 1000 bit/s. */
  private kbps: Float64Array = new Float64Array(64);

  /** @param firstToken of as many timers as there are contexts */
  constructor(registry: CoordinatorRegistry, kind: AgentKind, firstToken: number) {
    this.registry = registry;
    this.kind = kind;
    this.firstToken = firstToken;
  }

  /** A context was opened. */
  open(context: ContextView): void {
    const member: Member = {
      context,
      line: null,
      qps: new Map(),
      untold: new Set(),
      changed: new Set(),
    };
    this.members[context.index] = member;
    this.registry.line(context, this.kind, {
      onUp: (line) => {
        member.line = line;
        for (const handle of member.qps.keys()) member.untold.add(handle);
        this.registry.notify(context);
      },
      onTold: (words) => this.told(member, words),
    });
  }

  private told({ context, qps, changed }: Member, words: Float64Array): void {
    const isNew = changed.size === 0;
    for (let i = 0; i + 1 < words.length; i += 2) {
      const qp = qps.get(words[i]);
      const kbps = words[i + 1];
      if (qp === undefined || !(kbps >= 0 && kbps < Number.POSITIVE_INFINITY)) continue;
      this.kbps[qp.index] = kbps;
      changed.add(qp);
    }
    if (isNew && changed.size > 0) this.registry.notify(context);
  }

  /** A queue pair was connected. */
  connected(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    if (member === undefined || qp.dgid === '') return;
    this.kbps = fitColumn(this.kbps, qp.index);
    if (member.qps.get(qp.handle) !== qp) this.kbps[qp.index] = 0;
    member.qps.set(qp.handle, qp);
    member.untold.add(qp.handle);
    this.flush(qp.context.index, out);
  }

  /** A queue pair was destroyed. */
  drop(qp: QpView, out: Actions): void {
    const member = this.members.find((one) => one?.qps.get(qp.handle) === qp);
    if (member === undefined) return;
    member.qps.delete(qp.handle);
    member.changed.delete(qp);
    member.untold.add(qp.handle);
    this.kbps[qp.index] = 0;
    this.flush(member.context.index, out);
  }

  /** The rate of a queue pair in Gbit/s; Infinity: none. */
  gbpsOf({ index }: QpView): number {
    const kbps = index < this.kbps.length ? this.kbps[index] : 0;
    return kbps > 0 ? kbps / 1e6 : Number.POSITIVE_INFINITY;
  }

  /** Tells the agent what it has not heard, and returns the queue pairs whose rates it has changed. */
  exchange({ index }: ContextView, out: Actions): readonly QpView[] {
    this.flush(index, out);
    const { changed } = this.members[index] ?? {};
    if (changed === undefined || changed.size === 0) return [];
    const qps = [...changed];
    changed.clear();
    return qps;
  }

  /** A timer has expired. Returns whether it was one of this object. */
  onTimer(token: number, out: Actions): boolean {
    if (token < this.firstToken) return false;
    this.flush(token - this.firstToken, out);
    return true;
  }

  private flush(index: number, out: Actions): void {
    const member = this.members[index];
    if (member === undefined || member.line === null || !this.registry.has(member.context)) return;
    const { context, line, untold } = member;
    while (untold.size > 0) {
      const handles = [...untold].slice(0, QPS_PER_MESSAGE);
      if (!line.tell(handles.flatMap((handle) => wordsOf(handle, member.qps.get(handle))))) {
        out.timer(context, out.nowNs(context) + line.intervalNs, this.firstToken + index);
        return;
      }
      for (const handle of handles) untold.delete(handle);
    }
  }
}

function wordsOf(handle: number, qp: QpView | undefined): number[] {
  if (qp === undefined) return [0, handle, 0, 0, 0, 0, 0, 0, 0, 0];
  return [1, handle, ...gidToWords(qp.dgid), ...gidToWords(qp.sgid)];
}
