// GIDs: text and bytes convert into each other, and a port's preferred GID is chosen.
import { isIPv6 } from 'node:net';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { gidAt, preferredGid, usedGids } from '../../src/objects/gids.ts';
import { type GidEntry, gidToBytes, gidToString } from '../../src/verbs/index.ts';

test('every GID survives conversion to text and back, and the text is an IPv6 address', () => {
  const word = fc.constantFrom([0, 0], [0, 1], [0xfe, 0x80], [0xff, 0xff], [0x10, 0x00]);
  fc.assert(
    fc.property(fc.array(word, { minLength: 8, maxLength: 8 }), (words) => {
      const bytes = Uint8Array.from(words.flat());
      const text = gidToString(bytes);
      expect(isIPv6(text), text).toBe(true);
      expect(gidToBytes(text)).toEqual(bytes);
    }),
  );
});

test.each([
  ['fe80::ff:fe00:1', 'fe80000000000000000000fffe000001'],
  ['::ffff:10.77.0.1', '00000000000000000000ffff0a4d0001'],
  ['::', '00000000000000000000000000000000'],
  ['::1', '00000000000000000000000000000001'],
  ['2001:db8::', '20010db8000000000000000000000000'],
])('%s', (text, hex) => {
  expect(gidToString(Buffer.from(hex, 'hex'))).toBe(text);
  expect(Buffer.from(gidToBytes(text)).toString('hex')).toBe(hex);
});

const entry = (index: number, gid: string, type = 'RoCE v2'): GidEntry => ({
  index,
  gid,
  type,
  ndevIfindex: 0,
});

test('RoCE v2 over IPv4 is preferred, then any other RoCE v2, then any GID', () => {
  const v1 = entry(0, '::ffff:10.0.0.1', 'RoCE v1');
  const local = entry(1, 'fe80::1');
  const global = entry(2, '2001:db8::1');
  const ipv4 = entry(3, '::ffff:10.0.0.1');
  expect(preferredGid([v1, local, global, ipv4], 'x')).toBe(ipv4);
  expect(preferredGid([v1, local, global], 'x')).toBe(global);
  expect(preferredGid([v1, local], 'x')).toBe(local);
  expect(preferredGid([v1], 'x')).toBe(v1);
  expect(() => preferredGid([], 'port 1 of mlx5_0')).toThrow('port 1 of mlx5_0 has no GID');
  expect(() => gidAt([v1, ipv4], 7, 'x')).toThrow('in use: 0, 3');
});

test('holes in the table are skipped, and its long empty tail is not read', () => {
  let asked = 0;
  const used = usedGids(1024, (index) => {
    asked++;
    return entry(index, index === 0 || index === 9 ? '::1' : '::');
  });
  expect(used.map(({ index }) => index)).toEqual([0, 9]);
  expect(asked).toBeLessThan(64);
});
