/** A rate limiter changes the times of events, never the results: the conformance suite with limited queue pairs. */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { createFabric } from '../../../src/providers/sim/index.ts';
import { override } from '../../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../../src/sim/profile/profiles.ts';
import * as V from '../../../src/verbs/index.ts';
import { cases } from '../../conformance/cases/index.ts';
import { compact } from '../../conformance/suite/case.ts';
import { play } from '../../conformance/suite/run.ts';
import type { Trace } from '../../conformance/suite/scene.ts';
import { tagsIf } from '../../support/variants.ts';
import type { Ground } from '../../verbs/ground.ts';

const LIMIT_KBPS = 20e6;
let limited = 0;

/** Every queue pair gets a limit as soon as it is in RTS. */
function withLimits(provider: V.Provider): V.Provider {
  return {
    ...provider,
    modifyQp(qp, attr, mask) {
      provider.modifyQp(qp, attr, mask);
      if (attr.qpState !== V.IBV_QPS_RTS || (mask & V.IBV_QP_STATE) === 0) return;
      if ((mask & V.IBV_QP_RATE_LIMIT) !== 0) return;
      provider.modifyQpRateLimit(qp, { rateLimitKbps: LIMIT_KBPS });
      limited++;
    },
  };
}

function groundOf(profile: string): Ground {
  const params = override(PROFILES[profile], { rateLimiter: 'tassel', congestionControl: 'dcqcn' });
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false, profile: params });
  const turn = () => fabric.advance(50_000);
  const provider = withLimits(fabric.provider);
  return { name: 'sim', provider, devices: ['sim0', 'sim1'], fabric, gidIndex: 1, turn };
}

for (const profile of ['minimal', 'cx6-100g'])
  describe(`conformance suite on ${profile}`, { tags: tagsIf(profile === 'minimal') }, () => {
    for (const one of cases) {
      if (one.expect === undefined) continue;
      test(one.name, async () => {
        const { trace } = await play(one, groundOf(profile), [], null);
        expect(trace).toEqual(compact(one.expect as Trace));
      });
    }

    test('queue pairs were limited', () => {
      expect(limited).toBeGreaterThan(50);
    });
  });
