/** Measures a pass of busy mode in which each member has spent its token and waits for another one, in CPU time. */
import { rulingsOf } from '#src/cli/rulings.ts';
import { Client } from '#src/daemon/devices.ts';
import { Host } from '#src/daemon/host.ts';
import { columnsIn, rowAt, SEATS_PER_CLIENT } from '#src/daemon/pages.ts';
import { NO_LABELS } from '#src/daemon/rules.ts';
import { HUNGRY_WEIGHT, SENDS_BULK } from '#src/policies/justitia/columns.ts';
import { HANDED_BYTES, handedTokens, IS_PENDING, SPENT_BYTES } from '#src/policies/justitia/handed-tokens.ts';
import { rates } from '#src/policies/justitia/rates.ts';
import { cppLoop } from '../against-cpp/null-loops.ts';
import { DEVICE } from '../daemon/daemon-process.ts';

const WARM_UP = 2000;
const TOKEN_BYTES = 5000;
const GBPS = 100;
/** Short enough for one token in each pass. */
const PASS_NS = (TOKEN_BYTES * 8) / GBPS;

function memberOf(host: Host, i: number) {
  const { shape, layout } = host;
  const identity = { tenant: `t${i}`, weight: 1, gbps: null, labels: NO_LABELS, maxQps: 0 };
  const pages = {
    counters: new Float64Array(SEATS_PER_CLIENT * shape.reports),
    grants: new Float64Array(SEATS_PER_CLIENT * shape.grants),
  };
  const row = rowAt(pages, 0, shape);
  const { reports } = columnsIn(row, layout, rates)!;
  [reports[HUNGRY_WEIGHT], reports[SENDS_BULK]] = [1 + (i % 3), 1];
  const tokens = columnsIn(row, layout, handedTokens)!;
  tokens.reports[IS_PENDING] = 1;
  const client = new Client({ ...identity, maxRequestsPerS: 0, hasTenants: false }, pages, i + 1);
  const why = host.join(client, 0, DEVICE, 0);
  if (why !== null) throw new Error(why);
  return tokens;
}

/** The mean CPU time of a pass that hands out a token, in nanoseconds, and the bytes that it allocates. */
export function busyPass(members: number, passes: number): { ns: number; allocatedBytes: number } {
  const rulings = rulingsOf(`justitia:maxGbps=${GBPS},bulkChunkBytes=${TOKEN_BYTES}`);
  const host = new Host({ rulings, linkGbps: () => GBPS });
  const all = Array.from({ length: members }, (_, i) => memberOf(host, i));
  const { threadCpuNs } = cppLoop();
  let atNs = 0;
  const run = (count: number) => {
    for (let i = 0; i < count; i++) {
      atNs += PASS_NS;
      host.busyPass(atNs);
      for (const { grants, reports } of all) reports[SPENT_BYTES] = grants[HANDED_BYTES];
    }
  };
  run(WARM_UP);
  const [heap, startNs] = [process.memoryUsage().heapUsed, threadCpuNs()];
  run(passes);
  const ns = (threadCpuNs() - startNs) / passes;
  const allocatedBytes = Math.max(0, process.memoryUsage().heapUsed - heap) / passes;
  if (!all.some(({ grants }) => grants[HANDED_BYTES] > 0)) throw new Error('nothing was handed out');
  return { ns, allocatedBytes };
}
