// The longest message of the InfiniBand specification, which only a hostile peer asks of these devices.
import { expect, test } from 'vitest';
import type { Qp } from '../../src/sim/transport/qp.ts';
import { nextResponsePayload } from '../../src/sim/transport/responder.ts';

test.each([0, 1, 2 ** 19 - 1])(
  'packet %i of the response to a READ of 2^31 bytes is a whole one',
  (respPkt) => {
    const responses = { head: 0, length: Float64Array.of(2 ** 31) };
    expect(nextResponsePayload({ responses, respPkt, mtu: 4096 } as unknown as Qp)).toBe(4096);
  },
);
