/**
 * What the contexts of justitia have to send. The contexts report it to the ruler as weights, and to the agent by peer.
 * A queue pair counts while it has something to send; with `paper`, while it is connected.
 */
import type { Actions, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPS_RTS } from '../../verbs/constants.ts';
import { gidToWords } from '../../verbs/gid.ts';
import { HUNGRY_WEIGHT, LATENCY_WEIGHT, SENDS_BULK } from './columns.ts';
import { FLOW_WORDS } from './flows.ts';
import { type Kinds, LATENCY, THROUGHPUT } from './kinds.ts';
import type { JustitiaOptions } from './options.ts';
import type { Member } from './pacer.ts';

/** Positions in the words of a flow. */
const SENDS = 8;
const READS = 9;
const HAS_LATENCY = 10;

/** Bits for what a queue pair posts. */
const DOES_SEND = 1;
const DOES_READ = 2;

/** The weight of a queue pair's entity among those of its device. */
export function weightOf({ labels }: QpView, granularity: JustitiaOptions['granularity']): number {
  return granularity === 'flow' || granularity === 'group' ? labels.weight * labels.qpWeight : labels.weight;
}

/** The demands of all contexts. */
export class Demands {
  // By queue pair.
  /** 1 if it has posted a request since the last sample. */
  used: Uint8Array = new Uint8Array(64);
  /** 1 if it has something to send, so that its weight counts. */
  active: Uint8Array = new Uint8Array(64);
  /** What it posts, and what it has posted since the last sample (DOES_*). */
  private does: Uint8Array = new Uint8Array(64);
  private did: Uint8Array = new Uint8Array(64);
  private readonly options: () => JustitiaOptions;

  private readonly kinds: Kinds;

  constructor(options: () => JustitiaOptions, kinds: Kinds) {
    this.options = options;
    this.kinds = kinds;
  }

  /** A queue pair was created. */
  add({ index }: QpView): void {
    this.used = fitColumn(this.used, index);
    this.active = fitColumn(this.active, index);
    this.does = fitColumn(this.does, index);
    this.did = fitColumn(this.did, index);
    [this.used[index], this.active[index], this.does[index], this.did[index]] = [0, 0, 0, 0];
  }

  /**
   * Records whether the oldest held request of a queue pair is a READ. Returns whether the queue pair did not post such
   * requests before.
   */
  noteOpcode({ index }: QpView, isRead: boolean): boolean {
    const bit = isRead ? DOES_READ : DOES_SEND;
    this.did[index] |= bit;
    if ((this.does[index] & bit) !== 0) return false;
    this.does[index] |= bit;
    return true;
  }

  /**
   * Stops counting queue pairs that have had nothing to send since the last sample. Returns whether any queue pair of
   * the member has something to send.
   */
  sample({ qps }: Member, out: Actions): boolean {
    let isActive = false;
    const { paper } = this.options();
    for (const qp of qps) {
      const { index } = qp;
      if (this.kinds.of(qp) === LATENCY) {
        this.active[index] = 0;
        continue;
      }
      const isUsed = this.used[index] === 1 || out.backlog(qp) > 0 || out.outstanding(qp) > 0;
      this.active[index] = (paper ? qp.state === IBV_QPS_RTS : isUsed && !qp.broken) ? 1 : 0;
      this.used[index] = 0;
      if (this.did[index] !== 0) this.does[index] = this.did[index];
      this.did[index] = 0;
      if (isUsed) isActive = true;
    }
    return isActive;
  }

  /** Whether a queue pair belongs to a latency application, and is connected. */
  private isLatency(qp: QpView): boolean {
    return this.kinds.of(qp) === LATENCY && qp.state === IBV_QPS_RTS;
  }

  /** Reports what a member has to send. Returns whether the ruler must decide. */
  report(member: Member): boolean {
    const { reports } = member.columns;
    const { granularity } = this.options();
    const entities = new Map<string | number, number>();
    let [isBulk, latencyWeight] = [0, 0];
    for (const qp of member.qps) {
      if (this.isLatency(qp)) latencyWeight = Math.max(latencyWeight, qp.labels.weight);
      if (this.active[qp.index] === 0 || this.kinds.of(qp) === LATENCY) continue;
      if (this.kinds.of(qp) !== THROUGHPUT) isBulk = 1;
      const key = { flow: qp.index, group: qp.labels.group, application: '', tenant: '' }[granularity];
      entities.set(key, Math.max(entities.get(key) ?? 0, weightOf(qp, granularity)));
    }
    const hungryWeight = [...entities.values()].reduce((sum, weight) => sum + weight, 0);
    const hasChanged =
      reports[HUNGRY_WEIGHT] !== hungryWeight ||
      reports[SENDS_BULK] !== isBulk ||
      reports[LATENCY_WEIGHT] !== latencyWeight;
    [reports[HUNGRY_WEIGHT], reports[SENDS_BULK], reports[LATENCY_WEIGHT]] = [
      hungryWeight,
      isBulk,
      latencyWeight,
    ];
    this.reportPeers(member);
    return hasChanged;
  }

  /** Reports to the agent what a member does at each peer, if that has changed. */
  private reportPeers(member: Member): void {
    const { qps, line, told, columns } = member;
    if (line === null) return;
    member.owesWords = false;
    const now = new Map<string, Float64Array>();
    for (const gid of told.keys()) now.set(gid, told.get(gid)!.slice().fill(0, SENDS));
    for (const qp of qps) {
      const { dgid, sgid } = qp;
      const isActive = this.active[qp.index] === 1 && this.kinds.of(qp) !== LATENCY;
      if (dgid === '' || (!isActive && !this.isLatency(qp))) continue;
      let words = now.get(dgid);
      if (words === undefined) {
        words = new Float64Array(FLOW_WORDS);
        words.set([...gidToWords(dgid), ...gidToWords(sgid)]);
        now.set(dgid, words);
      }
      if (!isActive) {
        words[HAS_LATENCY] = 1;
        continue;
      }
      // A context counts once at each peer, with its whole weight, whatever the number of its queue pairs.
      const does = this.does[qp.index];
      if ((does & DOES_READ) !== 0) words[READS] = columns.reports[HUNGRY_WEIGHT];
      // Requests of message-rate applications that pass are not recorded, so a queue pair without a record counts as
      // sending.
      if (does !== DOES_READ) words[SENDS] = columns.reports[HUNGRY_WEIGHT];
    }
    for (const [gid, words] of now) {
      const before = told.get(gid);
      if (before !== undefined && words.every((word, i) => word === before[i])) continue;
      if (words[SENDS] + words[READS] + words[HAS_LATENCY] > 0) told.set(gid, words);
      else told.delete(gid);
      // The agent may answer within the call.
      if (line.tell(words)) continue;
      if (before === undefined) told.delete(gid);
      else told.set(gid, before);
      member.owesWords = true;
    }
  }

  /** Repeats all reports to an agent that does not know the member. */
  reportAgain(member: Member): void {
    for (const [gid, words] of member.told) {
      if (member.line?.tell(words) !== false) continue;
      member.told.delete(gid);
      member.owesWords = true;
    }
  }
}
