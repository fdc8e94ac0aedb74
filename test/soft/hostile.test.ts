// A hostile peer of a user-space RoCE device: mutated packets never crash it, never write outside the region that its peer
// may write, and never disturb other queue pairs. ISOVERBS_HOSTILE sets the number of packets.
import { afterAll, describe, expect, test } from 'vitest';
import type { ConnectToOptions } from '../../src/objects/index.ts';
import { NO_GID, ROW_GID, ROW_WORDS, requireUdp } from '../../src/providers/soft/native.ts';
import { encodePacket, RocePacket } from '../../src/roce/codec.ts';
import { ROCE_PORT, sealPacket } from '../../src/roce/icrc.ts';
import * as O from '../../src/roce/opcodes.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { gidToBytes, IBV_SEND_SIGNALED } from '../../src/verbs/index.ts';
import { absent, type End, openEnd, pairOf, twoDevices } from './rig.ts';

const NET = 72;
const VICTIM = `127.${NET}.0.1`;
const ATTACKER = `127.${NET}.0.9`;
const PACKETS = Number(process.env.ISOVERBS_HOSTILE ?? 20_000);
const SEED = Number(process.env.ISOVERBS_SEED ?? 1);
const BATCH = 32;
const STRIDE = 8192;
const REGION = { at: 8192, bytes: 16384, of: 65536 };

const OPERATIONS = [
  ...Array.from({ length: O.FETCH_ADD + 1 }, (_, operation) => operation),
  O.SEND_LAST_INVALIDATE,
  O.SEND_ONLY_INVALIDATE,
];
const TRANSPORTS = [O.RC, O.RC, O.RC, O.UC, O.UD, O.XRC];

/** Sends sealed packets from an address that no device has. */
class Attacker {
  readonly random = new RandomStream(SEED, 'hostile');
  private readonly native = requireUdp();
  private readonly fd = this.native.openUdp(gidToBytes(`::ffff:${ATTACKER}`), ROCE_PORT, 1 << 20, 0);
  private readonly slab = new Uint8Array(BATCH * STRIDE);
  private readonly rows = new Uint32Array(BATCH * ROW_WORDS);
  private readonly gids = new Uint8Array(this.rows.buffer);
  private readonly packet = new RocePacket();
  private readonly payload = new Uint8Array(5000).fill(0xee);
  private readonly route = {
    source: Uint8Array.from(ATTACKER.split('.').map(Number)),
    dest: Uint8Array.from(VICTIM.split('.').map(Number)),
    sourcePort: ROCE_PORT,
    identification: 0,
    trafficClass: 0,
    flowLabel: 0,
    hopLimit: 64,
  };

  private below(n: number): number {
    return this.random.u32() % n;
  }

  private oneOf<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }

  /** A packet that is nearly right for this queue pair: each part is wrong now and then. */
  private write(at: number, victim: Victim, ahead: number): number {
    const { packet, slab } = this;
    const wrong = () => this.below(10) === 0;
    do packet.opcode = (wrong() ? this.oneOf(TRANSPORTS) : O.RC) | this.oneOf(OPERATIONS);
    while (!O.isOpcode(packet.opcode));
    packet.destQp = wrong() ? this.oneOf([this.below(64), this.random.u32() >>> 8]) : victim.qpNum;
    const psn = victim.psn() + ahead + (wrong() ? this.oneOf([1, -1, 5, this.random.u32()]) : 0);
    packet.psn = psn & 0xffffff;
    packet.ackRequest = this.below(2) === 0;
    packet.solicited = this.below(2) === 0;
    const target = wrong() ? this.oneOf(victim.forbidden) : victim;
    const rkey = wrong() ? this.oneOf([this.random.u32(), target.rkey ^ 1]) : target.rkey;
    packet.rkey = packet.invalidateKey = rkey >>> 0;
    const within = this.oneOf([0, 8, 100, REGION.bytes - 8, 4096]);
    const addr = target.addr + (wrong() ? this.oneOf([REGION.bytes, -8, -4096, 2 ** 40]) : within);
    packet.remoteAddrHi = this.below(50) === 0 ? this.random.u32() : Math.floor(addr / 2 ** 32);
    packet.remoteAddrLo = (addr % 2 ** 32) >>> 0;
    packet.dmaLength = this.oneOf(wrong() ? [0, REGION.bytes + 1, 0xffffffff] : [8, 64, 1024, 4096]);
    packet.payloadBytes = wrong() ? this.oneOf([0, 1, 1024, 4096, 4097]) : Math.min(packet.dmaLength, 4096);
    packet.payload = this.payload;
    packet.payloadOffset = 0;
    packet.qkey = this.oneOf([0x11111111, 0, this.random.u32()]);
    packet.sourceQp = this.below(100);
    packet.srqNumber = this.below(4);
    packet.syndrome = this.below(256);
    packet.msn = this.random.u32() >>> 8;
    let bytes = encodePacket(packet, slab, at);
    // Bits flip before the packet is sealed, so that the ICRC does not protect the device.
    for (let flips = this.below(16) === 0 ? this.below(6) : 0; flips > 0; flips--) {
      slab[at + this.below(bytes)] ^= 1 << this.below(8);
    }
    if (this.below(16) === 0) bytes = 4 * this.below(1 + bytes / 4);
    const sealed = sealPacket(this.route, slab, at, Math.max(bytes, O.BTH_BYTES));
    if (this.below(16) === 0) slab[at + sealed - 1] ^= 1;
    return this.below(64) === 0 ? this.below(sealed) : sealed;
  }

  send(victim: Victim): void {
    for (let i = 0; i < BATCH; i++) {
      this.rows[i * ROW_WORDS] = i * STRIDE;
      this.rows[i * ROW_WORDS + 1] = this.write(i * STRIDE, victim, i);
      this.rows[i * ROW_WORDS + 2] = 0;
      this.gids.set(gidToBytes(`::ffff:${VICTIM}`), (i * ROW_WORDS + ROW_GID) * 4);
    }
    this.native.sendUdp(this.fd, this.slab, this.rows, BATCH, ROCE_PORT, NO_GID);
  }

  close(): void {
    this.native.closeFd(this.fd);
  }
}

interface Victim {
  readonly qpNum: number;
  readonly addr: number;
  readonly rkey: number;
  /** Memory of other protection domains, with rights for their own peers. */
  readonly forbidden: readonly { readonly addr: number; readonly rkey: number }[];
  psn(): number;
}

/** A queue pair that is connected to the attacker, with a window of a buffer that it may write. */
function victimOf({ context, pd, cq, mr: own }: End) {
  const buffer = new ArrayBuffer(REGION.of);
  const access = { remoteWrite: true, remoteRead: true, remoteAtomic: true };
  const mr = pd.register(buffer, { byteOffset: REGION.at, lengthBytes: REGION.bytes, access });
  const other = context.allocPd().allocate(4096, { access });
  const qp = pd.createQp({ sendCq: cq, recvCq: cq });
  const peer = { ...qp.endpoint(), gid: `::ffff:${ATTACKER}`, qpNum: 77 };
  const connect = () => {
    qp.connectTo(peer);
    for (let i = 0; i < 16; i++) qp.receive({ sgList: [{ mr, offset: 0, length: 8192 }] });
  };
  connect();
  const victim: Victim = {
    qpNum: qp.qpNum,
    addr: mr.addr,
    rkey: mr.rkey,
    forbidden: [other, own],
    psn: () => qp.query().attr.rqPsn ?? 0,
  };
  /** Connects again after the attacker has ended the connection. */
  const revive = () => {
    const state = qp.query().attr.qpState;
    if (state === 3) return false;
    qp.reset();
    connect();
    return true;
  };
  return { victim, revive, buffer, other };
}

describe.skipIf(absent !== null)('a hostile peer', () => {
  const network = absent === null ? twoDevices(NET) : null;
  const ends: End[] = [];
  afterAll(() => {
    for (const { context } of ends) context.close();
  });

  test(`${PACKETS} mutated packets (seed ${SEED}) change nothing that they may not`, {
    timeout: 600_000,
  }, async () => {
    const [a, b] = pairOf(network!);
    ends.push(a, b);
    const attacker = new Attacker();
    const { victim, revive, buffer, other } = victimOf(openVictim(a));
    const wc = a.context.wcBatch({ capacity: 64 });
    const batch = b.context.sendBatch({ capacity: 1 });
    b.mr.bytes.fill(5);
    let revived = 0;
    for (let sent = 0; sent < PACKETS; sent += BATCH) {
      attacker.send(victim);
      while (a.cq.poll(wc) > 0);
      if (revive()) revived++;
      if (sent % (BATCH * 50) !== 0) continue;
      // An honest connection to the same device goes on.
      batch.clear().write(1, IBV_SEND_SIGNALED, b.mr.addr, 9000, b.mr.lkey, a.mr.addr, a.mr.rkey);
      b.qp.postSend(batch);
      expect((await b.cq.next()).statusText).toBe('SUCCESS');
    }
    attacker.close();
    const bytes = new Uint8Array(buffer);
    expect(bytes.subarray(0, REGION.at).every((byte) => byte === 0)).toBe(true);
    expect(bytes.subarray(REGION.at + REGION.bytes).every((byte) => byte === 0)).toBe(true);
    expect(bytes.subarray(REGION.at, REGION.at + REGION.bytes).some((byte) => byte === 0xee)).toBe(true);
    expect(new Uint8Array(other.buffer).every((byte) => byte === 0)).toBe(true);
    expect(a.mr.bytes.subarray(0, 9000).every((byte) => byte === 5)).toBe(true);
    expect(a.mr.bytes.subarray(9000).every((byte) => byte === 0)).toBe(true);
    expect(revived).toBeGreaterThan(0);
    const counters = network!.counters('soft0')!;
    expect(counters.badIcrc).toBeGreaterThan(0);
    expect(counters.malformed).toBeGreaterThan(0);
    expect(counters.refused).toBeGreaterThan(0);
    expect(counters.received).toBeGreaterThan(PACKETS / 2);
  });

  test('a READ with the number of an executed atomic requires the right to READ, too', async () => {
    const a = openEnd(network!, 'soft0');
    const b = openEnd(network!, 'soft1');
    ends.push(a, b);
    b.qp.connectTo(a.qp.endpoint(), { access: { remoteAtomic: true } });
    const batch = a.context.sendBatch({ capacity: 1 });
    const statusOf = async (path: ConnectToOptions) => {
      // Connected anew, the queue pair begins with the same number.
      a.qp.reset();
      a.qp.connectTo(b.qp.endpoint(), path);
      a.qp.postSend(batch);
      return (await a.cq.next()).statusText;
    };
    batch.fetchAdd(1, IBV_SEND_SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
    expect(await statusOf({})).toBe('SUCCESS');
    batch.clear().read(2, IBV_SEND_SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(await statusOf({ timeout: 8, retryCnt: 1 })).toBe('RETRY_EXC_ERR');
  });

  test('a packet from another address than the peer’s is refused', async () => {
    const end = openEnd(network!, 'soft0');
    const other = openEnd(network!, 'soft1');
    ends.push(end, other);
    // The queue pair of `other` sends to one that is connected to the attacker's address.
    const { victim } = victimOf(end);
    const before = network!.counters('soft0')!.refused;
    other.qp.connectTo({ ...end.qp.endpoint(), qpNum: victim.qpNum }, { timeout: 8, retryCnt: 1 });
    const batch = other.context.sendBatch({ capacity: 1 });
    batch.write(1, IBV_SEND_SIGNALED, other.mr.addr, 8, other.mr.lkey, victim.addr, victim.rkey);
    other.qp.postSend(batch);
    expect((await other.cq.next()).statusText).toBe('RETRY_EXC_ERR');
    expect(network!.counters('soft0')!.refused).toBeGreaterThan(before);
  });
});

/** Another protection domain on the same device and completion queue. */
function openVictim(end: End): End {
  return { ...end, pd: end.context.allocPd() };
}
