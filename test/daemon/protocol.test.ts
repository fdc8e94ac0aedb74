// Frames of the daemon's socket (src/daemon/protocol.ts), split and joined arbitrarily.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader, frame, MAX_FRAME_BYTES, toDaemon } from '../../src/daemon/protocol.ts';

test('FrameReader returns the messages sent, however the stream is split', () => {
  const slots = fc.array(fc.nat(65535), { maxLength: 30 });
  const cuts = fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1 });
  fc.assert(
    fc.property(slots, cuts, (list, sizes) => {
      const messages = list.map((slot) => ({ type: 'leave' as const, slot }));
      const stream = Buffer.concat(messages.map((message) => frame(message)));
      const frames = new FrameReader(toDaemon);
      const received: unknown[] = [];
      for (let at = 0, i = 0; at < stream.length; i++) {
        const bytes = sizes[i % sizes.length];
        // The stream's memory is reused.
        const piece = Uint8Array.from(stream.subarray(at, at + bytes));
        received.push(...frames.push(piece));
        piece.fill(0xff);
        at += bytes;
      }
      expect(received).toEqual(messages);
      expect(frames.isPartial).toBe(false);
    }),
  );
});

test('an error quotes only a part of an invalid message', () => {
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
