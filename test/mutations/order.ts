/** The tests of the shim, in stages, each ordered by how quickly it finds faults. */

/** A test that takes longer counts as hanging. */
export const LIMIT_MS = Number(process.env.ISOVERBS_TIMEOUT_S ?? 60) * 1000;

/** Every verb, flag and state once. */
const SUITE = ['test/conformance/suite.test.ts'];

const quick = [
  'test/unit/compose.test.ts',
  'test/conformance/failures.test.ts',
  'test/conformance/machine.test.ts',
  'test/conformance/wait.test.ts',
  'test/conformance/waits.test.ts',
  ...SUITE,
  'test/conformance/counters.test.ts',
  'test/conformance/peer-connections.test.ts',
  'test/conformance/peer-reads.test.ts',
  'test/conformance/peer-sends.test.ts',
  'test/conformance/peer-receives.test.ts',
  'test/conformance/edges.test.ts',
  'test/conformance/in-flight.test.ts',
  'test/conformance/events.test.ts',
  'test/conformance/mixed.test.ts',
  'test/conformance/shim.test.ts',
];

/** Tests that run the shim as a part of drivers, policies, mixtures and programs. */
const wider = [
  'test/unit/objects-on-sim.test.ts',
  'test/sim/perf.test.ts',
  'test/conformance/peer-programs.test.ts',
  'test/conformance/profiles.test.ts',
  'test/process/example-policy.test.ts',
  'test/mix/mix-driver.test.ts',
  'test/conformance/interceptors.test.ts',
  'test/conformance/worker.test.ts',
  'test/drivers/replay.test.ts',
  'test/mix/mix.test.ts',
];

/** Random programs, as many as `npm test` runs. */
const long = [
  'test/conformance/events.test.ts',
  'test/conformance/shim.test.ts',
  'test/conformance/mixed.test.ts',
];

export interface Stage {
  readonly name: string;
  readonly files: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** As a rule, finding a fault in the shim needs neither many random programs nor the addon. */
const FEW = { ISOVERBS_RUNS: '10', ISOVERBS_DRIVERS: 'inline' };

export const suite: Stage = { name: 'suite', files: SUITE, env: FEW };
export const stages: readonly Stage[] = [
  { name: 'quick', files: quick, env: FEW },
  { name: 'wider', files: wider, env: FEW },
  { name: 'random programs', files: long, env: {} },
];
/** All files, in the order in which they run. */
export const order = [...quick, ...wider];
