/** What the policy's scheduler takes for a piece: queue pairs that always have something to send, in a device of arrays. */
import { CoordinatorRegistry } from '#src/coordinator/registry.ts';
import { palosOptions } from '#src/policies/palos/options.ts';
import { Scheduler } from '#src/policies/palos/scheduler.ts';
import type { Actions, ContextView, QpView } from '#src/shim/policy.ts';
import { IBV_QPT_RC, IBV_WR_RDMA_WRITE } from '#src/verbs/constants.ts';
import { DEFAULT_LABELS } from '#src/verbs/labels.ts';
import type { Work } from '../conditions-in-turn.ts';

/** The device of section V. */
const MTU_BYTES = 1500;
/** As by default at this MTU. */
const PIECE_BYTES = 3000;
/** Times are no whole numbers, which V8 would not allocate. */
const PIECE_NS = 253.7;
/** Pieces in flight, as a power of two above what the window allows. */
const MAX_FLYING = 64;
const FLYING = 8;
const WEIGHTS = 3;

const nic = { linkGbps: 100, mtuBytes: MTU_BYTES, headerBytes: 82, wqeGapNs: 60, latencyNs: 1000 };
const context = {
  ...{ index: 0, handle: 1, device: 'null0', tenant: 't', labels: DEFAULT_LABELS, nic },
} as unknown as ContextView;

const groupName = (index: number, groups: number) => `g${index % groups}`;

function qpsOf(count: number, groups: number): QpView[] {
  return Array.from(
    { length: count },
    (_, index) =>
      ({
        ...{ index, handle: index, type: IBV_QPT_RC, broken: false, dgid: '', context },
        labels: { ...DEFAULT_LABELS, group: groupName(index, groups), qpWeight: 1 + (index % WEIGHTS) },
      }) as unknown as QpView,
  );
}

/** The queue pairs as the scheduler sees them, and the device, which completes pieces in the order of issue. */
class Device {
  readonly clock = new Float64Array(1);
  pieces = 0;
  private completed = 0;
  private readonly qps: readonly QpView[];
  private readonly inflight: Int32Array;
  private readonly flying = new Int32Array(MAX_FLYING);
  private readonly timerNs = new Float64Array(1);
  readonly signals = new Float64Array(1);

  constructor(qps: readonly QpView[]) {
    this.qps = qps;
    this.inflight = new Int32Array(qps.length);
  }

  readonly out = {
    wait: 'none',
    backlog: () => 1,
    room: () => 16,
    nextOpcode: () => IBV_WR_RDMA_WRITE,
    nextBytes: () => 2 ** 30,
    isCrossChannel: () => false,
    splittable: () => true,
    inflight: ({ index }) => this.inflight[index],
    inflightBytes: ({ index }) => this.inflight[index] * PIECE_BYTES,
    nowNs: () => this.clock[0],
    signalNow: () => {
      this.signals[0]++;
    },
    piece: ({ index }) => {
      this.inflight[index]++;
      this.flying[this.pieces++ & (MAX_FLYING - 1)] = index;
    },
    timer: (_context, atNs) => {
      this.timerNs[0] = atNs;
    },
  } as Partial<Actions> as Actions;

  /** Completes the oldest piece. Returns its queue pair. */
  complete(): QpView {
    this.clock[0] += PIECE_NS;
    const index = this.flying[this.completed++ & (MAX_FLYING - 1)];
    this.inflight[index]--;
    return this.qps[index];
  }
}

/** The device alone, with its queue pairs in turn. A unit is a piece and its completion. */
export function bareDevice(queuePairs: number): Work {
  const qps = qpsOf(queuePairs, 1);
  const device = new Device(qps);
  const { out } = device;
  let next = 0;
  const issue = () => {
    const qp = qps[next];
    next = next + 1 === queuePairs ? 0 : next + 1;
    if (out.backlog(qp) === 0 || out.room(qp) === 0) return;
    out.piece(qp, PIECE_BYTES);
    out.signalNow(qp);
  };
  for (let i = 0; i < FLYING; i++) issue();
  return (units) => {
    for (let i = 0; i < units; i++) {
      device.complete();
      issue();
    }
  };
}

/** Queue pairs in groups, with weights of both. */
export interface Load {
  readonly queuePairs: number;
  readonly groups: number;
  /** Default: the policy's. With 2, a mean chunk is a piece. */
  readonly chunkMtus?: number;
}

/** The scheduler of the policy. A unit is a piece and its completion. */
export function scheduled({ queuePairs, groups, ...options }: Load): Work {
  const qps = qpsOf(queuePairs, groups);
  const device = new Device(qps);
  const { out } = device;
  const chosen = palosOptions.parse({ ...options, windowBytes: FLYING * PIECE_BYTES });
  const scheduler = new Scheduler(0, context, chosen, new CoordinatorRegistry());
  scheduler.open(context, out);
  for (let group = 0; group < groups; group++)
    scheduler.weights.setGroupWeight('=t', groupName(group, groups), 10 + group);
  for (const qp of qps) scheduler.add(qp, out);
  for (const qp of qps) scheduler.feed(qp, out);
  return (units) => {
    const before = device.pieces;
    for (let i = 0; i < units; i++) scheduler.onCompleted(device.complete(), out);
    // Chunks are no whole number of pieces, so that the window has room for one more from time to time.
    const issued = device.pieces - before;
    if (Math.abs(issued - units) > 0.3 * units) throw new Error(`${issued} pieces for ${units} completions`);
  };
}
