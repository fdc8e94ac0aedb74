/**
 * READ by remote control (PeRF, appendix C): the peer's shim WRITEs the bytes of a READ, so that the peer's policy cuts
 * and paces them where they leave. If the peer refuses, and after every error, the READ itself is issued unchanged.
 */
import * as C from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { Interceptor } from '../compose.ts';
import type { Actions, Policy, QpChange, QpView } from '../policy.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Resources } from '../resources.ts';
import { createShim } from '../shim.ts';
import { isCrossChannel } from '../wait/cross-channel.ts';
import { LINK_BUFFER_BYTES, LINK_DEPTH, RECORDS, ReadLink, type ReadRequest } from './read-link.ts';
import { Regions } from './regions.ts';

const TWO32 = 4294967296;
/** Tokens of one queue pair: its receives, and its sends. */
const TOKENS = 8;
/** While an answer is awaited, the peer is probed in this interval. */
const PROBE_NS = 50e6;
const TARGET_ACCESS = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE;

export interface RemoteReadOptions {
  /** READs of fewer bytes are issued unchanged. Default 16384. */
  minBytes?: number;
}

class RemoteRead implements Policy {
  readonly name = 'remote-read';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 2;
  /** The device would not count the completions that this policy makes. */
  readonly crossChannel = true;
  private readonly next: Provider;
  private readonly minBytes: number;
  private readonly regions: Regions;
  private readonly kinds = new Map<number, { resources: Resources; kind: number }>();
  /** By queue pair. */
  private readonly links: (ReadLink | undefined)[] = [];

  constructor(next: Provider, options: RemoteReadOptions) {
    this.next = next;
    this.minBytes = options.minBytes ?? 16384;
    this.regions = new Regions(next, () => {});
  }

  verbs(): Partial<Verbs> {
    const known = this.regions.verbs();
    return {
      ...known,
      reregMr: (mr, change) => {
        const info = known.reregMr!(mr, change);
        this.registrationEnded(mr);
        return info;
      },
      deregMr: (mr) => {
        known.deregMr!(mr);
        this.registrationEnded(mr);
      },
    };
  }

  setup(resources: Resources): void {
    const access = C.IBV_ACCESS_REMOTE_WRITE;
    const kind = resources.twins({ depth: LINK_DEPTH, bufferBytes: LINK_BUFFER_BYTES, access });
    this.kinds.set(resources.context.handle, { resources, kind });
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    for (let i = 0; i < count; i++) {
      const at = L.slotAt(start + i);
      // Its completion must follow those of earlier requests, which must therefore be signaled.
      if (isCrossChannel(words, at)) return 0;
      if (this.isEligible(qp, words, at)) return i;
    }
    return count;
  }

  feed(view: QpView, out: Actions): void {
    const qp = view as QpLedger;
    while (out.backlog(qp) > 0) {
      const at = (qp.issued & qp.mask) * qp.stride;
      if (out.isCrossChannel(qp)) {
        if (!out.execute(qp)) return;
      } else if (this.isEligible(qp, qp.held, at)) {
        if (!this.takeOver(qp, at, out)) return;
      } else if (out.room(qp) < 1) {
        return;
      } else {
        out.pass(qp);
      }
    }
  }

  onQp(view: QpView, change: QpChange, out: Actions): void {
    const qp = view as QpLedger;
    const link = this.links[qp.index];
    if (change === 'created') {
      const known = this.kinds.get(qp.context.handle);
      const twin = known === undefined ? null : known.resources.twin(qp, known.kind);
      this.links[qp.index] = twin === null ? undefined : new ReadLink(qp, twin, qp.index * TOKENS);
      return;
    }
    if (link === undefined || change === 'labels') return;
    if (link.twin.connected) {
      if (!link.works && !link.isListening) link.open(out);
    } else {
      // The connection has ended, and a new one will have no twin.
      this.stop(link);
    }
    if (change === 'destroyed') this.links[qp.index] = undefined;
  }

  onInternal(token: number, status: number, out: Actions): void {
    const link = this.links[Math.floor(token / TOKENS)];
    if (link === undefined || !link.isListening) return;
    if (status !== C.IBV_WC_SUCCESS) {
      this.twinFailed(link, out);
      return;
    }
    const record = token % TOKENS;
    if (record >= RECORDS) return;
    const request = link.read(record);
    link.listen(record, out);
    if (request !== null) this.serve(link, request, out);
    else if (out.backlog(link.qp) > 0) this.feed(link.qp, out);
    if (!link.isListening) this.twinFailed(link, out);
  }

  onTimer(token: number, out: Actions): void {
    const link = this.links[token];
    if (link === undefined || link.pendingRead === null || !link.works) return;
    link.probe(out);
    this.watch(link, out);
  }

  /** Whether this request is a READ to request from the peer. */
  private isEligible(qp: QpView, words: Uint32Array, at: number): boolean {
    const op = words[at + L.WR_OP];
    if ((op & 0xff) !== C.IBV_WR_RDMA_READ || op >>> 16 !== 1) return false;
    return this.links[qp.index]?.works === true && words[at + L.WR_SGE0 + L.SGE_LENGTH] >= this.minBytes;
  }

  /** Handles the READ at the head of the queue; returns false if it must wait. */
  private takeOver(qp: QpLedger, at: number, out: Actions): boolean {
    const link = this.links[qp.index] as ReadLink;
    // A paused queue begins no request.
    if (qp.state !== C.IBV_QPS_RTS) return false;
    if (link.answer === 'done') {
      this.revoke(link);
      return out.deliver(qp, C.IBV_WC_SUCCESS, qp.held[at + L.WR_SGE0 + L.SGE_LENGTH]);
    }
    if (link.answer === 'none') {
      // The READ uses a different queue pair from the requests before it, which must therefore have ended.
      if (link.pendingRead !== null || out.inflight(qp) > 0) return false;
      const over = qp.realPosted === qp.realFreed;
      if (over && this.requestFromPeer(link, qp.held, at, out)) return false;
    }
    this.revoke(link);
    if (out.room(qp) < 1) return false;
    out.pass(qp);
    return true;
  }

  private requestFromPeer(link: ReadLink, w: Uint32Array, at: number, out: Actions): boolean {
    const { pd } = link.qp;
    const sge = at + L.WR_SGE0;
    const bytes = w[sge + L.SGE_LENGTH];
    const region = this.regions.find(pd, w[sge + L.SGE_LKEY]);
    const offset = w[sge + L.SGE_HI] * TWO32 + w[sge + L.SGE_LO] - (region?.info.addr ?? 0);
    if (region === undefined || (region.access & C.IBV_ACCESS_LOCAL_WRITE) === 0) return false;
    const { memory, byteOffset, lengthBytes } = region.info;
    if (offset < 0 || offset + bytes > lengthBytes) return false;
    let key: MrInfo;
    try {
      key = this.next.regMr(pd, memory, byteOffset + offset, bytes, TARGET_ACCESS);
    } catch (error) {
      if (error instanceof IsoverbsError) return false;
      throw error;
    }
    const addr = w[at + L.WR_REMOTE_HI] * TWO32 + w[at + L.WR_REMOTE_LO];
    const what = { rkey: w[at + L.WR_RKEY], addr, bytes, targetKey: key.rkey, targetAddr: key.addr };
    if (link.requestRead(what, key, region, out)) {
      this.watch(link, out);
      return true;
    }
    this.next.deregMr(key.handle);
    return false;
  }

  /** The peer requests a READ. One that the device would refuse is refused: the device then reports why. */
  private serve(link: ReadLink, what: ReadRequest, out: Actions): void {
    const { qp } = link;
    const region = this.regions.findRemote(qp.pd, what.rkey);
    const start = what.addr - (region?.info.addr ?? 0);
    const allowed =
      link.works &&
      region !== undefined &&
      (region.access & C.IBV_ACCESS_REMOTE_READ) !== 0 &&
      (qp.accessFlags & C.IBV_ACCESS_REMOTE_READ) !== 0 &&
      start >= 0 &&
      start + what.bytes <= region.info.lengthBytes;
    if (!allowed || !link.serve(what, region.info.lkey, what.addr, out)) link.refuse(what, out);
  }

  private watch(link: ReadLink, out: Actions): void {
    if (link.isWatched) return;
    link.isWatched = true;
    const { context, index } = link.qp;
    // With a timer, a program that polls a simulated device would advance to it as the next event.
    void this.next.sleep(context.handle, PROBE_NS, 'nothing').then(() => {
      link.isWatched = false;
      if (link.pendingRead !== null) out.timer(context, 0, index);
    });
  }

  /** The twin failed: this READ and all later ones are issued unchanged. */
  private twinFailed(link: ReadLink, out: Actions): void {
    link.isListening = false;
    this.stop(link);
    if (out.backlog(link.qp) > 0) this.feed(link.qp, out);
  }

  /** Stops requesting READs, and refuses the peer's requests. */
  private stop(link: ReadLink): void {
    link.works = false;
    this.revoke(link);
  }

  /** The peer may no longer write there. */
  private revoke(link: ReadLink): void {
    if (link.pendingRead !== null) this.next.deregMr(link.pendingRead.key.handle);
    link.pendingRead = null;
    link.answer = 'none';
  }

  /** A registration of the application has ended: the peer's WRITE to it must fail, as the READ then does. */
  private registrationEnded(mr: number): void {
    for (const link of this.links) {
      if (link?.pendingRead?.region.info.handle === mr) this.revoke(link);
    }
  }
}

/**
 * An interceptor that replaces READs by WRITEs of the peer's shim, through the layers below it at either end, on
 * connections that carry the messages of two shims. Put it outside the policy.
 */
export function readByRemoteControl(options: RemoteReadOptions = {}): Interceptor {
  return {
    name: 'remote-read',
    wrap(next) {
      const policy = new RemoteRead(next, options);
      return { ...createShim(() => policy).wrap(next), ...policy.verbs() };
    },
  };
}
