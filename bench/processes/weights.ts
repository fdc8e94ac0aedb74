/**
 * Measures the shares of three programs with weights of 1, 2 and 4 (file-transfer.mjs, each with 8 WRITEs in flight): bare,
 * and under `isoverbs run` with the policy and one daemon. Periods follow each other while all three send.
 *   node bench/processes/weights.js [--policy drum] [--bytes 4096]
 * RXE_DEV, RXE_DEV2: the devices. ISOVERBS_ROUNDS: periods (5). ISOVERBS_SECONDS: of each (20). Prints JSON.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Program } from './programs.ts';
import { TestBed, writesPerSOf } from './test-bed.ts';

const { values } = parseArgs({
  options: { policy: { type: 'string', default: 'drum' }, bytes: { type: 'string', default: '4096' } },
});
const { policy: POLICY } = values;
const BYTES = Number(values.bytes);
const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 5);
const SECONDS = Number(process.env.ISOVERBS_SECONDS ?? 20);
const WEIGHTS = [1, 2, 4];
/** Longer than any run, because the transfers are killed. */
const LONG_SECONDS = 3600;
/** Time after which rates no longer depend on when programs have started; an emulated machine compiles their code slowly. */
const SETTLED_MS = 60_000;

interface Period {
  readonly condition: string;
  readonly writesPerS: number;
  /** What each program got of its share by weight. */
  readonly ofShare: readonly number[];
}

async function periodOf(programs: readonly Program[], condition: string): Promise<Period> {
  const fromMs = performance.now();
  await delay(SECONDS * 1000);
  const span = { fromMs, toMs: performance.now() };
  const rates = programs.map((program) => writesPerSOf(program, span));
  const total = rates.reduce((sum, rate) => sum + rate, 0);
  const weights = WEIGHTS.reduce((sum, weight) => sum + weight, 0);
  const ofShare = rates.map((rate, i) => Number((rate / ((total * WEIGHTS[i]) / weights)).toFixed(3)));
  return { condition, writesPerS: Math.round(total), ofShare };
}

/** All programs together, bare or under the policy. */
async function together(bed: TestBed, condition: string): Promise<Period[]> {
  const programs = WEIGHTS.map((weight) =>
    bed.transfer(
      condition === 'bare' ? null : { tenant: `weight-${weight}`, weight, policy: condition },
      LONG_SECONDS,
      BYTES,
    ),
  );
  await Promise.all(programs.map((program) => program.line(/^[1-9]\d* WRITEs$/)));
  await delay(SETTLED_MS);
  const periods: Period[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    periods.push(await periodOf(programs, condition));
    console.error(JSON.stringify(periods.at(-1)));
  }
  for (const program of programs) program.kill('SIGKILL');
  await Promise.all(programs.map(({ ended }) => ended));
  return periods;
}

async function main(): Promise<void> {
  const { RXE_DEV: near, RXE_DEV2: far = near } = process.env;
  if (near === undefined || far === undefined) {
    throw new Error('RXE_DEV names the device; see scripts/rxe-run');
  }
  const bed = new TestBed({ near, far });
  try {
    await Promise.all([bed.serve(), bed.programs.daemon('--policy', POLICY, '--device', near)]);
    const periods = [...(await together(bed, 'bare')), ...(await together(bed, POLICY))];
    console.log(JSON.stringify({ weights: WEIGHTS, bytes: BYTES, seconds: SECONDS, periods }, null, 2));
  } finally {
    await bed.close();
  }
}

await main();
