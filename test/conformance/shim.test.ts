import { expect, test } from 'vitest';
import { IBV_SEND_FENCE, IBV_SEND_SIGNALED } from '../../src/verbs/index.ts';
import { chains, tagsOfWay } from './chains.ts';
import { chainNames, check, plan } from './differential.ts';
import { type Op, type Program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const { runs, seed } = plan('reliable');

for (const name of chainNames) {
  // mixed.test.ts runs perf.
  const options = { tags: tagsOfWay(name, 'perf, in turns'), timeout: 600_000 };
  test(`a program sees no difference: ${name}`, options, () => check('reliable', name, runs, seed));
}

const request = (kind: Op['kind'], sges: number[] = [], flags = IBV_SEND_SIGNALED): Op => ({
  kind,
  sges,
  local: 0,
  remote: 0,
  flags,
  fault: 'none',
});

// Seed 37261171: a READ uses slots of the peer's device; a WRITE uses slots of its own device.
test("a READ that waits for a slot of the peer's device is sent even if only WRITEs follow", async () => {
  const { chain, wait } = chains['perf, in turns, tenants in slots'];
  const program: Program = {
    qps: 1,
    sigAll: false,
    sharedCq: false,
    steps: [
      { do: 'post', qp: 0, ops: [request('read')] },
      {
        do: 'post',
        qp: 0,
        ops: [
          request('write', [541, 201, 189, 3166]),
          request('write'),
          request('write', [3576, 52, 1448, 246]),
          request('write'),
          request('compareSwap'),
          request('write', [2169, 157, 5867], IBV_SEND_SIGNALED | IBV_SEND_FENCE),
        ],
      },
      { do: 'settle' },
      {
        do: 'post',
        qp: 0,
        ops: [request('write', [47, 210, 256]), request('write'), request('write', [6145])],
      },
    ],
  };
  const bare = await runProgram(program, [], simGround(wait));
  expect(bare.trace.a0).toHaveLength(10);
  expect(await runProgram(program, chain(), simGround(wait))).toEqual(bare);
});
