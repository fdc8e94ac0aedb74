// Bytes of requests on the wire, in both directions.
import { expect, test } from 'vitest';
import {
  egressBytes,
  ingressBytes,
  packetBytes,
  ROCE,
  wireBytes,
  wireFactsOf,
} from '../../../src/policies/kit/wire.ts';
import * as C from '../../../src/verbs/constants.ts';

const MIB = 1 << 20;

test('each packet has its headers, even the packet of an empty message', () => {
  const lengths = [0, 1, 4096, 4097, MIB].map((bytes) => packetBytes(ROCE, bytes));
  expect(lengths).toEqual([82, 83, 4096 + 82, 4097 + 2 * 82, MIB + 256 * 82]);
});

test.each([
  // Opcode, bytes, out of the device and into it, by the specification.
  ['WRITE', C.IBV_WR_RDMA_WRITE, 64, 64 + 82 + 16, 86],
  ['WRITE_WITH_IMM', C.IBV_WR_RDMA_WRITE_WITH_IMM, 64, 64 + 82 + 16 + 4, 86],
  ['long WRITE', C.IBV_WR_RDMA_WRITE, MIB, MIB + 256 * 82 + 16, 86],
  ['SEND', C.IBV_WR_SEND, 64, 64 + 82, 86],
  ['empty SEND', C.IBV_WR_SEND, 0, 82, 86],
  ['SEND_WITH_IMM', C.IBV_WR_SEND_WITH_IMM, 64, 64 + 82 + 4, 86],
  ['SEND_WITH_INV', C.IBV_WR_SEND_WITH_INV, 64, 64 + 82 + 4, 86],
  ['READ', C.IBV_WR_RDMA_READ, 64, 82 + 16, 64 + 82 + 4],
  ['long READ', C.IBV_WR_RDMA_READ, MIB, 82 + 16, MIB + 256 * 82 + 8],
  ['CMP_AND_SWP', C.IBV_WR_ATOMIC_CMP_AND_SWP, 8, 82 + 28, 82 + 12],
  ['FETCH_AND_ADD', C.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 82 + 28, 82 + 12],
  ['LOCAL_INV', C.IBV_WR_LOCAL_INV, 0, 0, 0],
  ['BIND_MW', C.IBV_WR_BIND_MW, 0, 0, 0],
  ['WAIT', C.ISO_WR_WAIT, 0, 0, 0],
  ['ENABLE', C.ISO_WR_ENABLE, 0, 0, 0],
])('%s', (_name, opcode, bytes, out, back) => {
  expect([egressBytes(ROCE, opcode, bytes), ingressBytes(ROCE, opcode, bytes)]).toEqual([out, back]);
  expect(wireBytes(ROCE, opcode, bytes)).toBe(Math.max(out, back));
});

test('the facts of the device take precedence over those of RoCEv2', () => {
  expect(wireFactsOf(null)).toEqual(ROCE);
  expect(wireFactsOf({ mtuBytes: 1024, headerBytes: null })).toEqual({ mtuBytes: 1024, headerBytes: 82 });
  expect(wireFactsOf({ mtuBytes: null, headerBytes: 0 })).toEqual({ mtuBytes: 4096, headerBytes: 0 });
});
