// The description that two shims exchange at the end of rdma_cm's private data.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { REQUEST_BYTES, splitPrivateData, withDescription } from '../../src/objects/rdma-cm/private-data.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);
const bytes = (minLength: number, maxLength: number) => fc.uint8Array({ minLength, maxLength });
const padded = (data: Uint8Array) => Uint8Array.from({ length: REQUEST_BYTES }, (_, i) => data[i] ?? 0);

test('data and description arrive unchanged unless they do not fit together', () => {
  fc.assert(
    fc.property(bytes(0, 56), bytes(1, 60), (data, description) => {
      const sent = withDescription(data, description, REQUEST_BYTES);
      expect(sent === null).toBe(data.length + description.length + 4 > REQUEST_BYTES);
      if (sent !== null) expect(splitPrivateData(sent)).toEqual({ data: padded(data), description });
    }),
    { seed: SEED },
  );
});

test('private data without a description is not mistaken for one', () => {
  fc.assert(
    fc.property(bytes(0, 196), (data) => {
      expect(splitPrivateData(data)).toEqual({ data, description: null });
    }),
    { seed: SEED },
  );
  expect(splitPrivateData(new Uint8Array(56))).toEqual({ data: new Uint8Array(56), description: null });
});
