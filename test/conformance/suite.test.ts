/** The conformance suite: every case without interceptors, and under every chain with the same results. */
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import { tagsIf } from '../support/variants.ts';
import { type GroundName, groundOf, impairsPackets, isAbsent, softLoses } from '../verbs/ground.ts';
import { cases } from './cases/index.ts';
import { type Chain, engineChains, suiteChains } from './chains.ts';
import type { Case } from './suite/case.ts';
import { compact } from './suite/case.ts';
import { type Outcome, play } from './suite/run.ts';
import type { Trace } from './suite/scene.ts';
import { suiteWorkerChains } from './worker-chains.ts';

function expectedOn(one: Case, name: GroundName) {
  if (name !== 'rxe' || one.rxe === undefined) return one.expect;
  return one.rxe.expect;
}

function isAsExpected(trace: Trace, one: Case, name: GroundName): boolean {
  const { events: _, ...got } = trace;
  const { events: __, ...wanted } = compact(expectedOn(one, name) as Trace);
  return isDeepStrictEqual(got, wanted);
}

test('names of cases are unique', () => {
  const names = cases.map(({ name }) => name);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

const inWorkers = Object.entries(suiteWorkerChains);

/** Every step asks the worker, which is slow: without ISOVERBS_WHOLE=1 each case runs there under one of these chains. */
const isWhole = process.env.ISOVERBS_WHOLE === '1';
const driver = process.env.ISOVERBS_DRIVERS;

/** On an emulated machine, and on user-space devices, one case in this many is run for a change. */
const SAMPLE = 12;
/**
 * On simulated devices, every case is run for a change without a policy, whole, cut, and in turns. Other chains run one case
 * in VARIANT_SAMPLE, each a different one.
 */
const WHOLE = /^split and 0_WAIT$|^perf, in turns$/;
const VARIANT_SAMPLE = 15;
const tagsOf = (name: GroundName, i: number, isVariant = false) => ({
  tags: tagsIf(name !== 'sim' ? i % SAMPLE === 0 : !isVariant || i % VARIANT_SAMPLE === 0),
});

/** In real time, all cases under all chains take half an hour: user-space devices run the sample, without ISOVERBS_WHOLE=1. */
const isLeftOut = (name: GroundName, i: number) => name === 'soft' && !isWhole && i % SAMPLE !== 0;

/** soft-RoCE sometimes loses the completions of a send that fails locally, and of requests around it. */
const retryOf = (name: GroundName, one: Case) =>
  name === 'rxe' && JSON.stringify(expectedOn(one, name)).includes('LOC_QP_OP_ERR') ? { retry: 3 } : {};

/** An error at the peer that is lost is not repeated, so that the request ends with RETRY_EXC_ERR. */
const mayLoseItsError = (one: Case) => softLoses && /REM_\w+_ERR/.test(JSON.stringify(one.expect));

const isKept = (one: Case, name: GroundName) => name !== 'soft' || !mayLoseItsError(one);

function suiteOn(name: GroundName): void {
  const bare = new Map<Case, Promise<Outcome>>();
  const bareRun = async (one: Case) => {
    const run = bare.get(one) ?? play(one, groundOf(name), [], null);
    bare.set(one, run);
    const outcome = await run;
    // A wrong bare run cannot serve as the reference, so the next test makes another.
    if (!isAsExpected(outcome.trace, one, name)) bare.delete(one);
    return outcome;
  };
  const here = cases.filter((one) => expectedOn(one, name) !== undefined && isKept(one, name));
  describe('no shim', () => {
    for (const [i, one] of here.entries()) {
      test(one.name, { ...tagsOf(name, i), ...retryOf(name, one) }, async () => {
        const { trace } = await bareRun(one);
        const { events, ...rest } = compact(expectedOn(one, name) as Trace);
        expect({ ...trace, events: [] }).toEqual({ ...rest, events: [] });
        // Events of soft-RoCE are not compared.
        if (name !== 'rxe') expect(trace.events).toEqual(events);
      });
    }
  });
  const compared = (i: number, one: Case, { chain, wait = true }: Chain, isVariant = false) => {
    if (isLeftOut(name, i)) return;
    test(one.name, { ...tagsOf(name, i, isVariant), ...retryOf(name, one) }, async () => {
      const { trace, counts } = await bareRun(one);
      expect((await play(one, groundOf(name, wait), chain(), counts)).trace).toEqual(trace);
    });
  };
  /** On simulated devices, each chain takes other cases into its sample. */
  const shifted = (i: number, nth: number) => (name === 'sim' ? i + nth : i);
  for (const [nth, [what, chain]] of Object.entries(suiteChains).entries()) {
    describe(what, () => {
      for (const [i, one] of here.entries()) compared(shifted(i, nth), one, { chain }, !WHOLE.test(what));
    });
  }
  // On a device without WAIT some chains are identical.
  const engines = Object.entries(engineChains).filter(([what]) => name !== 'rxe' || !/WAIT emul/.test(what));
  for (const [nth, [what, chain]] of engines.entries()) {
    describe(what, () => {
      for (const [i, one] of here.entries()) {
        // The sample is divided among the chains, except where devices impair packets, which is a separate run.
        const isMine = impairsPackets || Math.floor(i / SAMPLE) % engines.length === nth;
        if (name !== 'sim') compared(isMine ? i : i * SAMPLE + 1, one, chain);
        else compared(shifted(i, nth), one, chain, !WHOLE.test(what));
      }
    });
  }
  if (driver === 'inline') return;
  for (const [nth, [what, chain]] of inWorkers.entries()) {
    describe(`${what}, in a worker`, () => {
      for (const [i, one] of here.entries()) {
        if (isWhole || i % inWorkers.length === nth) {
          compared(shifted(Math.floor(i / inWorkers.length), nth), one, { chain }, true);
        }
      }
    });
  }
}

for (const name of ['sim', 'soft', 'rxe'] as const) {
  if (isAbsent(name)) test.skip(`${name}: unavailable on this machine`, () => {});
  else describe(name, () => suiteOn(name));
}
