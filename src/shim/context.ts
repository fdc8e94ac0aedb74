/** An open context, as a shim knows it. */
import { IsoverbsError } from '../verbs/errors.ts';
import { type Labels, type QpLabels, sameLabels, withLabels } from '../verbs/labels.ts';
import type { NicFacts } from '../verbs/nic.ts';
import type { Provider } from '../verbs/provider.ts';
import type { Usage } from './coordinator-port.ts';
import { addSums, BYTES, COLUMNS, SEEN, SUM_BUCKETS, SUM_LATENCY, SUM_NAMES } from './counters.ts';
import { LatencyProbe } from './latency-probe.ts';
import type { CompletionBudget } from './limits/completion-limits.ts';
import type { QpLedger } from './qp-ledger.ts';
import type { ResourceView, TwinOptions } from './resources.ts';
import type { Carriage } from './sharing/carriage.ts';
import { ContextTimers } from './timers/timers.ts';
import type { ContextView } from './views.ts';

/** Keeps the contexts of a tenant below a number of requests per second (limits/limiter.ts). */
export interface RequestLimiter {
  /** How many of the requests that are being posted, from the first on, may be issued at once. */
  admit(qp: QpLedger, words: Uint32Array, start: number, count: number): number;
  /** The post has ended. */
  posted(qp: QpLedger): void;
  /** Time has passed. */
  serve(context: ShimContext): void;
  limitChanged(context: ShimContext): void;
  /** The limit of a context was removed, so its held requests may be issued. */
  end(context: ShimContext): void;
  /** A context was closed. */
  leave(context: ShimContext): void;
}

export class ShimContext implements ContextView {
  readonly index: number;
  readonly handle: number;
  readonly device: string;
  readonly tenant: string;
  readonly nic: NicFacts | null;
  /** The program's labels, and those in force with the coordinator's. */
  ownLabels: Labels;
  labels: Labels;
  /** Weights of its tenant's groups by the coordinator. */
  givenGroups: ReadonlyMap<string, number> = new Map();
  readonly maxQpWr: number;
  readonly maxCqe: number;
  /** Channel of resources, and of CQs that the application made without one; 0 if not made yet. */
  ownChannel = 0;
  /** The application's objects that keep the context open, its CQs among them. */
  children = 0;
  /** Queue pairs that may send and hold requests, or have internal requests that the policy awaits. */
  waiting = 0;
  /** The policy's resources, in the order of declaration. */
  readonly resources: ResourceView[] = [];
  /** The twins that each reliable connection gets, by kind. */
  readonly twinKinds: TwinOptions[] = [];
  /** Null if none of its queue pairs has a carrier. */
  carriage: Carriage | null = null;
  /** Ends the coordinator's subscription. */
  unsubscribe: (() => void) | null = null;
  readonly timers = new ContextTimers();
  closed = false;
  /** Another shim around this one reports to the coordinator, and enforces its limits. */
  isInner = false;
  /** Queue pairs that the shim knows, and the counts of those that were destroyed. */
  readonly qps = new Set<QpLedger>();
  readonly destroyedCounts = new Float64Array(COLUMNS);
  readonly latencyProbe: LatencyProbe;
  private readonly sums = new Float64Array(SUM_NAMES.length);
  /** Null if the application may receive completions at any rate. */
  completions: CompletionBudget | null = null;
  /** Null if the rate of requests is not limited. */
  limiter: RequestLimiter | null = null;
  /** GIDs of its ports that were queried, by port number and index. */
  private readonly gids = new Map<string, string>();

  constructor(fields: {
    index: number;
    handle: number;
    device: string;
    tenant: string;
    nic: NicFacts | null;
    labels: Labels;
    maxQpWr: number;
    maxCqe: number;
    watch(isWatched: boolean): void;
  }) {
    this.index = fields.index;
    this.handle = fields.handle;
    this.device = fields.device;
    this.tenant = fields.tenant;
    this.nic = fields.nic;
    this.ownLabels = fields.labels;
    this.labels = fields.labels;
    this.maxQpWr = fields.maxQpWr;
    this.maxCqe = fields.maxCqe;
    this.latencyProbe = new LatencyProbe(fields.watch);
  }

  /** The context's counts so far. */
  usage(): Usage {
    let requests = this.destroyedCounts[SEEN];
    let bytes = this.destroyedCounts[BYTES];
    let held = 0;
    const { sums, latencyProbe } = this;
    sums.fill(0);
    addSums(sums, this.destroyedCounts);
    for (const qp of this.qps) {
      requests += qp.counts[SEEN];
      bytes += qp.counts[BYTES];
      held += qp.backlog;
      addSums(sums, qp.counts);
    }
    sums[SUM_LATENCY] = latencyProbe.sumNs;
    sums.set(latencyProbe.buckets, SUM_BUCKETS);
    return { requests, bytes, held, qps: this.qps.size, latencyNs: latencyProbe.latencyNs, sums };
  }

  /** A GID of a port; '' if the device reports none. */
  gidOf(portNum: number, index: number, provider: Provider): string {
    const key = `${portNum} ${index}`;
    let gid = this.gids.get(key);
    if (gid === undefined) {
      gid = orEmpty(() => provider.queryGid(this.handle, portNum, index).gid);
      this.gids.set(key, gid);
    }
    return gid;
  }
}

function orEmpty(query: () => string): string {
  try {
    return query();
  } catch (error) {
    if (error instanceof IsoverbsError) return '';
    throw error;
  }
}

/** Labels of a queue pair, with those of its context, which it takes over when they are read or relabel() is called. */
export class InheritingLabels {
  private readonly context: Pick<ShimContext, 'labels'>;
  private own: QpLabels;
  private inherited: Labels;
  private resulting: Labels;

  constructor(context: Pick<ShimContext, 'labels'>, own: QpLabels) {
    this.context = context;
    this.own = own;
    this.inherited = context.labels;
    this.resulting = withLabels(context.labels, own);
  }

  get labels(): Labels {
    if (this.inherited !== this.context.labels) this.relabel();
    return this.resulting;
  }

  /** @param change labels of its own that have changed. Returns whether the resulting labels have changed */
  relabel(change: QpLabels = {}): boolean {
    this.own = { ...this.own, ...change };
    this.inherited = this.context.labels;
    const labels = withLabels(this.inherited, this.own);
    if (sameLabels(labels, this.resulting)) return false;
    this.resulting = labels;
    return true;
  }
}
