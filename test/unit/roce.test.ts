// The codec of RoCEv2 packets, against packets of other implementations and hostile bytes.
import { describe, expect, test } from 'vitest';
import * as R from '../../src/roce/codec.ts';
import { frameHeaderBytes, writeFrameHeaders } from '../../src/roce/frame.ts';
import { icrcOf, isSealed, type Route, readIcrc, sealPacket } from '../../src/roce/icrc.ts';
import * as O from '../../src/roce/opcodes.ts';
import * as S from '../../src/roce/syndrome.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';

/** Frames from Ethernet header to ICRC. */
const FRAMES = {
  // Captured from a ConnectX-4 Lx (tests of scapy).
  'a CNP of a ConnectX-4 Lx':
    'e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118' +
    '000000000000000000000000000000000000000082fd002a',
  // From the tests of scapy, without their UDP checksums.
  'a SEND of UC over IPv4':
    '248a07a8fa22248a07a8fa220800450100400478400040 11b4d5c0a80007c0a80007c00012b7002c00002460ffff000000d3' +
    '00cf17104630818be28935d90e9a95505401be885e50000078f353f3',
  'a SEND of UC over IPv6':
    '248a07a8fa22248a07a8fa2286dd6e21face002c11ff20220000000000000000000000001023202300000000000000000000' +
    '00001024c00012b7002c00002460ffff000000d300cf17104630818be28935d90e9a95505401be885e5000003e5b743b',
  // Encoded by scapy 2.6.
  'an ACK':
    '02fc0000000502fc0000000108004500003000004000401126bb0a0000010a000002c03012b7001c00001140ffff00000011' +
    '001234561f0000073caaa8c8',
};

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex');

/** The route in the headers of a frame. */
function routeOf(frame: Buffer): Route {
  const ipv4 = frame.readUInt16BE(12) === 0x0800;
  const word = frame.readUInt32BE(14);
  return {
    source: ipv4 ? frame.subarray(26, 30) : frame.subarray(22, 38),
    dest: ipv4 ? frame.subarray(30, 34) : frame.subarray(38, 54),
    sourcePort: frame.readUInt16BE(ipv4 ? 34 : 54),
    identification: ipv4 ? frame.readUInt16BE(18) : 0,
    trafficClass: ipv4 ? (word >>> 16) & 0xff : (word >>> 20) & 0xff,
    flowLabel: ipv4 ? 0 : word & 0xfffff,
    hopLimit: frame[ipv4 ? 22 : 21],
  };
}

const ROUTE: Route = {
  source: Uint8Array.of(10, 0, 0, 1),
  dest: Uint8Array.of(10, 0, 0, 2),
  sourcePort: 0xc030,
  identification: 77,
  trafficClass: 0,
  flowLabel: 0,
  hopLimit: 64,
};

/** All opcodes that the codec knows. */
const OPCODES = Array.from({ length: 256 }, (_, opcode) => opcode).filter(O.isOpcode);

describe('packets of other implementations', () => {
  test.each(Object.entries(FRAMES))('%s has the ICRC that is computed for it', (_, hex) => {
    const frame = bytesOf(hex);
    const route = routeOf(frame);
    const at = frameHeaderBytes(route);
    expect(isSealed(route, frame, at, frame.length - at)).toBe(true);
    frame[frame.length - 5] ^= 1;
    expect(isSealed(route, frame, at, frame.length - at)).toBe(false);
  });

  test.each(Object.entries(FRAMES))('%s is the same after it is decoded and encoded', (_, hex) => {
    const frame = bytesOf(hex);
    const route = routeOf(frame);
    const at = frameHeaderBytes(route);
    const packet = new R.RocePacket();
    expect(R.decodePacket(frame, at, frame.length - at, packet)).toBe(R.DECODED);
    const out = Buffer.alloc(frame.length, 0xee);
    const bytes = sealPacket(route, out, at, R.encodePacket(packet, out, at));
    writeFrameHeaders(route, frame.subarray(6, 12), frame.subarray(0, 6), bytes, out, 0);
    expect(out.toString('hex')).toBe(frame.toString('hex'));
  });

  test('the fields of a CNP and of an ACK are read', () => {
    const packet = new R.RocePacket();
    const cnp = bytesOf(FRAMES['a CNP of a ConnectX-4 Lx']);
    R.decodePacket(cnp, 42, cnp.length - 42, packet);
    expect(packet).toMatchObject({ opcode: O.CNP, becn: true, fecn: false, destQp: 0x118, pkey: 0xffff });
    const ack = bytesOf(FRAMES['an ACK']);
    R.decodePacket(ack, 42, ack.length - 42, packet);
    expect(packet).toMatchObject({ opcode: O.RC | O.ACKNOWLEDGE, destQp: 17, psn: 0x123456, msn: 7 });
    expect(S.kindOfSyndrome(packet.syndrome)).toBe(S.KIND_ACK);
    expect(S.codeOfSyndrome(packet.syndrome)).toBe(S.NO_CREDITS);
  });

  test('a WRITE of 1 KiB has the ICRC that scapy computes', () => {
    const packet = new R.RocePacket();
    Object.assign(packet, { opcode: O.RC | O.WRITE_ONLY, destQp: 17, psn: 0x123456, ackRequest: true });
    Object.assign(packet, {
      remoteAddrHi: 0x7f00,
      remoteAddrLo: 0x12345678,
      rkey: 0x8899aabb,
      dmaLength: 1024,
    });
    packet.payload = Uint8Array.from({ length: 1024 }, (_, i) => i * 7);
    packet.payloadBytes = 1024;
    const out = Buffer.alloc(2000);
    const bytes = R.encodePacket(packet, out, 3);
    expect(icrcOf(ROUTE, out, 3, bytes)).toBe(Buffer.from('dd272aad', 'hex').readUInt32LE());
  });
});

/** Sets each numeric field to a random value of its width. */
function randomize(packet: R.RocePacket, random: RandomStream): void {
  const bits = (count: number) => Math.floor(random.next() * 2 ** count);
  packet.solicited = bits(1) === 1;
  packet.migrated = bits(1) === 1;
  packet.fecn = bits(1) === 1;
  packet.becn = bits(1) === 1;
  packet.ackRequest = bits(1) === 1;
  packet.pkey = bits(16);
  for (const name of ['destQp', 'psn', 'sourceQp', 'srqNumber', 'msn'] as const) packet[name] = bits(24);
  packet.syndrome = bits(8);
  for (const name of WORDS) packet[name] = bits(32);
}

const WORDS = [
  'qkey',
  'remoteAddrHi',
  'remoteAddrLo',
  'rkey',
  'dmaLength',
  'swapAddHi',
  'swapAddLo',
  'compareHi',
  'compareLo',
  'originalHi',
  'originalLo',
  'immediate',
  'invalidateKey',
] as const;

/** The fields that the headers of an opcode contain. */
function fieldsOf(opcode: number): string[] {
  const headers = O.headersOf(opcode);
  const has = (bit: number, ...names: string[]) => ((headers & bit) === 0 ? [] : names);
  return [
    ...['opcode', 'solicited', 'migrated', 'pkey', 'fecn', 'becn', 'destQp', 'ackRequest', 'psn'],
    ...has(O.DETH, 'qkey', 'sourceQp'),
    ...has(O.XRCETH, 'srqNumber'),
    ...has(O.RETH | O.ATOMIC_ETH, 'remoteAddrHi', 'remoteAddrLo', 'rkey'),
    ...has(O.RETH, 'dmaLength'),
    ...has(O.ATOMIC_ETH, 'swapAddHi', 'swapAddLo', 'compareHi', 'compareLo'),
    ...has(O.AETH, 'syndrome', 'msn'),
    ...has(O.ATOMIC_ACK_ETH, 'originalHi', 'originalLo'),
    ...has(O.IMM_DT, 'immediate'),
    ...has(O.IETH, 'invalidateKey'),
  ];
}

describe('encodePacket and decodePacket', () => {
  test('know 23 opcodes of RC, 12 of UC, 2 of UD, 23 of XRC, and the CNP', () => {
    const count = (transport: number) =>
      OPCODES.filter((one) => one !== O.CNP && (one & O.TRANSPORT_MASK) === transport).length;
    expect([O.RC, O.UC, O.UD, O.XRC].map(count)).toEqual([23, 12, 2, 23]);
    expect(OPCODES).toHaveLength(61);
  });

  test.each(OPCODES)('opcode %i: every field and the payload survive', (opcode) => {
    const random = new RandomStream(opcode, 'roce');
    const from = new R.RocePacket();
    const into = new R.RocePacket();
    for (const payloadBytes of O.mayCarryPayload(opcode) ? [0, 1, 2, 3, 4, 127, 128, 1021, 4096] : [0]) {
      randomize(from, random);
      from.opcode = opcode;
      from.payload = Uint8Array.from({ length: payloadBytes + 5 }, () => random.next() * 256);
      from.payloadOffset = 5;
      from.payloadBytes = payloadBytes;
      const out = Buffer.alloc(5000, 0xee);
      const bytes = sealPacket(ROUTE, out, 7, R.encodePacket(from, out, 7));
      expect(out[6]).toBe(0xee);
      expect(out[7 + bytes]).toBe(0xee);
      expect(R.REASONS[R.decodePacket(out, 7, bytes, into)]).toBe('decoded');
      for (const name of fieldsOf(opcode)) expect(into).toHaveProperty(name, from[name as 'psn']);
      expect(into.padCount).toBe(-payloadBytes & 3);
      expect(into.payloadBytes).toBe(payloadBytes);
      const payload = out.subarray(into.payloadOffset, into.payloadOffset + payloadBytes);
      expect(payload.equals(from.payload.subarray(5))).toBe(true);
      expect(isSealed(ROUTE, out, 7, bytes)).toBe(true);
    }
  });

  test('payload in its place is not copied, and no payload stands for zeros', () => {
    const packet = new R.RocePacket();
    packet.opcode = O.RC | O.SEND_ONLY;
    const out = Buffer.alloc(100, 0xee);
    packet.payloadBytes = 9;
    expect(R.encodePacket(packet, out, 0)).toBe(24);
    expect(out.subarray(12, 25).toString('hex')).toBe(`${'00'.repeat(12)}ee`);
    out.fill(0xab, 12, 21);
    packet.payload = out;
    packet.payloadOffset = 12;
    R.encodePacket(packet, out, 0);
    expect(out.subarray(12, 24).toString('hex')).toBe(`${'ab'.repeat(9)}000000`);
  });

  test('encodePacket() refuses unknown opcodes and buffers without room for packet and ICRC', () => {
    const packet = new R.RocePacket();
    packet.opcode = 0x1f;
    expect(() => R.encodePacket(packet, Buffer.alloc(100), 0)).toThrow('opcode 31 is unknown');
    packet.opcode = O.RC | O.SEND_ONLY;
    packet.payloadBytes = 3;
    expect(R.encodePacket(packet, Buffer.alloc(20), 0)).toBe(16);
    expect(() => R.encodePacket(packet, Buffer.alloc(19), 0)).toThrow('does not fit');
    expect(() => R.encodePacket(packet, Buffer.alloc(20), 1)).toThrow('does not fit');
    expect(() => R.encodePacket(packet, Buffer.alloc(20), -1)).toThrow('does not fit');
  });
});

describe('decodePacket() returns why a packet is malformed', () => {
  const reason = (hex: string) => {
    const bytes = bytesOf(hex);
    return R.REASONS[R.decodePacket(bytes, 0, bytes.length, new R.RocePacket())];
  };
  const bth = (opcode: string, flags: string) => `${opcode}${flags}ffff0000000100000000`;
  const icrc = '00000000';

  test.each([
    ['too short', ''],
    ['too short', bth('04', '40')],
    ['too short', bth('0a', '40') + icrc],
    ['length is not a multiple of 4', `${bth('04', '40')}00${icrc}`],
    ['unknown version of the transport header', bth('04', '41') + icrc],
    ['unknown opcode', bth('15', '40') + icrc],
    ['unknown opcode', bth('40', '40') + icrc],
    ['unknown opcode', bth('80', '40') + icrc],
    ['more pad bytes than payload', bth('04', '70') + icrc],
    ['payload in a packet that has none', `${bth('11', '40')}1f00000000000000${icrc}`],
    ['payload in a packet that has none', `${bth('11', '50')}1f000000${icrc}`],
    ['decoded', bth('04', '40') + icrc],
  ])('%s: %s', (why, hex) => {
    expect(reason(hex)).toBe(why);
  });

  test('a length or offset outside the buffer is too short', () => {
    const packet = new R.RocePacket();
    const buf = Buffer.alloc(32);
    for (const [offset, length] of [
      [0, 36],
      [20, 16],
      [-4, 16],
      [Number.NaN, 16],
      [0, Number.NaN],
      [0, -16],
    ]) {
      expect(R.REASONS[R.decodePacket(buf, offset, length, packet)]).toBe('too short');
    }
  });

  test('random bytes and mutated packets never throw, and payload stays within the packet', () => {
    const random = new RandomStream(1, 'hostile');
    const below = (limit: number) => Math.floor(random.next() * limit);
    const buf = Buffer.alloc(256);
    const packet = new R.RocePacket();
    const reasons = new Set<number>();
    for (let i = 0; i < 50_000; i++) {
      for (let at = 0; at < buf.length; at++) buf[at] = below(256);
      if (i % 2 === 0) {
        buf[0] = OPCODES[below(OPCODES.length)];
        buf[1] &= 0xf0;
      }
      const length = below(100);
      const result = R.decodePacket(buf, 20, length, packet);
      reasons.add(result);
      if (result !== R.DECODED) continue;
      expect(packet.payloadOffset).toBeGreaterThanOrEqual(20 + O.BTH_BYTES);
      expect(packet.payloadBytes).toBeGreaterThanOrEqual(0);
      expect(packet.payloadOffset + packet.payloadBytes + packet.padCount).toBe(20 + length - O.ICRC_BYTES);
    }
    expect(reasons.size).toBe(R.REASONS.length);
  });
});

describe('the ICRC', () => {
  test('does not cover what routers change, and covers all else', () => {
    const frame = bytesOf(FRAMES['a SEND of UC over IPv4']);
    const route = routeOf(frame);
    const sealed = () => isSealed(route, frame, 42, frame.length - 42);
    Object.assign(route, { trafficClass: 0xff, hopLimit: 1 });
    frame[42 + 4] = 0xc0;
    expect(sealed()).toBe(true);
    for (const change of [{ identification: 0 }, { sourcePort: 1 }, { dest: Uint8Array.of(1, 2, 3, 4) }]) {
      expect(isSealed({ ...route, ...change }, frame, 42, frame.length - 42)).toBe(false);
    }
    for (let at = 42; at < frame.length; at++) {
      if (at === 42 + 4) continue;
      frame[at] ^= 0x10;
      expect(sealed()).toBe(false);
      frame[at] ^= 0x10;
    }
    expect(readIcrc(frame, 42, frame.length - 42)).toBe(0xf353f378);
  });

  test('is the same for long packets as byte by byte', () => {
    const buf = Uint8Array.from({ length: 600 }, (_, i) => i * 13);
    // CRC is linear: a packet differs from the same one with a flipped bit by a number that only its distance from the end
    // determines.
    const flipped = (bytes: number) => {
      const one = icrcOf(ROUTE, buf, 600 - bytes, bytes);
      buf[590] ^= 4;
      const other = icrcOf(ROUTE, buf, 600 - bytes, bytes);
      buf[590] ^= 4;
      return (one ^ other) >>> 0;
    };
    expect(flipped(500)).toBe(flipped(60));
    expect(flipped(192)).toBe(flipped(188));
  });
});

test('syndromes carry credits, timers and codes', () => {
  expect(S.ackSyndrome(S.NO_CREDITS)).toBe(0x1f);
  expect(S.rnrSyndrome(12)).toBe(0x2c);
  expect(S.nakSyndrome(S.NAK_PSN_SEQUENCE)).toBe(0x60);
  expect(S.nakSyndrome(S.NAK_REMOTE_ACCESS)).toBe(0x62);
  for (const syndrome of [0x1f, 0x2c, 0x60, 0x62]) {
    const [kind, code] = [S.kindOfSyndrome(syndrome), S.codeOfSyndrome(syndrome)];
    expect((kind << 5) | code).toBe(syndrome);
  }
});
