// Frames of the daemon's socket (src/daemon/protocol.ts), cut and joined anyhow.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader, frame, MAX_FRAME_BYTES, toDaemon } from '../../src/daemon/protocol.ts';

test('messages come out as they went in, however the stream is cut', () => {
  const slots = fc.array(fc.nat(65535), { maxLength: 30 });
  const cuts = fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1 });
  fc.assert(
    fc.property(slots, cuts, (list, sizes) => {
      const messages = list.map((slot) => ({ type: 'leave' as const, slot }));
      const stream = Buffer.concat(messages.map((message) => frame(message)));
      const frames = new FrameReader(toDaemon);
      const heard: unknown[] = [];
      for (let at = 0, i = 0; at < stream.length; i++) {
        const bytes = sizes[i % sizes.length];
        // The memory that bytes came in is used again.
        const piece = Uint8Array.from(stream.subarray(at, at + bytes));
        heard.push(...frames.push(piece));
        piece.fill(0xff);
        at += bytes;
      }
      expect(heard).toEqual(messages);
      expect(frames.isPartial).toBe(false);
    }),
  );
});

test('a reason names no more of the message than a line of a log has room for', () => {
  const bytes = Buffer.from(JSON.stringify({ type: 'ring', ['x'.repeat(MAX_FRAME_BYTES / 2)]: 1 }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  const push = () => new FrameReader(toDaemon).push(Buffer.concat([length, bytes]));
  expect(push).toThrow(/Unrecognized key/);
  try {
    push();
  } catch (error) {
    expect((error as Error).message.length).toBeLessThan(300);
  }
});
