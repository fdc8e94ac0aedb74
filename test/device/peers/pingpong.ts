/**
 * Our side of ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong. The C program echoes each message
 * (it receives into the buffer that it sends from), so our messages change with every round, and the echo is compared
 * byte by byte. The first byte of each page is 0, because the C program's -c checks it.
 */
import { exchange } from '../../../examples/pingpong-handshake.mjs';
import * as I from '../../../src/index.ts';

export type Kind = 'rc' | 'uc' | 'ud' | 'srq';

export interface PingpongOptions {
  kind: Kind;
  device: string;
  gidIndex: number;
  sizeBytes: number;
  iters: number;
  /** Number of queue pairs for ibv_srq_pingpong; the other programs have one. */
  qps: number;
  /** Whether to sleep until completions arrive, rather than poll. */
  events: boolean;
  /**
   * Whether packets get lost. The C program ends as soon as it has our last message. If its acknowledgement is lost, our
   * last send is retried in vain, and fails.
   */
  lossy?: boolean;
  /** Whether to set the first bytes of pages to other values, so that the C program complains. */
  spoiled?: boolean;
  /** Address of the C server to connect to as its client; absent: be the server of a C client. */
  host?: string;
  /** TCP port of the handshake; 0 for any. */
  port: number;
  listening?: (port: number) => void;
}

const PAGE_BYTES = 4096;
/** ibv_srq_pingpong always sends this many addresses, of which only some are in use. */
const SRQ_ADDRESSES = 256;
const NOWHERE = { lid: 0, qpNum: 0, psn: 0, gid: '' };
const PATIENCE_MS = 30_000;
/** The byte with which the C programs fill their memory. */
const FILL = { rc: 0x7b, uc: 0x7b, ud: 0x7b, srq: 0 };

interface Peer {
  qp: I.QueuePair;
  /** Offset of the send buffer. */
  out: number;
  remote: I.Endpoint;
  ah: I.AddressHandle | null;
  /** Round of the last message sent; -1 if none was sent. */
  round: number;
  /** Completions that must arrive before the next send: one receive, one send. */
  pending: number;
}

/** The fields of a completion that are checked. */
interface Done {
  wrId: number | bigint;
  isRecv: boolean;
  byteLen: number;
  qpNum: number;
  srcQp: number;
}

class Pingpong {
  private readonly options: PingpongOptions;
  private readonly context: I.Context;
  private readonly pd: I.ProtectionDomain;
  private readonly cq: I.CompletionQueue;
  private readonly mr: I.MemoryRegion;
  private readonly srq: I.SharedReceiveQueue | null;
  private readonly peers: Peer[];
  private readonly slotBytes: number;
  private readonly headerBytes: number;
  private readonly fetched: I.WcBatch;
  private taken = 0;

  constructor(options: PingpongOptions) {
    const { kind, device, sizeBytes, qps, gidIndex } = options;
    this.options = options;
    this.headerBytes = kind === 'ud' ? I.GRH_BYTES : 0;
    this.slotBytes = this.headerBytes + sizeBytes;
    this.context = I.openDevice(device);
    this.pd = this.context.allocPd();
    this.cq = this.context.createCq({ cqe: 4 * qps });
    this.mr = this.pd.allocate(2 * qps * this.slotBytes);
    this.fetched = this.context.wcBatch({ capacity: 2 * qps });
    this.srq = kind === 'srq' ? this.pd.createSrq({ maxWr: qps, maxSge: 1 }) : null;
    this.peers = Array.from({ length: qps }, (_, i) => {
      const qp = this.createQp();
      qp.toInit();
      const remote = qp.endpoint({ gidIndex });
      return { qp, remote, ah: null, out: (qps + i) * this.slotBytes, round: -1, pending: 1 };
    });
    for (let slot = 0; slot < qps; slot++) this.receive(this.peers[slot].qp, slot);
  }

  private createQp(): I.QueuePair {
    const { srq, cq, options } = this;
    const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1 };
    if (srq !== null) return this.pd.createQp({ sendCq: cq, srq, cap: { maxSendWr: 1, maxSendSge: 1 } });
    const type = ({ rc: 'RC', uc: 'UC', ud: 'UD', srq: 'RC' } as const)[options.kind];
    return this.pd.createQp({ sendCq: cq, type, cap });
  }

  /** Slot n of the memory holds one receive, from whichever queue pair. */
  private receive(qp: I.QueuePair, slot: number): void {
    const { mr, slotBytes: length } = this;
    (this.srq ?? qp).receive({ wrId: slot, sgList: [{ mr, offset: slot * length, length }] });
  }

  async connect(): Promise<void> {
    const { kind, host, port, gidIndex, qps, listening } = this.options;
    const mine: I.Endpoint[] = this.peers.map(({ qp }) => qp.endpoint({ gidIndex }));
    while (kind === 'srq' && mine.length < SRQ_ADDRESSES) mine.push(NOWHERE);
    const connectQps = (theirs: I.Endpoint[]) => {
      for (let i = 0; i < qps; i++) this.connectQp(this.peers[i], theirs[i]);
    };
    await exchange({ host, port, mine, connectQps, listening });
  }

  private connectQp(peer: Peer, remote: I.Endpoint): void {
    const { gidIndex } = this.options;
    peer.remote = remote;
    if (peer.qp.type === 'UD') {
      peer.qp.start();
      peer.ah = this.pd.createAhTo(remote, { gidIndex });
      return;
    }
    const mtu = I.IBV_MTU_1024;
    peer.qp.connectTo(remote, { gidIndex, mtu, maxRdAtomic: 1, maxDestRdAtomic: 1, retryCnt: 7 });
  }

  /** With several queue pairs all messages are identical, because the C program has one buffer for all of them. */
  private byteAt(i: number, round: number): number {
    if (i % PAGE_BYTES === 0) return this.options.spoiled ? 0x55 : 0;
    const shift = this.options.qps > 1 ? 0 : round;
    return (i * 31 + (i >> 8) + shift * 7 + 1) & 0xff;
  }

  private send(peer: Peer): void {
    const { mr, options } = this;
    peer.round++;
    for (let i = 0; i < options.sizeBytes; i++) mr.bytes[peer.out + i] = this.byteAt(i, peer.round);
    const sgList = [{ mr, offset: peer.out, length: options.sizeBytes }];
    const to = peer.ah === null ? undefined : { ah: peer.ah, qpNum: peer.remote.qpNum };
    peer.qp.post({ wrId: options.qps, opcode: 'SEND', sgList, to });
    peer.pending = 2;
  }

  /** The initial bytes of the C program, which a message holds where nothing has been written. */
  private fillAt(i: number): number {
    return i % PAGE_BYTES === 0 ? 0 : FILL[this.options.kind];
  }

  private check(peer: Peer, slot: number, byteLen: number): void {
    const { options, headerBytes, slotBytes } = this;
    if (byteLen !== slotBytes) throw new Error(`${byteLen} bytes arrived, not ${slotBytes}`);
    const from = slot * slotBytes + headerBytes;
    for (let i = 0; i < options.sizeBytes; i++) {
      const got = this.mr.bytes[from + i];
      const echoed = got === this.byteAt(i, peer.round);
      // The client's first messages come from its initial memory, or hold our answers on other queue pairs.
      const first = got === this.fillAt(i) || (echoed && options.qps > 1);
      if (peer.round === -1 ? !first : !echoed) {
        throw new Error(`byte ${i} of the answer to round ${peer.round} is 0x${got.toString(16)}`);
      }
    }
  }

  private async next(): Promise<Done> {
    if (this.options.events) return I.expectSuccess(await this.cq.next());
    const wc = this.fetched;
    const giveUp = Date.now() + PATIENCE_MS;
    while (this.taken >= wc.length) {
      this.taken = 0;
      if (this.cq.poll(wc) > 0) break;
      if (Date.now() > giveUp) throw new Error('no completion comes any more');
      await new Promise(setImmediate);
    }
    const i = this.taken++;
    if (wc.status(i) !== I.IBV_WC_SUCCESS) throw new Error(`failed: ${I.wcStatusName(wc.status(i))}`);
    const [wrId, isRecv, byteLen] = [wc.wrId(i), wc.isRecv(i), wc.byteLen(i)];
    return { wrId, isRecv, byteLen, qpNum: wc.qpNum(i), srcQp: wc.srcQp(i) };
  }

  /** Runs, like the C programs, until `iters` sends and `iters` receives have completed. */
  async run(): Promise<void> {
    const { iters, host } = this.options;
    if (host !== undefined) for (const peer of this.peers) this.send(peer);
    let [sent, received] = [0, 0];
    while (sent < iters || received < iters) {
      const isLast = received === iters && sent === iters - 1;
      const wc = await this.next().catch((error) => this.excuse(error, isLast));
      if (wc === null) return;
      const peer = this.peers.find(({ qp }) => qp.qpNum === wc.qpNum);
      if (peer === undefined) throw new Error(`a completion of queue pair ${wc.qpNum}`);
      if (wc.isRecv) {
        received++;
        if (peer.ah !== null && wc.srcQp !== peer.remote.qpNum) throw new Error(`it is from ${wc.srcQp}`);
        const slot = Number(wc.wrId);
        this.check(peer, slot, wc.byteLen);
        this.receive(peer.qp, slot);
      } else sent++;
      if (--peer.pending === 0 && sent < iters) this.send(peer);
    }
  }

  /** Null if a completion may be missing. @throws the error that says why it is missing, if not */
  private excuse(error: unknown, isLast: boolean): null {
    const { IBV_WC_RETRY_EXC_ERR: exceeded } = I;
    const lossy = this.options.lossy === true;
    if (lossy && isLast && error instanceof I.CompletionError && error.status === exceeded) return null;
    throw error;
  }

  close(): void {
    this.context.close();
  }
}

/** Runs the exchange to its end; `peerDone` resolves when the C program has ended, before which we must not close. */
export async function pingpong(options: PingpongOptions, peerDone: () => Promise<unknown>): Promise<void> {
  const ours = new Pingpong(options);
  try {
    await ours.connect();
    await ours.run();
    await peerDone();
  } finally {
    ours.close();
  }
}
