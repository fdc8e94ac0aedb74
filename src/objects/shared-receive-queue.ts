import {
  IBV_SRQ_LIMIT,
  IBV_SRQ_MAX_WR,
  IBV_SRQT_XRC,
  InvalidArgumentError,
  type RecvBatch,
  requireKnown,
  type SrqAttr,
  type SrqInitAttr,
} from '../verbs/index.ts';
import type { EventsOf, SrqEvent } from './async-events.ts';
import type { CompletionQueue } from './completion-queue.ts';
import type { Context } from './context.ts';
import { EmittingResource, type EventSource } from './emitting-resource.ts';
import { postError, rangeError } from './post-error.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import { packRecv, type RecvRequest } from './request.ts';
import { requireOwned } from './resource.ts';
import type { XrcDomain } from './xrc-domain.ts';

/** Options of pd.createSrq(). */
export interface SharedReceiveQueueOptions {
  /** Receives that may be outstanding. Default 128. */
  maxWr?: number;
  /** Elements per receive. Default 2. */
  maxSge?: number;
  /** XRC domain of an XRC queue (IBV_SRQT_XRC), which senders name by `srqNum`. Requires `cq`. */
  xrcd?: XrcDomain;
  /** Completion queue of the receives of an XRC queue. Requires `xrcd`. */
  cq?: CompletionQueue;
}

/**
 * A receive queue that several queue pairs share (ibv_create_srq_ex(3)), created by pd.createSrq(). It emits
 * 'srqErr', and 'srqLimitReached' once when fewer receives are left than the limit of arm().
 */
export class SharedReceiveQueue extends EmittingResource<EventsOf<SrqEvent>> {
  /** @internal */
  readonly kind = 'SharedReceiveQueue';
  readonly context: Context;
  readonly pd: ProtectionDomain;
  /** Number that XRC senders name; 0 on other queues. */
  readonly srqNum: number;
  /** Elements per receive that the device granted. */
  readonly maxSge: number;
  private readonly srq: number;
  private lastBatch: RecvBatch | null = null;
  private single: RecvBatch | null = null;

  /** @internal Use pd.createSrq(). */
  constructor(pd: ProtectionDomain, options: SharedReceiveQueueOptions = {}) {
    const { context } = pd;
    requireKnown('createSrq', options, ['maxWr', 'maxSge', 'xrcd', 'cq']);
    const { xrcd, cq } = options;
    const info = pd.provider.createSrq(pd.handle, initAttr(context, options));
    super({
      provider: pd.provider,
      handle: info.handle,
      label: context.labelFor('shared receive queue'),
      parents: [pd, ...(xrcd === undefined ? [] : [xrcd]), ...(cq === undefined ? [] : [cq])],
    });
    this.context = context;
    this.pd = pd;
    this.srqNum = info.srqNum;
    this.maxSge = info.maxSge;
    this.srq = info.handle;
    context.addEventSubject(this.srq, this);
  }

  /**
   * ibv_post_srq_recv(3): posts the requests start .. start + count - 1 of the batch. Returns count.
   * @throws QueueFullError, InvalidWorkRequestError, as in QueuePair.postSend()
   */
  postRecv(batch: RecvBatch, start = 0, count = batch?.length - start): number {
    if (batch !== this.lastBatch || batch === null) {
      this.context.requireBatch('postRecv', batch, 'RecvBatch');
      this.lastBatch = batch;
    }
    if (!(start >= 0 && count >= 0 && start + count <= batch.length)) throw rangeError(batch, start, count);
    const posted = this.provider.postSrqRecv(this.handle, batch.ring, start, count);
    if (posted === count) return count;
    const { errno, reason } = batch;
    throw postError({ verb: 'postSrqRecv', label: this.label, errno, reason, start, posted });
  }

  /** Posts one receive request given as an object. */
  receive(request: RecvRequest): void {
    this.single ??= this.context.recvBatch({ capacity: 1, sges: Math.max(2, this.maxSge) });
    packRecv(this.single, request, this.context);
    this.postRecv(this.single);
  }

  /** ibv_query_srq(3): granted capacities and the armed limit (0: none). */
  query(): SrqAttr {
    return this.provider.querySrq(this.handle);
  }

  /** Arms one 'srqLimitReached' event for fewer than `limit` remaining receives (IBV_SRQ_LIMIT); 0 disarms it. */
  arm(limit: number): void {
    this.provider.modifySrq(this.handle, { srqLimit: limit }, IBV_SRQ_LIMIT);
  }

  /** Resizes the queue to `maxWr` receives (IBV_SRQ_MAX_WR). @throws UnsupportedError, NoResourcesError */
  resize(maxWr: number): void {
    this.provider.modifySrq(this.handle, { maxWr }, IBV_SRQ_MAX_WR);
  }

  protected override eventSource(): EventSource {
    return this.context.asyncEvents;
  }

  protected override release(handle: number): void {
    this.provider.destroySrq(handle);
  }

  protected override released(): void {
    this.context.removeEventSubject(this.srq);
    this.single?.close();
  }
}

function initAttr(context: Context, options: SharedReceiveQueueOptions): SrqInitAttr {
  const { maxWr = 128, maxSge = 2, xrcd, cq } = options;
  if (xrcd === undefined && cq === undefined) return { maxWr, maxSge };
  if (xrcd === undefined || cq === undefined) {
    throw new InvalidArgumentError(
      'createSrq: pass both xrcd and cq for an XRC queue, or neither for a basic one',
    );
  }
  requireOwned(xrcd, 'XrcDomain', context, 'xrcd');
  requireOwned(cq, 'CompletionQueue', context, 'cq');
  return { maxWr, maxSge, srqType: IBV_SRQT_XRC, xrcd: xrcd.handle, cq: cq.handle };
}
