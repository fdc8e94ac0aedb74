/** What the processes of the benchmark measure: a loop over the null device under one chain of interceptors. */
import { justitia } from '#src/policies/justitia/index.ts';
import { justitiaOptions } from '#src/policies/justitia/options.ts';
import { BLOCKED, step } from '#src/policies/kit/step.ts';
import { perf } from '#src/policies/perf/index.ts';
import { perfOptions } from '#src/policies/perf/options.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import type { Actions, Policy, QpView } from '#src/shim/policy.ts';
import { createShim } from '#src/shim/shim.ts';
import * as V from '#src/verbs/index.ts';
import { openNull } from '../against-cpp/null-device.ts';
import { loop } from '../against-cpp/null-loops.ts';
import type { Groups, Work } from '../conditions-in-turn.ts';

export const CHUNK_BYTES = 5000;
/** Below 1 MB, so that the chunks go over the queue pair itself. */
const CHUNKS_PER_MESSAGE = 128;
const CHUNK_SLOTS = 16;

/** Cuts every message, and does nothing else. */
const cutting: Policy = {
  name: 'cutting',
  needs: { wait: 'none' },
  slots: CHUNK_SLOTS,
  onload: () => 0,
  feed(qp, out) {
    while (step(qp, out, CHUNK_BYTES) !== BLOCKED);
  },
};

/** Issues one chunk in each event, and sets a timer for the next one, as a policy does that paces. */
function timed(): Policy {
  let last: QpView | null = null;
  const issue = (qp: QpView, out: Actions) => {
    if (step(qp, out, CHUNK_BYTES) === BLOCKED) return;
    last = qp;
    out.timer(qp.context, out.nowNs(qp.context), 0);
  };
  return {
    ...cutting,
    name: 'timed',
    feed: issue,
    onCompleted: (qp, _count, out) => issue(qp, out),
    onTimer(_token, out) {
      if (last !== null) issue(last, out);
    },
  };
}

/** Passes everything. */
const passing: Policy = {
  name: 'passing',
  needs: { wait: 'none' },
  slots: 0,
  onload: (_qp, _words, _start, count) => count,
  feed() {},
};

/** A rate that no queue pair reaches here, so that tokens are always due: only the work is measured. */
const PACED = { maxGbps: 1e6, chunkBytes: CHUNK_BYTES, bulkChunkBytes: CHUNK_BYTES };
/** With `backlogBytes`, all chunks that fit are due at once; without, one at a time. */
const paced = (more = {}) => justitia(justitiaOptions.parse({ ...PACED, ...more }));

/** Declares that the device executes WAIT, so that nothing is emulated below the policy. */
const hardware: Interceptor = { name: 'hardware', wrap: () => ({ wait: 'hardware' }) };

function chunks(chain: readonly Interceptor[]): Work {
  const { provider, qp, cq, send, wcs } = openNull(compose(createRdmaCoreProvider(), chain));
  const { postSend, pollCq } = provider;
  const bytes = CHUNKS_PER_MESSAGE * CHUNK_BYTES;
  return (units) => {
    for (let done = 0; done < units; done += CHUNKS_PER_MESSAGE) {
      send.clear().write(done, V.IBV_SEND_SIGNALED, 0x10000000, bytes, 7, 0x20000000, 9);
      postSend(qp, send.ring, 0, 1);
      while (pollCq(cq, wcs.ring, 0, 16) === 0);
    }
  };
}

const LATENCY = { labels: { traffic: V.ISO_TRAFFIC_LATENCY } };

/** Posts one request and polls its completion. */
function latency(chain: readonly Interceptor[]): Work {
  const bench = openNull(compose(createRdmaCoreProvider(), chain), LATENCY);
  return (units) => {
    loop(bench, units, 1, true);
  };
}

/** Polls that find nothing, after a first request. */
function emptyPolls(chain: readonly Interceptor[]): Work {
  const bench = openNull(compose(createRdmaCoreProvider(), chain), LATENCY);
  const { provider, cq, wcs } = bench;
  const { pollCq } = provider;
  loop(bench, 1, 1, true);
  return (units) => {
    for (let i = 0; i < units; i++) pollCq(cq, wcs.ring, 0, 1);
  };
}

/** A rate that the loop does not reach: an application that sends more than its share is no latency application. */
const latencyShare = () => justitia(justitiaOptions.parse({ maxGbps: 1e6 }));

const BYPASSING: Record<string, () => Interceptor[]> = {
  none: () => [],
  'pass-through': () => [createShim(() => passing)],
  perf: () => [perf(perfOptions.parse({})), hardware],
  justitia: () => [latencyShare()],
};

/** What is compared. */
export const GROUPS: Groups = {
  chunks: {
    step: () => chunks([createShim(() => cutting)]),
    justitia: () => chunks([paced({ backlogBytes: 1e9 })]),
  },
  'chunks, one in each event': {
    step: () => chunks([createShim(timed)]),
    justitia: () => chunks([paced()]),
  },
  'post and poll': Object.fromEntries(
    Object.entries(BYPASSING).map(([name, chain]) => [name, () => latency(chain())]),
  ),
  'empty poll': Object.fromEntries(
    Object.entries(BYPASSING).map(([name, chain]) => [name, () => emptyPolls(chain())]),
  ),
};
