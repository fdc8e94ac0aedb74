/** A device of arrays, with queue pairs that always have something to send, to measure schedulers alone. */
import { COLUMNS } from '#src/shim/counters.ts';
import type { Actions, ContextView, QpView } from '#src/shim/policy.ts';
import { IBV_QPT_RC, IBV_WR_RDMA_WRITE } from '#src/verbs/constants.ts';
import { DEFAULT_LABELS, type Labels } from '#src/verbs/labels.ts';
import type { Work } from './conditions-in-turn.ts';

/** The device of section V. */
const MTU_BYTES = 1500;
/** As by default at this MTU. */
export const PIECE_BYTES = 3000;
/** Times are no whole numbers, which V8 would not allocate. */
const PIECE_NS = 253.7;
/** Pieces in flight, as a power of two above what the window allows. */
const MAX_FLYING = 64;
export const FLYING = 8;

const nic = { linkGbps: 100, mtuBytes: MTU_BYTES, headerBytes: 82, wqeGapNs: 60, latencyNs: 1000 };

/** A context of a tenant. */
export function contextOf(tenant: string, index = 0): ContextView {
  const facts = { index, handle: index + 1, device: 'null0', tenant, labels: DEFAULT_LABELS, nic };
  return facts as unknown as ContextView;
}

/** A queue pair. A class, because objects that are built by spreading others may differ in layout. */
class BenchQp {
  readonly type = IBV_QPT_RC;
  readonly broken = false;
  readonly dgid = '';
  readonly sgid = '';
  readonly counts = new Float64Array(COLUMNS);
  readonly index: number;
  readonly handle: number;
  readonly context: ContextView;
  readonly labels: Labels;

  constructor(index: number, context: ContextView, labels: Labels) {
    this.index = index;
    this.handle = index;
    this.context = context;
    this.labels = labels;
  }
}

/** Queue pairs with the context and the labels that each has. */
export function qpsOf(
  count: number,
  contextAt: (index: number) => ContextView,
  labelsAt: (index: number) => Partial<Labels> = () => ({}),
): QpView[] {
  const qps = Array.from(
    { length: count },
    (_, index) => new BenchQp(index, contextAt(index), { ...DEFAULT_LABELS, ...labelsAt(index) }),
  );
  return qps as unknown as QpView[];
}

/** The queue pairs as the scheduler sees them, and the device, which completes pieces in the order of issue. */
export class Device {
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

/** What completes pieces on a scheduler. A unit is a piece and its completion. */
export function completing(device: Device, completed: (qp: QpView) => void): Work {
  return (units) => {
    const before = device.pieces;
    for (let i = 0; i < units; i++) completed(device.complete());
    // Pieces need not fill the window exactly, so that it has room for one more from time to time.
    const issued = device.pieces - before;
    if (Math.abs(issued - units) > 0.3 * units) throw new Error(`${issued} pieces for ${units} completions`);
  };
}

/** The device alone, with its queue pairs in turn. A unit is a piece and its completion. */
export function bareDevice(queuePairs: number): Work {
  const context = contextOf('t');
  const qps = qpsOf(queuePairs, () => context);
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
