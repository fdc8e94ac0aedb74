// Views of a region: sending it again requires no new ones.
import { expect, test } from 'vitest';
import { type KeptViews, keptViewsOf } from '../../src/sim/memory/memory.ts';

const MIB = 1 << 20;

/** The views of packets of this size, from `first` to the end of `length` bytes. */
function pass(views: KeptViews, first: number, length: number, packetBytes: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  for (let at = first; at + packetBytes <= length; at += packetBytes) found.push(views.view(at, packetBytes));
  return found;
}

test.each([
  [64, 4096, 0],
  [64, 4096, 100],
  [64, 2048, 0],
  [64, 1024, 0],
  [256, 4096, 0],
  [1, 1024, 0],
])(
  '%i MiB in packets of %i bytes from byte %i, sent again, take the same views',
  (mib, packetBytes, first) => {
    const bytes = new Uint8Array(mib * MIB);
    const views = keptViewsOf(bytes);
    const once = pass(views, first, bytes.length, packetBytes);
    const again = pass(views, first, bytes.length, packetBytes);
    expect(once.every((view, i) => view === again[i])).toBe(true);
    expect(once.every((view, i) => view.byteOffset === first + i * packetBytes)).toBe(true);
  },
);

test('a place whose view was replaced gets a correct view again', () => {
  const bytes = new Uint8Array(512 * MIB);
  const views = keptViewsOf(bytes);
  for (const at of [0, 256 * MIB, 0]) {
    expect(views.view(at, 4096)).toMatchObject({ byteOffset: at, length: 4096 });
  }
});
