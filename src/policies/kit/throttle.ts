/**
 * Holds entities (entities.ts) to rates. Requests of all queue pairs of an entity take tokens from its bucket: bytes on
 * the wire, in the direction that a request loads more. Without tokens they are held, and the queue pairs are served
 * round robin, a piece each.
 *
 * The policy calls `join` and `leave` (from `onQp`), `onload` and `feed`. It calls `serve` from `onTimer`, with the token,
 * and when the rate of an entity has changed. The tokens of timers are the indices of entities.
 */
import { BYTES } from '../../shim/counters.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import * as L from '../../verbs/layout.ts';
import { Entities, type EntityRules } from './entities.ts';
import { NONE, RunQueue } from './run-queue.ts';
import { BLOCKED, step } from './step.ts';
import { type WireFacts, wireBytes, wireFactsOf } from './wire.ts';

/** What a throttle is made of. */
export interface ThrottleOptions extends Pick<EntityRules, 'keyOf'> {
  /** Longer messages are cut into pieces of this size. */
  readonly pieceBytes: number;
  /** Bytes on the wire that an idle entity can save. */
  readonly burstBytes: number;
  /** The present rate of an entity that has queue pairs, in bytes on the wire per nanosecond. */
  readonly perNsOf: (entity: number) => number;
}

/** Holds the requests of entities until their buckets have tokens. */
export class Throttle {
  /** Debt outlives the queue pairs: an entity that returns still owes it. */
  readonly entities: Entities;
  private options: ThrottleOptions;
  // By entity.
  private readonly buckets: Bucket[] = [];
  // By queue pair.
  private readonly qps: QpView[] = [];
  private readonly wire: WireFacts[] = [];
  /** Queue pairs that wait for tokens, a queue for each entity. */
  private readonly waiting = new RunQueue();

  constructor(options: ThrottleOptions) {
    this.options = options;
    this.entities = new Entities({
      keyOf: options.keyOf,
      onNew: (entity) => {
        this.buckets[entity] = new Bucket({ burst: this.options.burstBytes });
      },
      mayForget: (entity, nowNs) => this.buckets[entity].isFull(nowNs),
    });
  }

  /** Changes options. `serve` lets them take effect. */
  configure(change: Partial<Pick<ThrottleOptions, 'pieceBytes' | 'burstBytes'>>): void {
    this.options = { ...this.options, ...change };
    for (const bucket of this.buckets) bucket.setBurst(this.options.burstBytes);
  }

  /** A queue pair was created. Returns its entity, whose rate is `perNsOf` from its first request on. */
  join(qp: QpView, out: Actions): number {
    this.qps[qp.index] = qp;
    this.wire[qp.index] = wireFactsOf(qp.context.nic);
    return this.entities.join(qp, out.nowNs(qp.context));
  }

  /** A queue pair was destroyed. Returns the entity that it left; NONE: it was in none. */
  leave({ index }: { readonly index: number }, out: Actions): number {
    const qp = this.qps[index];
    if (this.entities.of({ index }) === NONE) return NONE;
    this.waiting.remove(index);
    this.fill(this.entities.of(qp), qp.context, out);
    return this.entities.leave(qp, out.nowNs(qp.context));
  }

  /** Passes short messages while the bucket has tokens and no queue pair of the entity waits. Counts their bytes. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    const entity = this.entities.of(qp);
    if (entity === NONE || this.waiting.first(entity) !== NONE) return 0;
    const bucket = this.buckets[entity];
    const wire = this.wire[qp.index];
    let passedBytes = 0;
    let i = 0;
    for (; i < count; i++) {
      const at = L.slotAt(start + i);
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (bucket.tokens <= 0 || words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > this.options.pieceBytes) break;
      passedBytes += bytes;
      bucket.take(wireBytes(wire, words[at + L.WR_OP] & 0xff, bytes));
    }
    qp.counts[BYTES] += passedBytes;
    return i;
  }

  /** The queue pair holds requests that may be issued. */
  feed(qp: QpView, out: Actions): void {
    const entity = this.entities.of(qp);
    if (entity === NONE || this.waiting.has(qp.index)) return;
    this.waiting.push(qp.index, entity);
    this.serve(entity, out);
  }

  /** Adds the tokens earned at the previous rate, and adopts the present one. Without queue pairs, it stays. */
  fill(entity: number, context: ContextView, out: Actions): void {
    const bucket = this.buckets[entity];
    bucket.fill(out.nowNs(context));
    if (this.entities.count(entity) > 0) bucket.setRate(this.options.perNsOf(entity));
  }

  /** Serves the waiting queue pairs round robin until the tokens are used up, then sets timers for the next one. */
  serve(entity: number, out: Actions): void {
    const { waiting } = this;
    const bucket = this.buckets[entity];
    let i = waiting.first(entity);
    if (i !== NONE) this.fill(entity, this.qps[i].context, out);
    for (; i !== NONE && bucket.tokens > 0; i = waiting.first(entity)) {
      const qp = this.qps[i];
      waiting.remove(i);
      const opcode = out.nextOpcode(qp);
      const bytes = step(qp, out, this.options.pieceBytes);
      // A queue pair that could not be served waits for completions, not for tokens.
      if (bytes === BLOCKED) continue;
      bucket.take(wireBytes(this.wire[i], opcode, bytes));
      if (out.backlog(qp) > 0) waiting.push(i, entity);
    }
    let armed: ContextView | null = null;
    for (; i !== NONE; i = waiting.next(i)) {
      const { context } = this.qps[i];
      if (context !== armed) out.timer(context, bucket.readyNs(1), entity);
      armed = context;
    }
  }

  /** The tokens of an entity at this time; negative for a debt. */
  tokensAt(entity: number, nowNs: number): number {
    return this.buckets[entity].tokensAt(nowNs);
  }
}
