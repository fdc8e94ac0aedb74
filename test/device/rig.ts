/** Helpers that the device tests share: a device if there is one, and queue pairs connected to themselves. */
import { addonStatus, createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import * as V from '../../src/verbs/index.ts';
import { initAttr, pathTo, rtrAttr, rtsAttr } from '../support/to-rts.ts';

export interface Found {
  provider: V.Provider;
  name: string;
}

/** The device to test on, or the reason why there is none. */
export function findDevice(): Found | string {
  const status = addonStatus();
  if (!status.available) return status.notes[0];
  const provider = createRdmaCoreProvider();
  const devices = provider.getDeviceList();
  const wanted = process.env.RXE_DEV;
  const device = devices.find((d) => wanted === undefined || d.name === wanted);
  if (device === undefined)
    return `no RDMA device${wanted === undefined ? '' : ` ${wanted}`} on this machine`;
  return { provider, name: device.name };
}

const found = findDevice();
/** Why the tests are skipped; empty if there is a device. */
export const skipReason = typeof found === 'string' ? found : '';
if (skipReason !== '') console.warn(`device tests are skipped: ${skipReason}`);

export const ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;

export interface RigOptions {
  cap?: Partial<V.QpCap>;
  cqe?: number;
  sqSigAll?: boolean;
  qpType?: number;
  /** 0 to 6: the number of tries after which the device gives up. */
  retryCnt?: number;
  rnrRetry?: number;
  access?: number;
  /** Whether the CQ has a completion channel. */
  channel?: boolean;
  memoryBytes?: number;
}

export function defined(): Found {
  if (typeof found === 'string') throw new Error(found);
  return found;
}

/** The index of a GID that reaches the device itself: IPv4 and RoCE v2 if there is one. */
export function gidIndexOf(p: V.Provider, context: number): number {
  const { gidTblLen } = p.queryPort(context, 1);
  let best = 0;
  for (let i = 0; i < Math.min(gidTblLen, 16); i++) {
    const { gid, type } = p.queryGid(context, 1, i);
    if (gid.startsWith('::ffff:') && type === 'RoCE v2') best = i;
  }
  return best;
}

export function toInit(p: V.Provider, qp: number, access = ACCESS): void {
  const attr = initAttr({ qpAccessFlags: access });
  p.modifyQp(qp, attr, V.maskOf(attr));
}

/** Moves an INIT queue pair to RTS, connected to `destQpNum` on the same device. */
export function connect(
  p: V.Provider,
  context: number,
  qp: number,
  destQpNum: number,
  options: RigOptions = {},
) {
  const sgidIndex = gidIndexOf(p, context);
  const { gid } = p.queryGid(context, 1, sgidIndex);
  const { qpType, retryCnt = 6, rnrRetry = 6 } = options;
  const path = { destQpNum, ah: pathTo(gid, sgidIndex), psn: 0x123 };
  const rts = { ...path, qpType, timeout: 16, retryCnt, rnrRetry };
  for (const attr of [rtrAttr(rts), rtsAttr(rts)]) p.modifyQp(qp, attr, V.maskOf(attr));
}

/** A context with one queue pair connected to itself, its CQ, and memory with all access rights. */
export class Rig {
  readonly p: V.Provider;
  readonly context: number;
  readonly pd: number;
  readonly channel: number;
  readonly cq: number;
  readonly qp: number;
  readonly qpInfo: V.QpInfo;
  readonly mr: V.MrInfo;
  readonly bytes: Uint8Array;
  readonly send: V.SendBatch;
  readonly recv: V.RecvBatch;
  readonly wcs: V.WcBatch;

  constructor(options: RigOptions = {}) {
    const { provider: p, name } = defined();
    this.p = p;
    this.context = p.openDevice(name);
    this.pd = p.allocPd(this.context);
    this.channel = options.channel ? p.createCompChannel(this.context) : 0;
    this.cq = p.createCq(this.context, options.cqe ?? 256, this.channel).handle;
    const cap = {
      maxSendWr: 64,
      maxRecvWr: 64,
      maxSendSge: 4,
      maxRecvSge: 4,
      maxInlineData: 128,
      ...options.cap,
    };
    this.qpInfo = this.createQp({ ...options, cap });
    this.qp = this.qpInfo.handle;
    this.mr = p.allocMr(this.pd, options.memoryBytes ?? 65536, options.access ?? ACCESS);
    this.bytes = new Uint8Array(this.mr.memory, this.mr.byteOffset, this.mr.lengthBytes);
    this.send = new V.SendBatch(p, { capacity: 256, sges: 32, inlineBytes: 1024 });
    this.recv = new V.RecvBatch(p, { capacity: 256, sges: 32 });
    this.wcs = new V.WcBatch(p, { capacity: 256 });
  }

  createQp(options: RigOptions & { cap: V.QpCap }): V.QpInfo {
    return this.p.createQp(this.pd, {
      qpType: options.qpType ?? V.IBV_QPT_RC,
      sendCq: this.cq,
      recvCq: this.cq,
      cap: options.cap,
      sqSigAll: options.sqSigAll ?? false,
    });
  }

  /** Connects the queue pair to itself. */
  static connected(options: RigOptions = {}): Rig {
    const rig = new Rig(options);
    toInit(rig.p, rig.qp);
    connect(rig.p, rig.context, rig.qp, rig.qpInfo.qpNum, options);
    return rig;
  }

  get addr(): number {
    return this.mr.addr;
  }

  /** Posts the whole send batch. */
  postSend(): number {
    return this.p.postSend(this.qp, this.send.ring, 0, this.send.length);
  }

  postRecv(): number {
    return this.p.postRecv(this.qp, this.recv.ring, 0, this.recv.length);
  }

  /** Polls until `count` completions have arrived, with a deadline; returns copies of their slots. */
  async drain(count: number, deadlineMs = 10_000): Promise<Completion[]> {
    const until = performance.now() + deadlineMs;
    const out: Completion[] = [];
    while (out.length < count) {
      const n = this.p.pollCq(this.cq, this.wcs.ring, 0, this.wcs.capacity);
      for (let i = 0; i < n; i++) out.push(completion(this.wcs, i));
      if (n > 0) continue;
      if (performance.now() > until) {
        throw new Error(
          `${out.length} of ${count} completions within ${deadlineMs} ms: ${JSON.stringify(out)}`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return out;
  }

  close(): void {
    const { p } = this;
    this.send.close();
    this.recv.close();
    this.wcs.close();
    p.destroyQp(this.qp);
    p.destroyCq(this.cq);
    p.deregMr(this.mr.handle);
    p.deallocPd(this.pd);
    if (this.channel !== 0) p.destroyCompChannel(this.channel);
    p.closeDevice(this.context);
  }
}

export interface Completion {
  wrId: number;
  status: number;
  opcode: number;
  flags: number;
  recv: boolean;
  byteLen: number;
  imm: number;
  qp: number;
  qpNum: number;
  seq: number;
}

function completion(wcs: V.WcBatch, i: number): Completion {
  return {
    wrId: wcs.wrId(i),
    status: wcs.status(i),
    opcode: wcs.opcode(i),
    flags: wcs.flags(i),
    recv: wcs.isRecv(i),
    byteLen: wcs.byteLen(i),
    imm: wcs.imm(i),
    qp: wcs.qp(i),
    qpNum: wcs.qpNum(i),
    seq: wcs.words[V.slotAt(i) + V.WC_SEQ],
  };
}

/** The error that a call throws; fails if it throws none. */
export function errorOf(call: () => unknown): V.IsoverbsError {
  try {
    call();
  } catch (error) {
    if (error instanceof V.IsoverbsError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}
