/**
 * Measures how late timers of a policy fire in the worker driver, on the null device: a policy issues 5 KB of a held
 * request every 800 us. For each spin time, prints quantiles and the CPU share of the process as JSON. For comparison,
 * also prints how late a bare thread is when it spins until the same times. The worker requires a separate core, and a
 * quiet machine.
 */
import { fileURLToPath } from 'node:url';
import { workerDriver } from '#src/drivers/worker/front.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose } from '#src/shim/compose.ts';
import * as V from '#src/verbs/index.ts';
import { LIBRARY, openNull } from './against-cpp/null-device.ts';
import { nowNs, p50, p99, quantile, rounded } from './timing.ts';

const PIECE_BYTES = 5000;
const PERIOD_NS = 800_000;
const PIECES = 2500;
const ROUNDS = 3;
const CLOCK_READS = 1_000_000;
const GOAL_US = 20;
const SPINS_NS: Record<string, number> = {
  default: Number.NaN,
  'spin=0': 0,
  'spin=200us': 200_000,
  'spin=1ms': 1_000_000,
};
const MODULE = fileURLToPath(new URL('./pacing-policy.js', import.meta.url));

process.env.ISOVERBS_LIBIBVERBS = LIBRARY;

interface Measured {
  lateUs: { p50: number; p99: number; p999: number };
  cpuShare: number;
}

const quantiles = (lateNs: readonly number[]) => ({
  p50: rounded(p50(lateNs) / 1000),
  p99: rounded(p99(lateNs) / 1000),
  p999: rounded(quantile(lateNs, 0.999) / 1000),
});

/** One request, in pieces. */
async function pace(spinNs: number): Promise<Measured> {
  const lateNs = new Float64Array(new SharedArrayBuffer(8 * (PIECES + 1)));
  const options = { pieceBytes: PIECE_BYTES, periodNs: PERIOD_NS, lateNs };
  const driver = workerDriver(
    [{ name: 'pacing', options, module: MODULE }],
    Number.isNaN(spinNs) ? {} : { spinNs },
  );
  const { provider, qp, cq, send, wcs } = openNull(compose(createRdmaCoreProvider(), [driver]));
  send.write(1, V.IBV_SEND_SIGNALED, 4096, PIECE_BYTES * PIECES, 1, 4096, 1);
  const cpu = process.cpuUsage();
  const fromNs = nowNs();
  if (provider.postSend(qp, send.ring, 0, 1) !== 1) throw new Error(`errno ${send.errno}`);
  while (provider.pollCq(cq, wcs.ring, 0, 1) === 0) await new Promise((done) => setTimeout(done, 20));
  const { user, system } = process.cpuUsage(cpu);
  const cpuShare = rounded(((user + system) * 1000) / (nowNs() - fromNs));
  return { lateUs: quantiles([...lateNs.subarray(1, lateNs[0] + 1)]), cpuShare };
}

/** The same measurement for a thread that only reads the clock, which is the best that the machine allows. */
function spinning(): Measured {
  const late: number[] = [];
  let dueNs = nowNs();
  for (let i = 0; i < PIECES / 4; i++) {
    dueNs += PERIOD_NS;
    while (nowNs() < dueNs);
    late.push(nowNs() - dueNs);
    dueNs = Math.max(dueNs, nowNs());
  }
  return { lateUs: quantiles(late), cpuShare: 1 };
}

/** Nanoseconds per reading of each clock. */
function clockNs(): Record<string, number> {
  const array = new Float64Array(1);
  const { nowNs: providerNs } = createRdmaCoreProvider();
  const clocks: Record<string, () => void> = {
    'provider.nowNs': () => (array[0] = providerNs(0)),
    'performance.now': () => (array[0] = performance.now()),
    'process.hrtime': () => (array[0] = process.hrtime()[1]),
    'process.hrtime.bigint': () => (array[0] = Number(process.hrtime.bigint())),
  };
  return Object.fromEntries(
    Object.entries(clocks).map(([name, read]) => {
      const times = Array.from({ length: 5 }, () => {
        const fromNs = nowNs();
        for (let i = 0; i < CLOCK_READS; i++) read();
        return (nowNs() - fromNs) / CLOCK_READS;
      });
      return [name, rounded(p50(times))];
    }),
  );
}

const all: Record<string, Measured[]> = { bare: [] };
for (let round = 0; round < ROUNDS; round++) {
  all.bare.push(spinning());
  for (const [name, spinNs] of Object.entries(SPINS_NS)) {
    all[name] ??= [];
    all[name].push(await pace(spinNs));
  }
}
const median = (rounds: Measured[], of: (one: Measured) => number) => p50(rounds.map(of));
const results = Object.fromEntries(
  Object.entries(all).map(([name, rounds]) => [
    name,
    {
      p50Us: median(rounds, ({ lateUs }) => lateUs.p50),
      p99Us: median(rounds, ({ lateUs }) => lateUs.p99),
      p999Us: median(rounds, ({ lateUs }) => lateUs.p999),
      cpuShare: median(rounds, ({ cpuShare }) => cpuShare),
    },
  ]),
);
console.log(
  JSON.stringify(
    { pieces: PIECES, rounds: ROUNDS, goalP99Us: GOAL_US, results, clockNs: clockNs() },
    null,
    2,
  ),
);
process.exit(0);
