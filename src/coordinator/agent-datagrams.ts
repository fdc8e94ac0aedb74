/**
 * The datagram queue pair of one host's agents at a device. Messages are small and unacknowledged: agents repeat what
 * matters.
 */
import { RecvBatch, SendBatch } from '../verbs/batch.ts';
import * as C from '../verbs/constants.ts';
import { IsoverbsError } from '../verbs/errors.ts';
import { gidFromWords, gidToWords } from '../verbs/gid.ts';
import type { Provider } from '../verbs/provider.ts';
import { maskOf } from '../verbs/qp-state.ts';
import type { WcBatch } from '../verbs/wc-batch.ts';
import { MAX_MESSAGE_WORDS } from './agent.ts';
import type { AgentAddress, AgentCarrier, AgentChannel, Frame } from './agent-carrier.ts';

// Words of a frame: magic, kind, hash of the agent's name, GIDs of source and destination (32 bits each), the message.
const MAGIC = 0x49534f41;
/** The third word of the GID of an IPv4 address. */
const IPV4_MAPPED = 0xffff;
const FROM_AT = 3;
const TO_AT = 7;
const HEADER_WORDS = 11;
const FRAME_BYTES = 8 * (HEADER_WORDS + MAX_MESSAGE_WORDS);
const GRH_BYTES = 40;
const RECEIVE_BYTES = GRH_BYTES + FRAME_BYTES;
const RECEIVES = 128;
const SENDS = 64;
/** Completions that the queue pair may have at once. */
export const DATAGRAM_COMPLETIONS = RECEIVES + SENDS;
const QKEY = 0x1507a6;
/** Greetings leave this many slots free for messages. */
const FREE_SLOTS = 16;

/** A way to a peer. */
interface Channel extends AgentChannel {
  readonly peer: number;
  readonly qpNum: number;
  /** Both GIDs as they are in frames, because a conversion takes longer than the rest of a frame. */
  readonly toWords: readonly number[];
  readonly fromWords: readonly number[];
  readonly ah: number;
}

export interface DatagramParts {
  readonly provider: Provider;
  readonly pd: number;
  readonly cq: number;
  /** What releases the objects of the device, in the order of their creation. */
  readonly releases: (() => void)[];
  /** The index of one of the port's GIDs; -1: there is none. */
  indexOf(gid: string): number;
}

export class AgentDatagrams implements AgentCarrier {
  readonly watchesPeers = false;
  readonly qpNum: number;
  private readonly parts: DatagramParts;
  private readonly qp: number;
  private readonly mr: { readonly addr: number; readonly lkey: number };
  private readonly words: Float64Array;
  private readonly bytes: Uint8Array;
  private readonly channels: Channel[] = [];
  private readonly freeSends = Array.from({ length: SENDS }, (_, slot) => slot);
  private readonly sends: SendBatch;
  private readonly receives: RecvBatch;

  /** @throws IsoverbsError if the device has no room for another queue pair */
  constructor(parts: DatagramParts) {
    const { provider, pd, cq, releases } = parts;
    this.parts = parts;
    this.sends = new SendBatch(provider, { capacity: 1, sges: 1 });
    releases.push(() => provider.destroyRing(this.sends.ring));
    this.receives = new RecvBatch(provider, { capacity: 1, sges: 1 });
    releases.push(() => provider.destroyRing(this.receives.ring));
    const bytes = RECEIVES * RECEIVE_BYTES + SENDS * FRAME_BYTES;
    const { memory, ...mr } = provider.allocMr(pd, bytes, C.IBV_ACCESS_LOCAL_WRITE);
    releases.push(() => provider.deregMr(mr.handle));
    this.mr = mr;
    this.words = new Float64Array(memory, 0, bytes / 8);
    this.bytes = new Uint8Array(memory);
    // Behind the queue pair whose requests name them.
    releases.push(() => {
      for (const { ah } of this.channels) provider.destroyAh(ah);
    });
    const cap = { maxSendWr: SENDS, maxRecvWr: RECEIVES, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const attr = { qpType: C.IBV_QPT_UD, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
    const { handle, qpNum } = provider.createQp(pd, attr);
    [this.qp, this.qpNum] = [handle, qpNum];
    releases.push(() => provider.destroyQp(handle));
    this.toRts();
    for (let slot = 0; slot < RECEIVES; slot++) this.receive(slot);
  }

  private toRts(): void {
    const modify = (attr: Parameters<typeof maskOf>[0]) =>
      this.parts.provider.modifyQp(this.qp, attr, maskOf(attr));
    modify({ qpState: C.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey: QKEY });
    modify({ qpState: C.IBV_QPS_RTR });
    modify({ qpState: C.IBV_QPS_RTS, sqPsn: 0 });
  }

  private receive(slot: number): void {
    const { receives, mr, parts } = this;
    receives.clear();
    receives.recv(slot, mr.addr + slot * RECEIVE_BYTES, RECEIVE_BYTES, mr.lkey);
    parts.provider.postRecv(this.qp, receives.ring, 0, 1);
  }

  /** Whether there are free slots for greetings. */
  get mayGreet(): boolean {
    return this.freeSends.length > FREE_SLOTS;
  }

  channel({ gid, qpNum }: AgentAddress, fromGid: string, peer: number): AgentChannel | null {
    const { provider, pd, indexOf } = this.parts;
    const attr = { dgid: gid, sgidIndex: indexOf(fromGid), portNum: 1, hopLimit: 64 };
    let ah: number;
    try {
      ah = provider.createAh(pd, attr);
    } catch (error) {
      if (error instanceof IsoverbsError) return null;
      throw error;
    }
    const channel: Channel = {
      ...{ peer, qpNum, ah, toWords: gidToWords(gid), fromWords: gidToWords(fromGid) },
      send: (kind, agent, words) => this.send(channel, kind, agent, words),
      close: () => {
        this.channels.splice(this.channels.indexOf(channel), 1);
        provider.destroyAh(ah);
      },
    };
    this.channels.push(channel);
    return channel;
  }

  private send(to: Channel, kind: number, agent: number, words: ArrayLike<number>): void {
    const { sends, mr, parts } = this;
    // Without a free slot, the message is lost.
    const slot = this.freeSends.pop();
    if (slot === undefined) return;
    const byteOffset = RECEIVES * RECEIVE_BYTES + slot * FRAME_BYTES;
    const at = byteOffset / 8;
    const w = this.words;
    [w[at], w[at + 1], w[at + 2]] = [MAGIC, kind, agent];
    w.set(to.fromWords, at + FROM_AT);
    w.set(to.toWords, at + TO_AT);
    w.set(words, at + HEADER_WORDS);
    sends.clear();
    const bytes = 8 * (HEADER_WORDS + words.length);
    sends.send(slot, C.IBV_SEND_SIGNALED, mr.addr + byteOffset, bytes, mr.lkey);
    sends.datagramTo(0, to.ah, to.qpNum, QKEY);
    if (parts.provider.postSend(this.qp, sends.ring, 0, 1) === 0) this.freeSends.push(slot);
  }

  /** Reuses what a completion has freed. Returns the frame that has arrived, if any. */
  completed(wc: WcBatch, i: number): Frame | null {
    const slot = wc.wrId(i);
    if (!wc.isRecv(i)) {
      this.freeSends.push(slot);
      return null;
    }
    const isGood = wc.status(i) === C.IBV_WC_SUCCESS;
    const frame = isGood ? this.frameAt(slot, wc.byteLen(i), wc.srcQp(i)) : null;
    this.receive(slot);
    return frame;
  }

  /** What has arrived in a slot; null: it is no frame of an agent, or not from where it says. */
  private frameAt(slot: number, byteLen: number, qpNum: number): Frame | null {
    const at = (slot * RECEIVE_BYTES + GRH_BYTES) / 8;
    const length = (byteLen - GRH_BYTES) / 8 - HEADER_WORDS;
    const w = this.words;
    if (!Number.isInteger(length) || length < 0 || w[at] !== MAGIC) return null;
    if (!isFrom(this.bytes.subarray(slot * RECEIVE_BYTES, slot * RECEIVE_BYTES + GRH_BYTES), w, at))
      return null;
    const words = w.slice(at + HEADER_WORDS, at + HEADER_WORDS + length);
    const [kind, agent] = [w[at + 1], w[at + 2]];
    const known = this.channels.find(
      (one) =>
        one.qpNum === qpNum && isGid(one.toWords, w, at + FROM_AT) && isGid(one.fromWords, w, at + TO_AT),
    );
    if (known !== undefined) return { peer: known.peer, from: '', to: '', qpNum, kind, agent, words };
    const [from, to] = [FROM_AT, TO_AT].map((offset) => gidFromWords(w, at + offset));
    return from === null || to === null ? null : { peer: -1, from, to, qpNum, kind, agent, words };
  }
}

function isGid(gid: readonly number[], words: Float64Array, at: number): boolean {
  return (
    gid[3] === words[at + 3] && gid[2] === words[at + 2] && gid[1] === words[at + 1] && gid[0] === words[at]
  );
}

/**
 * Whether the packet's own header, which the NIC writes before the message, names the sender that the frame names. An IPv4
 * header follows 20 bytes of anything.
 */
function isFrom(header: Uint8Array, words: Float64Array, at: number): boolean {
  const is = (word: number, byte: number) =>
    words[at + FROM_AT + word] ===
    ((header[byte] << 24) | (header[byte + 1] << 16) | (header[byte + 2] << 8) | header[byte + 3]) >>> 0;
  const [mayBeIpv6, mayBeIpv4] = [header[0] >> 4 === 6, header[20] >> 4 === 4];
  if (mayBeIpv6 && is(0, 8) && is(1, 12) && is(2, 16) && is(3, 20)) return true;
  if (mayBeIpv4 && words[at + FROM_AT + 2] === IPV4_MAPPED && is(3, 32)) return true;
  // A device that writes no header.
  return !mayBeIpv6 && !mayBeIpv4;
}
