/** What a token costs: the puller, the order of tokens and their clock, with queue pairs that always have something to send. */
import { TokenClock } from '#src/policies/justitia/token-clock.ts';
import { TokenOrder } from '#src/policies/justitia/token-order.ts';
import { byContext, Entities } from '#src/policies/kit/entities.ts';
import { Puller } from '#src/policies/kit/puller.ts';
import { wireFactsOf } from '#src/policies/kit/wire.ts';
import type { Actions, ContextView, QpView } from '#src/shim/policy.ts';
import { IBV_QPT_RC, IBV_WR_RDMA_WRITE } from '#src/verbs/constants.ts';

export const TENANTS = 512;
export const FLOWS = 4096;
const TOKEN_BYTES = 5000;
/** Times are no whole numbers, which V8 would not allocate. */
const BYTES_PER_NS = 12.3;
const TOKEN_NS = TOKEN_BYTES / BYTES_PER_NS;
const REF_PERIOD_NS = 20_000;
/** As by default. */
const BACKLOG_BYTES = 8192;
/** Chunks in flight: each completes when this many others have been issued. */
const FLYING = 8;

const contexts = Array.from(
  { length: TENANTS },
  (_, index) => ({ index, handle: index, device: 'null0', tenant: '', nic: null }) as unknown as ContextView,
);
const views = Array.from(
  { length: FLOWS },
  (_, index) =>
    ({
      index,
      handle: index,
      type: IBV_QPT_RC,
      broken: false,
      context: contexts[index % TENANTS],
    }) as unknown as QpView,
);

/** The queue pairs as a puller sees them, and the device, which completes chunks in the order of issue. */
class Device {
  readonly clock = new Float64Array(1);
  chunks = 0;
  private completed = 0;
  private readonly inflight = new Int32Array(FLOWS);
  private readonly flying = new Int32Array(4 * FLYING);
  private readonly timerNs = new Float64Array(1);

  readonly out = {
    backlog: () => 1,
    nextOpcode: () => IBV_WR_RDMA_WRITE,
    inflight: ({ index }) => this.inflight[index],
    inflightBytes: ({ index }) => this.inflight[index] * TOKEN_BYTES,
    nowNs: () => this.clock[0],
    timer: (_context, atNs) => {
      this.timerNs[0] = atNs;
    },
  } as Partial<Actions> as Actions;

  readonly issue = ({ index }: QpView): number => {
    this.inflight[index]++;
    this.flying[this.chunks++ & (4 * FLYING - 1)] = index;
    return TOKEN_BYTES;
  };

  /** Completes the oldest chunk if more than FLYING are in flight. Returns its queue pair. */
  complete(): QpView | null {
    if (this.chunks - this.completed <= FLYING) return null;
    const index = this.flying[this.completed++ & (4 * FLYING - 1)];
    this.inflight[index]--;
    return views[index];
  }
}

/** Gives out `count` tokens, one at a time, each in an event of its own, with a completion for each chunk. */
export type Tokens = (count: number) => void;

/** The device alone, with its queue pairs in turn. */
export function bareTokens(): Tokens {
  const device = new Device();
  const { out } = device;
  let next = 0;
  return (count) => {
    for (let i = 0; i < count; i++) {
      device.clock[0] += TOKEN_NS;
      const qp = views[next];
      next = next + 1 === FLOWS ? 0 : next + 1;
      if (out.backlog(qp) > 0) device.issue(qp);
      out.timer(qp.context, out.nowNs(qp.context) + TOKEN_NS, 0);
      device.complete();
    }
  };
}

/** @param weightOf the weight of a tenant, by number */
export function tokens(weightOf: (tenant: number) => number): Tokens {
  const device = new Device();
  const { out } = device;
  const entities: Entities = new Entities({ keyOf: byContext, onNew: (entity) => order.reset(entity) });
  const set = (nowNs: number) => clock.set(BYTES_PER_NS, TOKEN_BYTES, 0, BACKLOG_BYTES, nowNs);
  const clock: TokenClock = new TokenClock(set, REF_PERIOD_NS);
  const weights = Float64Array.from({ length: TENANTS }, (_, tenant) => weightOf(tenant));
  const order = new TokenOrder({ entities, weightOf: (entity) => weights[entity] }, clock);
  const puller = new Puller({
    order,
    wire: wireFactsOf(null),
    windowBytes: 4 * FLYING * TOKEN_BYTES,
    pieceBytes: TOKEN_BYTES,
    token: 0,
    issue: device.issue,
  });
  for (const qp of views) {
    entities.join(qp);
    puller.onQp(qp, 'created', out);
  }
  for (const qp of views) puller.enlist(qp, out);
  return (count) => {
    const before = device.chunks;
    for (let i = 0; i < count; i++) {
      device.clock[0] += TOKEN_NS;
      puller.onTimer(out);
      for (let qp = device.complete(); qp !== null; qp = device.complete()) puller.onCompleted(qp, out);
    }
    const served = device.chunks - before;
    // A chunk takes more than a token on the wire, so that some tokens pay debts.
    if (served > count || served < 0.9 * count) throw new Error(`${served} chunks for ${count} tokens`);
  };
}
