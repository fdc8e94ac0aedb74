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
import { fitColumn } from '../../shim/tables.ts';
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
  /** The present rate of an entity that has queue pairs, in bytes on the wire per nanosecond; 0: the last one stays. */
  readonly perNsOf: (entity: number) => number;
  /**
   * The part of the burst that a new entity has at once; default: all. None where others know what the entity sends in
   * other processes: otherwise, each new process would have a burst.
   */
  readonly firstBurst?: (qp: QpView) => number;
}

/** Holds the requests of entities until their buckets have tokens. */
export class Throttle {
  /** Debt outlives the queue pairs: an entity that returns still owes it. */
  readonly entities: Entities;
  private options: ThrottleOptions;
  // By entity.
  private readonly buckets: Bucket[] = [];
  private paid: Float64Array = new Float64Array(16);
  // By queue pair.
  private readonly qps: QpView[] = [];
  private readonly wire: WireFacts[] = [];
  /** Queue pairs that wait for tokens, a queue for each entity. */
  private readonly waiting = new RunQueue();

  constructor(options: ThrottleOptions) {
    this.options = options;
    this.entities = new Entities({
      keyOf: options.keyOf,
      onNew: (entity, qp) => {
        const { burstBytes: burst, firstBurst } = this.options;
        this.buckets[entity] = new Bucket({ burst, tokens: burst * (firstBurst?.(qp) ?? 1) });
        this.paid = fitColumn(this.paid, entity);
        this.paid[entity] = 0;
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
    let paidBytes = 0;
    let i = 0;
    for (; i < count; i++) {
      const at = L.slotAt(start + i);
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (bucket.tokens <= 0 || words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      const bytes = messageBytes(words, at, 0);
      if (bytes > this.options.pieceBytes) break;
      passedBytes += bytes;
      const wireSize = wireBytes(wire, words[at + L.WR_OP] & 0xff, bytes);
      bucket.take(wireSize);
      paidBytes += wireSize;
    }
    this.paid[entity] += paidBytes;
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
    if (entity === NONE) return;
    const bucket = this.buckets[entity];
    bucket.fill(out.nowNs(context));
    const perNs = this.entities.count(entity) > 0 ? this.options.perNsOf(entity) : 0;
    if (perNs > 0) bucket.setRate(perNs);
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
      const wireSize = wireBytes(this.wire[i], opcode, bytes);
      bucket.take(wireSize);
      this.paid[entity] += wireSize;
      if (out.backlog(qp) > 0) waiting.push(i, entity);
    }
    let armed: ContextView | null = null;
    for (; i !== NONE; i = waiting.next(i)) {
      const { context } = this.qps[i];
      if (context !== armed) out.timer(context, bucket.readyNs(1), entity);
      armed = context;
    }
  }

  /** The bytes on the wire that an entity has paid for since the last call. */
  takePaid(entity: number): number {
    const bytes = this.paid[entity];
    this.paid[entity] = 0;
    return bytes;
  }

  /** The tokens of an entity at this time; negative for a debt. */
  tokensAt(entity: number, nowNs: number): number {
    return this.buckets[entity].tokensAt(nowNs);
  }
}
