/** What the requests of applications cost the NICs, from the parameters of the model. */
import { type Bottleneck, bottleneckOf, capacitiesOf } from '../../policies/kit/cost/bottleneck.ts';
import {
  AT_PEER,
  addContextMisses,
  COST_WORDS,
  Cost,
  type CostFacts,
  costFactsOf,
  costOf,
} from '../../policies/kit/cost/vector.ts';
import { nicFacts } from '../../providers/sim/limits.ts';
import type { NicParams } from '../../sim/profile/params.ts';
import * as V from '../../verbs/index.ts';
import { OPCODES, type Operation } from '../operations.ts';
import type { App } from '../resolve.ts';
import type { DominantResource } from '../result.ts';
import { meanBytes } from '../sizes.ts';

const TYPES = { rc: V.IBV_QPT_RC, uc: V.IBV_QPT_UC, ud: V.IBV_QPT_UD };
const PAGE_BYTES = 4096;

/** What applications are, as far as their costs depend on it. */
type CostApp = Pick<
  App,
  | 'op'
  | 'opDraw'
  | 'transport'
  | 'batch'
  | 'depth'
  | 'inline'
  | 'qps'
  | 'host'
  | 'to'
  | 'minBytes'
  | 'maxBytes'
  | 'sizes'
>;

/** The costs of the applications of a mix, from what its NICs report. */
export class AppCosts {
  readonly facts: CostFacts;
  private readonly loopbackGbps: number;
  /** By host: contexts of queue pairs. */
  private readonly contexts = new Map<number, number>();

  constructor(params: NicParams, apps: readonly CostApp[]) {
    this.facts = costFactsOf(nicFacts(params, true));
    this.loopbackGbps = params.loopbackGbps;
    for (const { host, to, qps } of apps)
      for (const one of [host, to]) this.contexts.set(one, (this.contexts.get(one) ?? 0) + qps);
  }

  /** A request of an application, on average over its operations, with the misses of contexts that do not fit. */
  of(app: CostApp): Float64Array {
    const mean = new Float64Array(COST_WORDS);
    const one = new Float64Array(COST_WORDS);
    for (const [operation, part] of partsOf(app)) {
      const bytes = operation === 'atomic' ? 8 : meanBytes(app);
      costOf(this.facts, shapeOf(app, operation, bytes), one);
      for (const [word, value] of one.entries()) mean[word] += value * part;
    }
    this.addMisses(app, mean);
    return mean;
  }

  /** The scarcest resource for an application that has the NICs for itself. */
  bottleneckOf(app: CostApp, qps?: number): Bottleneck {
    const isLoopback = app.host === app.to;
    const capacities = capacitiesOf(this.facts, isLoopback ? this.loopbackGbps : this.facts.linkGbps);
    return bottleneckOf(this.of(app), capacities, { isLoopback, ...(qps !== undefined && { qps }) });
  }

  /** The resource of which an application takes the largest part with the payload that it gets delivered. */
  dominantOf(app: App, throughputGbps: number): DominantResource {
    const { resource, at, perSecond } = this.bottleneckOf(app);
    const rate = (throughputGbps * 1e9) / 8 / meanBytes(app);
    return { resource, host: at === 'peer' ? app.to : app.host, share: rate / perSecond };
  }

  /**
   * Each request misses once at either end if contexts do not fit. An acknowledgement that arrives while further requests
   * wait for a processing unit fetches the context for them, so that the unit need not wait.
   */
  private addMisses(app: CostApp, cost: Float64Array): void {
    const { facts } = this;
    const waits = app.depth === 1 ? 1 : Math.max(0, 2 - cost[Cost.CONTEXTS]);
    if (this.missesContexts(app.host)) addContextMisses(facts, cost, 0, 1, waits);
    if (this.missesContexts(app.to)) addContextMisses(facts, cost, AT_PEER, cost[AT_PEER + Cost.CONTEXTS], 0);
  }

  /** Queue pairs take turns, so the cache evicts each context before it is used again. */
  private missesContexts(host: number): boolean {
    const { cachedQps } = this.facts;
    return cachedQps !== null && (this.contexts.get(host) ?? 0) > cachedQps;
  }
}

/** The operations of an application, and the part of each. */
function partsOf({ op, opDraw }: CostApp): [Operation, number][] {
  if (opDraw === null) return [[op, 1]];
  const { operations, ends } = opDraw;
  return operations.map((operation, i) => [operation, ends[i] - (ends[i - 1] ?? 0)]);
}

function shapeOf({ transport, batch, inline, maxBytes }: CostApp, operation: Operation, bytes: number) {
  const bufferBytes = maxBytes + (transport === 'ud' ? V.GRH_BYTES : 0);
  return {
    opcode: OPCODES[operation],
    bytes,
    qpType: TYPES[transport],
    batch,
    isInline: inline,
    alignBytes: greatestDivisor(bufferBytes, PAGE_BYTES),
  };
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}
