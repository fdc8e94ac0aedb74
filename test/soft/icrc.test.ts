// ICRCs that the native addon computes and checks, against those of src/roce.
import { afterAll, describe, expect, test } from 'vitest';
import {
  BAD_ICRC,
  DATAGRAM_BYTES,
  DATAGRAM_PACKETS,
  NO_GID,
  ROW_GID,
  ROW_WORDS,
  requireUdp,
} from '../../src/providers/soft/native.ts';
import { isSealed, ROCE_PORT, type Route, sealPacket } from '../../src/roce/icrc.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { gidToBytes } from '../../src/verbs/index.ts';
import { absent } from './rig.ts';

const BATCH = 64;
const STRIDE_BYTES = 5000;

describe.skipIf(absent !== null).each([
  ['IPv4', '::ffff:127.74.0.1', '::ffff:127.74.0.2'],
  ['IPv6', '::1', '::1'],
])('packets over %s', (family, from, to) => {
  const native = absent === null ? requireUdp() : null!;
  const v4 = family === 'IPv4';
  const [source, dest] = [gidToBytes(from), gidToBytes(to)];
  const sender = absent === null ? native.openUdp(source, ROCE_PORT, 1 << 20, 0) : -1;
  // On ::1, one socket has the port and sends to itself.
  const receiver = !v4 ? sender : absent === null ? native.openUdp(dest, ROCE_PORT, 1 << 20, 0) : -1;
  const random = new RandomStream(1, family);
  const below = (limit: number) => Math.floor(random.next() * limit);
  const slab = new Uint8Array(BATCH * STRIDE_BYTES);
  const rows = new Uint32Array(BATCH * ROW_WORDS);
  const got = new Uint8Array(BATCH * DATAGRAM_BYTES);
  const gotRows = new Uint32Array(BATCH * DATAGRAM_PACKETS * ROW_WORDS);
  const bytesOf = (gid: Uint8Array) => (v4 ? gid.slice(12) : gid);
  const route: Route = {
    source: bytesOf(source),
    dest: bytesOf(dest),
    sourcePort: ROCE_PORT,
    identification: 0,
    trafficClass: 0,
    flowLabel: 0,
    hopLimit: 64,
  };

  /** Sends packets of these lengths from the slab, and returns the rows of what has arrived. */
  function transfer(lengths: readonly number[], gid: Uint8Array): number {
    lengths.forEach((length, i) => {
      rows.set([i * STRIDE_BYTES, length, 0, 0], i * ROW_WORDS);
      new Uint8Array(rows.buffer).set(dest, (i * ROW_WORDS + ROW_GID) * 4);
    });
    expect(native.sendUdp(sender, slab, rows, lengths.length, ROCE_PORT, gid)).toBe(lengths.length);
    return native.receiveUdp(receiver, got, gotRows, dest);
  }

  const field = (i: number, word: number) => gotRows[i * ROW_WORDS + word];
  const isBad = (i: number) => (field(i, 2) & BAD_ICRC) !== 0;

  afterAll(() => {
    if (sender >= 0) native.closeFd(sender);
    if (receiver !== sender) native.closeFd(receiver);
  });

  // The kernel counts the identifications of segments up from 0; a shorter packet ends a run.
  test.each([
    [[20], [0]],
    [
      [16, 16, 16],
      [0, 1, 2],
    ],
    [
      [4112, 4112, 4112, 96],
      [0, 1, 2, 3],
    ],
    [
      [36, 40, 36, 36],
      [0, 0, 1, 0],
    ],
    [Array(64).fill(1000), Array.from({ length: 64 }, (_, i) => i)],
  ])('sent with %j bytes have the ICRCs of src/roce', (lengths, identifications) => {
    for (let i = 0; i < slab.length; i++) slab[i] = random.u32();
    expect(transfer(lengths, source)).toBe(lengths.length);
    lengths.forEach((length: number, i: number) => {
      expect([field(i, 1), isBad(i)]).toEqual([length, false]);
      const sealed = { ...route, identification: v4 ? identifications[i] : 0 };
      expect(isSealed(sealed, got, field(i, 0), length), `packet ${i}`).toBe(true);
    });
  });

  test.runIf(v4)('leave together after others had no route', () => {
    const areTogether = () => transfer([96, 96], source) === 2 && field(1, 0) - field(0, 0) < DATAGRAM_BYTES;
    if (!areTogether()) return;
    // The kernel sends nothing from a loopback address to another network.
    new Uint8Array(rows.buffer).set(gidToBytes('::ffff:198.51.100.7'), ROW_GID * 4);
    rows.copyWithin(ROW_WORDS + ROW_GID, ROW_GID, ROW_WORDS);
    expect(native.sendUdp(sender, slab, rows, 2, ROCE_PORT, source)).toBe(2);
    expect(rows[3] & 0xffff).not.toBe(0);
    expect(areTogether()).toBe(true);
  });

  test('sent with any number of bytes have the ICRCs of src/roce', () => {
    for (let i = 0; i < slab.length; i++) slab[i] = random.u32();
    const received = { ...route, identification: 0 };
    for (let length = 16; length < 700; length++) {
      expect([transfer([length], source), isBad(0)]).toEqual([1, false]);
      expect(isSealed(received, got, field(0, 0), length), `${length} bytes`).toBe(true);
    }
  });

  test('those of src/roce are accepted with every identification, and not if a byte differs', () => {
    for (const bytes of [16, 28, 191, 192, 1040, 4200]) {
      for (const identification of [0, 1, 255, 256, 0x8000, 0xffff, below(65_536)]) {
        for (let i = 0; i < bytes; i++) slab[i] = below(256);
        sealPacket({ ...route, identification }, slab, 0, bytes);
        expect([transfer([bytes + 4], NO_GID), isBad(0)]).toEqual([1, false]);
        slab[bytes - 1] ^= 1 + below(255);
        slab[8] ^= 1 + below(255);
        transfer([bytes + 4], NO_GID);
        expect(isBad(0)).toBe(true);
      }
    }
  });

  test.runIf(v4)('of changed packets, about one in 65,536 passes', () => {
    let passed = 0;
    for (let round = 0; round < 300; round++) {
      for (let i = 0; i < BATCH; i++) {
        const at = i * STRIDE_BYTES;
        sealPacket({ ...route, identification: below(65_536) }, slab, at, 196);
        slab[at + 20 + below(150)] ^= 1 + below(255);
        slab[at + 20 + below(150)] ^= 1 + below(255);
      }
      const count = transfer(Array(BATCH).fill(200), NO_GID);
      for (let i = 0; i < count; i++) if (!isBad(i)) passed++;
    }
    expect(passed).toBeLessThanOrEqual(4);
  });
});
