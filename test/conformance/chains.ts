/** Chains of interceptors that a program must not notice. */

import demandShares from '../../examples/policies/demand-shares.mjs';
import { tokenPacer } from '../../examples/policies/token-pacer.mjs';
import { weightedRounds } from '../../examples/policies/weighted-rounds.mjs';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { perfOptions } from '../../src/policies/perf/options.ts';
import { Perf } from '../../src/policies/perf/perf.ts';
import { tokenBucketOptions } from '../../src/policies/token-bucket/options.ts';
import { TokenBucket } from '../../src/policies/token-bucket/token-bucket.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import type { Policy } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import { emulateWait } from '../../src/shim/wait/emulate-wait.ts';
import { withWait } from '../../src/shim/wait/wait-support.ts';
import { type NicFacts, UNMEASURED } from '../../src/verbs/nic.ts';
import { tagsIf } from '../support/variants.ts';
import { negotiate } from './negotiate.ts';
import arbitrary from './policies/arbitrary.mjs';
import hold from './policies/hold.mjs';
import { Interrupting } from './policies/interrupting.ts';
import passThrough from './policies/pass-through.mjs';
import { rotation } from './policies/rotation.ts';
import split from './policies/split.mjs';
import { Turns, type TurnsOptions } from './policies/turns.ts';

/** Policies in modules, because worker threads load them by name. */
const shimOf = (policy: unknown) => createShim(policy as () => Policy);
const oneByOne = () => shimOf(hold);
const cutting = (seed: number) => shimOf(() => arbitrary({ seed, splitsAboveBytes: 0 }));

const SHORT_TURNS = { turnBytes: 3000, turnRequests: 3, watchdogNs: 20_000 };
const perf = (sub: number, unit: number, more = {}) =>
  createPolicy('perf', { isolation: 'always', subMsgSizeBytes: sub, zeroWaitUnitBytes: unit, ...more });

/** Turns of a few requests, with a watchdog that is short enough to expire in tests. */
const inTurns = (options: TurnsOptions) => {
  const turns = { turnBytes: 3000, turnRequests: 3, aheadBytes: 500, aheadRequests: 1, watchdogNs: 20_000 };
  return createShim(() => new Turns({ ...turns, pieceBytes: 700, waits: 1, ...options }));
};

/** Changes options at every third post. */
export function changing(name: string, changes: readonly Record<string, unknown>[]): Interceptor {
  return {
    name: 'changing',
    wrap(next) {
      let posts = 0;
      return {
        postSend: (qp, ring, start, count) => {
          posts++;
          if (posts % 3 === 0) next.configurePolicy!(name, changes[(posts / 3) % changes.length]);
          return next.postSend(qp, ring, start, count);
        },
      };
    },
  };
}

const UNKNOWN: NicFacts = {
  ...UNMEASURED,
  ...{
    linkGbps: null,
    mtuBytes: null,
    headerBytes: null,
    wqeGapNs: null,
    waitStepNs: null,
    atomicGapNs: null,
  },
  ...{ processingUnits: null, arbitrates: null, egressFifoBytes: null, latencyNs: null },
  ...{ cachedQps: null, handoverNs: null, pipeline: null },
};

/** A device with more queue pairs than its cache has room for. */
export const smallCache: Interceptor = {
  name: 'small-cache',
  wrap: (next) => ({
    describeNic(context) {
      return { ...UNKNOWN, ...next.describeNic?.(context), cachedQps: 1 };
    },
  }),
};

/** A remote daemon that limits requests per second, at a rate that lets random programs end soon. */
class Limiting extends CoordinatorRegistry {
  override maxRequestsPerSOf() {
    return 2e6;
  }

  override subscribe(...[context, granted, usage]: Parameters<CoordinatorRegistry['subscribe']>) {
    const unsubscribe = super.subscribe(context, granted, usage);
    granted();
    return unsubscribe;
  }
}

const limited = (make: (coordinator: CoordinatorRegistry) => Policy): Interceptor => {
  const coordinator = new Limiting();
  const shim = createShim(() => make(coordinator), { coordinator });
  return withWait(shim, make(coordinator).needs.wait);
};

export interface Chain {
  chain: () => Interceptor[];
  /** Whether the devices below execute WAIT. Default true. */
  wait?: boolean;
  /** The fraction of the random programs that this chain runs: a chain that depends on timers is slow. */
  share?: number;
}

export const chains: Record<string, Chain> = {
  'pass-through': { chain: () => [shimOf(passThrough)] },
  'one by one': { chain: () => [oneByOne()] },
  arbitrary: { chain: () => [cutting(7)] },
  'arbitrary over arbitrary': {
    chain: () => [cutting(11), cutting(13)],
  },
  'perf 256': { chain: () => [perf(256, 64)] },
  'perf 16384': { chain: () => [perf(16384, 1024)] },
  'perf 1024, WAIT emulated': { chain: () => [perf(1024, 256)], wait: false },
  'emulated WAIT alone': { chain: () => [emulateWait()], wait: false },
  interrupting: { chain: () => [createShim(() => new Interrupting(17))], share: 0.15 },
  'one queue pair at a time': { chain: () => [inTurns({ allow: 1 })] },
  'two at a time, sometimes': { chain: () => [inTurns({ allow: 2, changeNs: 5000 })], share: 0.3 },
  'in turns, WAIT emulated': { chain: () => [inTurns({ allow: 1 }), emulateWait()], wait: false },
  'token pacer': { chain: () => [tokenPacer({ rateBytesPerS: 1e10, burstBytes: 8000 })], share: 0.15 },
  'demand shares': { chain: () => [demandShares({ linkGbps: 400, periodNs: 1e4 })], share: 0.15 },
  'weighted rounds': { chain: () => [weightedRounds({ windowBytes: 9000 })], share: 0.15 },
  // The rate exceeds the link's, because a program that posts by the clock would otherwise notice that its requests
  // complete late.
  'token bucket': {
    chain: () => [createPolicy('token-bucket', { linkGbps: 400, burstBytes: 16_000, pieceBytes: 1024 })],
    share: 0.15,
  },
  chunk: { chain: () => [createPolicy('chunk', { chunkBytes: 512, chunks: 2 })] },
  justitia: {
    chain: () => [createPolicy('justitia', { maxGbps: 400, chunkBytes: 700, bulkChunkBytes: 900 })],
    share: 0.3,
  },
  'justitia, declared bandwidth, over split queue pairs': {
    chain: () => [
      createPolicy('justitia', {
        maxGbps: 400,
        ...{ classify: false, splitQp: 'always', chunkBytes: 256, bulkChunkBytes: 512 },
      }),
    ],
    share: 0.3,
  },
  'justitia as in the paper': {
    chain: () => [
      createPolicy('justitia', { paper: true, maxGbps: 400, bulkChunkBytes: 700, chunkBytes: 256 }),
    ],
    share: 0.3,
  },
  palos: {
    chain: () => [createPolicy('palos', { pieceBytes: 700, chunkMtus: 0.25, urgentBytes: 300 })],
  },
  'palos, active sums, a small window': {
    chain: () => [createPolicy('palos', { sums: 'active', pieceBytes: 256, windowBytes: 1500 })],
    share: 0.3,
  },
  fair: { chain: () => [createPolicy('fair', { pieceBytes: 700, passBytes: 500 })] },
  'fair, a small window': {
    chain: () => [createPolicy('fair', { pieceBytes: 256, windowBytes: 1500, passBytes: 0 })],
    share: 0.3,
  },
  tassel: {
    chain: () => [createPolicy('tassel', { pieceBytes: 700, qpGbps: 400 })],
    share: 0.3,
  },
  'tassel, all limits at once, a small window': {
    chain: () => [
      createPolicy('tassel', {
        pieceBytes: 256,
        windowBytes: 1500,
        passBytes: 0,
        qpGbps: 300,
        applicationGbps: 350,
        groupRatesGbps: { '': 400 },
      }),
    ],
    share: 0.3,
  },
  drum: {
    chain: () => [createPolicy('drum', { pieceBytes: 700, passBytes: 500, epochUs: 10 })],
    share: 0.15,
  },
  'drum, one application at a time, a small window': {
    chain: () => [
      createPolicy('drum', {
        ...{ topK: 1, epochUs: 10, alpha: 2, beta: 1, capacity: 'logdomain' },
        ...{ pieceBytes: 256, windowBytes: 1500, passBytes: 0 },
      }),
    ],
    share: 0.15,
  },
  'drum, few completions': {
    chain: () => [createPolicy('drum', { completionsPerS: 100, pieceBytes: 700, epochUs: 10 })],
    share: 0.15,
  },
  'drum, agents': {
    chain: () => [
      createPolicy('drum', {
        ...{ agents: true, requestsPerS: 1e6, completionsPerS: 1e5 },
        ...{ pieceBytes: 700, epochUs: 10 },
      }),
    ],
    share: 0.15,
  },
  'drum, shared queue pairs': {
    chain: () => [
      negotiate(),
      createPolicy('drum', { connectionsPerQp: 4, pieceBytes: 700, passBytes: 500, epochUs: 10 }),
      smallCache,
    ],
    share: 0.3,
  },
  share: { chain: () => [negotiate(), createPolicy('share', { connectionsPerQp: 3 })], share: 0.15 },
  'perf, in turns': { chain: () => [perf(512, 128, { qpIsolation: 'always', ...SHORT_TURNS })] },
  'perf, as it finds': {
    chain: () => [
      perf(512, 128, { isolation: 'auto', samplePeriodNs: 2000, windowNs: 16_000, ...SHORT_TURNS }),
    ],
    share: 0.3,
  },
  'perf, tenants in slots': {
    chain: () => [rotation({ subMsgSizeBytes: 512, zeroWaitUnitBytes: 128, slotNs: 3000 })],
    share: 0.3,
  },
  'perf, in turns, tenants in slots': {
    chain: () => [
      rotation({
        subMsgSizeBytes: 512,
        zeroWaitUnitBytes: 128,
        slotNs: 3000,
        qpIsolation: 'always',
        ...SHORT_TURNS,
      }),
    ],
    share: 0.3,
  },
  'limited, all that may': { chain: () => [limited(hold as unknown as () => Policy)], share: 0.15 },
  'limited, in pieces': {
    chain: () => [limited(() => arbitrary({ seed: 19, splitsAboveBytes: 0 }) as Policy)],
    share: 0.15,
  },
  'limited, perf in turns': {
    chain: () => [
      limited(
        (coordinator) =>
          new Perf(
            perfOptions.parse({
              isolation: 'always',
              subMsgSizeBytes: 512,
              zeroWaitUnitBytes: 128,
              qpIsolation: 'always',
              ...SHORT_TURNS,
            }),
            coordinator,
          ),
      ),
    ],
    share: 0.15,
  },
  'limited, token bucket': {
    chain: () => [
      limited(
        (coordinator) =>
          new TokenBucket(
            tokenBucketOptions.parse({ linkGbps: 400, burstBytes: 16_000, pieceBytes: 1024 }),
            coordinator,
          ),
      ),
    ],
    share: 0.15,
  },
  'perf over one by one': { chain: () => [perf(512, 256), oneByOne()] },
  'perf, whose options change': {
    chain: () => [
      changing('perf', [
        { subMsgSizeBytes: 1024, qpIsolation: 'always', turnBytes: 2000 },
        { isolation: 'auto', turnRequests: 2, feedPieces: 1 },
        { qpIsolation: 'never', isolation: 'always', waits: 'fixed' },
        { subMsgSizeBytes: 512, windowNs: 8000, samplePeriodNs: 1000, qNumAllow: 2 },
        { isolation: 'never', windowNs: 64_000, qpIsolation: 'always', qNumAllow: 1 },
        { isolation: 'always', waits: 'adaptive', qpIsolation: 'auto' },
      ]),
      perf(512, 128, SHORT_TURNS),
    ],
    share: 0.3,
  },
};

/** One chain of each kind; the others are variants of these. */
const KINDS = [
  'bare',
  'arbitrary',
  'perf, in turns',
  'perf, as it finds',
  'token bucket',
  'justitia',
  'palos',
  'fair',
  'tassel',
  'drum',
  'drum, few completions',
  'drum, shared queue pairs',
  'limited, in pieces',
];

/** The tags of a test of a chain that takes long with all of them. */
export const tagsOf = (name: string) => tagsIf(KINDS.includes(name));

/** One chain for each way to treat requests: in pieces, by turns, windows, and on shared queue pairs. */
const WAYS = ['bare', 'arbitrary', 'perf, in turns', 'fair', 'drum, shared queue pairs'];

/** The tags of such a test whose programs resemble those of a test of all kinds. Another test runs `elsewhere`. */
export const tagsOfWay = (name: string, elsewhere?: string) =>
  tagsIf(WAYS.includes(name) && name !== elsewhere);

/** The chains of the whole conformance suite, in the application's thread. */
export const suiteChains: Record<string, () => Interceptor[]> = {
  'pass-through': () => [shimOf(passThrough)],
  split: () => [shimOf(split)],
  'split and 0_WAIT': () => [perf(256, 64)],
  hold: () => [oneByOne()],
};

/**
 * More chains of the whole suite, one for each engine of perf, and the other policies. 'split and 0_WAIT' is its LMSE. On soft-RoCE they have a
 * separate run, `npm run test:rxe:perf`.
 */
export const engineChains: Record<string, Chain> = {
  'perf, 0_WAITs that write': { chain: () => [perf(256, 64, { zeroWait: 'write' })], wait: false },
  'perf, in turns': chains['perf, in turns'],
  'perf, in turns, WAIT emulated': { ...chains['perf, in turns'], wait: false },
  'perf, as it finds': chains['perf, as it finds'],
  'perf, as it finds, WAIT emulated': { ...chains['perf, as it finds'], wait: false },
  'perf, tenants in slots': chains['perf, tenants in slots'],
  'token bucket': chains['token bucket'],
  justitia: chains.justitia,
  'justitia as in the paper': chains['justitia as in the paper'],
  palos: chains.palos,
  fair: chains.fair,
  tassel: chains.tassel,
  drum: chains.drum,
  'drum, few completions': chains['drum, few completions'],
  'drum, shared queue pairs': chains['drum, shared queue pairs'],
  'limited, perf in turns': chains['limited, perf in turns'],
};
