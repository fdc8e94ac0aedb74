/** The reliable connection of two hosts' agents on which one WRITE at a time is measured. */
import { SendBatch } from '../verbs/batch.ts';
import * as C from '../verbs/constants.ts';
import { IsoverbsError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import { maskOf } from '../verbs/qp-state.ts';
import type { AhAttr, QpAttr } from '../verbs/types.ts';

/** The largest probe, and the size of the buffer that probes write to. */
export const PROBE_BYTES = 4096;
/** A shorter probe is part of its request, as messages of latency applications are, so the NIC need not fetch it. */
const INLINE = new Uint8Array(32);
/** A queue pair's number has 24 bits; the peer sends a float64. */
const MAX_QP_NUM = 2 ** 24 - 1;
const MAX_KEY = 2 ** 32 - 1;

/** What a path is made of: objects of the link, and the buffer of both its probes and the peer's. */
export interface ProbePathParts {
  readonly pd: number;
  readonly cq: number;
  readonly path: AhAttr;
  /** IBV_MTU_* */
  readonly mtu: number;
  readonly bufferAddr: number;
  readonly lkey: number;
  readonly rkey: number;
  readonly wrId: number;
  readonly context: number;
}

export class ProbePath {
  /** Words of a description: the queue pair's number, the buffer's address, and its key. */
  static readonly WORDS = 3;
  readonly description: readonly number[];
  isConnected = false;
  /** Whether a probe has begun, and since when. */
  isProbing = false;
  beganNs = 0;
  private readonly provider: Provider;
  private readonly parts: ProbePathParts;
  private readonly qp: number;
  private readonly batch: SendBatch;
  private remote: readonly number[] = [];
  private bytes = 0;
  private isPosted = false;
  private startedNs = 0;

  /** @throws NoResourcesError */
  constructor(provider: Provider, parts: ProbePathParts) {
    this.provider = provider;
    this.parts = parts;
    const { pd, cq, bufferAddr, rkey } = parts;
    const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: INLINE.length };
    const attr = { qpType: C.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
    const { handle, qpNum } = provider.createQp(pd, attr);
    this.qp = handle;
    this.description = [qpNum, bufferAddr, rkey];
    this.batch = new SendBatch(provider, { capacity: 1, sges: 1, inlineBytes: INLINE.length });
    const qpAccessFlags = C.IBV_ACCESS_REMOTE_WRITE;
    try {
      this.modify({ qpState: C.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags });
    } catch (error) {
      this.close();
      throw error;
    }
  }

  private modify(attr: QpAttr): void {
    this.provider.modifyQp(this.qp, attr, maskOf(attr));
  }

  /** Begins a probe. Returns false while another one is in progress. */
  begin(bytes: number, nowNs: number): boolean {
    if (this.isProbing) return false;
    this.isProbing = true;
    this.isPosted = false;
    this.bytes = bytes;
    this.beganNs = nowNs;
    return true;
  }

  /** Whether a probe waits for the connection. */
  get isWaiting(): boolean {
    return this.isProbing && !this.isPosted;
  }

  /** Whether the peer's description is that of the connection, or there is no connection yet. */
  mayConnect(remote: Float64Array): boolean {
    return !this.isConnected || this.remote[0] === remote[0];
  }

  /** Connects with the peer's description. Returns false if it is wrong, or the device refuses it. */
  connect(remote: Float64Array): boolean {
    if (this.isConnected) return this.remote[0] === remote[0];
    const [destQpNum, addr, rkey] = remote;
    const isNumber = (value: number, most: number) => Number.isInteger(value) && value >= 0 && value <= most;
    if (
      !isNumber(destQpNum, MAX_QP_NUM) ||
      !isNumber(addr, Number.MAX_SAFE_INTEGER) ||
      !isNumber(rkey, MAX_KEY)
    )
      return false;
    const { mtu, path } = this.parts;
    try {
      this.modify({
        qpState: C.IBV_QPS_RTR,
        ...{ pathMtu: mtu, destQpNum, rqPsn: 0, maxDestRdAtomic: 1, minRnrTimer: 12, ah: path },
      });
      const retries = { timeout: 14, retryCnt: 7, rnrRetry: 7, maxRdAtomic: 1 };
      this.modify({ qpState: C.IBV_QPS_RTS, sqPsn: 0, ...retries });
    } catch (error) {
      if (error instanceof IsoverbsError) return false;
      throw error;
    }
    this.remote = [destQpNum, addr, rkey];
    this.isConnected = true;
    return true;
  }

  /** Posts the WRITE of the probe. */
  post(): void {
    const { batch, parts, remote, bytes } = this;
    this.isPosted = true;
    batch.clear();
    const { wrId, bufferAddr, lkey } = parts;
    const [, addr, rkey] = remote;
    if (bytes > INLINE.length) batch.write(wrId, C.IBV_SEND_SIGNALED, bufferAddr, bytes, lkey, addr, rkey);
    else {
      batch.inline(wrId, C.IBV_WR_RDMA_WRITE, C.IBV_SEND_SIGNALED, INLINE.subarray(0, bytes));
      batch.remoteTo(0, addr, rkey);
    }
    this.startedNs = this.provider.nowNs(parts.context);
    this.provider.postSend(this.qp, batch.ring, 0, 1);
  }

  /** The WRITE has completed. Returns the time that it took. */
  end(nowNs: number): number {
    this.isProbing = false;
    return nowNs - this.startedNs;
  }

  close(): void {
    this.provider.destroyQp(this.qp);
    this.provider.destroyRing(this.batch.ring);
  }
}
