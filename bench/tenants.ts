/**
 * Runs B and D as two tenants of real devices, alternately under several policies: prints medians over the rounds, and
 * their ratios to the first policy. Policies alternate because a machine's speed changes from minute to minute.
 *   node bench/tenants.js [POLICY...]    default: none perf
 * RXE_DEV, RXE_DEV2: the devices. ISOVERBS_ROUNDS: rounds (5). ISOVERBS_APPS: 'B:size=256KiB D'. ISOVERBS_SECONDS: length
 * of a run (20), half of which is warm-up: on an emulated machine JavaScript takes seconds to be compiled.
 */
import Table from 'cli-table3';
import { runLive } from '#src/mix/live/run.ts';
import { parseApp, parsePolicy } from '#src/mix/parse.ts';
import type { AppResult } from '#src/mix/result.ts';
import { p50 } from './timing.ts';

const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 5);
const DURATION_NS = Number(process.env.ISOVERBS_SECONDS ?? 20) * 1e9;
const APPS = (process.env.ISOVERBS_APPS ?? 'B:size=256KiB D').split(' ');
const DEVICES = [process.env.RXE_DEV, process.env.RXE_DEV2].filter((name) => name !== undefined);

/** The columns of each application. */
const COLUMNS: readonly (readonly [head: string, digits: number, of: (app: AppResult) => number])[] = [
  ['Gbit/s', 3, (app) => app.throughputGbps],
  ['M/s', 4, (app) => app.messageRateMmps],
  ['avg us', 1, (app) => app.latencyUs?.avg ?? Number.NaN],
  ['p50', 1, (app) => app.latencyUs?.p50 ?? Number.NaN],
  ['p99', 1, (app) => app.latencyUs?.p99 ?? Number.NaN],
];

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  const policies = given.length > 0 ? given : ['none', 'perf'];
  const runs = policies.map((): AppResult[][] => []);
  let verified = 0;
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, policy] of policies.entries()) {
      const result = await runLive({
        devices: DEVICES,
        ...parsePolicy(policy),
        durationNs: DURATION_NS,
        warmupNs: DURATION_NS / 2,
        seed: round + 1,
        apps: APPS.map(parseApp),
      });
      if (result.invariants.length > 0) throw new Error(`${policy}: ${result.invariants.join('; ')}`);
      verified += result.verified;
      runs[i].push([...result.apps]);
      const summary = result.apps.map(
        ({ name, throughputGbps, latencyUs }) =>
          `${name} ${throughputGbps.toFixed(3)} Gbit/s, ${latencyUs?.avg.toFixed(1) ?? '-'} us`,
      );
      console.error(`round ${round + 1}, ${policy}: ${summary.join('; ')}`);
    }
  }
  const head = ['app', 'policy', ...COLUMNS.flatMap(([name]) => [name, 'ratio'])];
  const table = new Table({ head, style: { head: [], border: [] } });
  for (const [at, { name }] of runs[0][0].entries()) {
    for (const [i, policy] of policies.entries()) {
      const cells = COLUMNS.flatMap(([, digits, of]) => {
        const [value, first] = [runs[i], runs[0]].map((rounds) => p50(rounds.map((apps) => of(apps[at]))));
        return [value.toFixed(digits), (value / first).toFixed(2)];
      });
      table.push([name, policy, ...cells]);
    }
  }
  console.log(table.toString());
  console.log(`medians of ${ROUNDS} rounds; ${verified} messages were verified at their destination`);
}

await main();
