/** Parts that policies are built from: typed columns, O(1), and nothing allocated per request (docs/policies.md). */
export { Bucket, type BucketOptions } from '../../shim/limits/bucket.ts';
export { CompletionBudget } from '../../shim/limits/completion-limits.ts';
export { plainRun } from '../../shim/plain-requests.ts';
export { chunkFor } from './chunks.ts';
export {
  Classifier,
  type ClassifierOptions,
  Hysteresis,
  IDLE,
  type Indexed,
  LARGE_BYTES,
  TrafficWindows,
} from './classifier.ts';
export {
  type Bottleneck,
  bottleneckOf,
  type Capacities,
  capacitiesOf,
  type Resource,
  TIMED,
  type Use,
} from './cost/bottleneck.ts';
export {
  AT_PEER,
  addContextMisses,
  addEntryMisses,
  COST_WORDS,
  Cost,
  type CostFacts,
  costFactsOf,
  costOf,
  NIC_WORDS,
  type RequestShape,
} from './cost/vector.ts';
export { WorkingSet, type WorkingSetOptions } from './cost/working-set.ts';
export { byContext, byQueuePair, byTenant, Entities, type EntityRules } from './entities.ts';
export { EventClock } from './event-clock.ts';
export { type Order, Puller, type PullerOptions, STALL_NS } from './puller.ts';
export { NONE, RunQueue } from './run-queue.ts';
export { BLOCKED, passAll, step } from './step.ts';
export { TAIL_LIMIT_NS, TailEstimator, type TailEstimatorOptions } from './tail-estimator.ts';
export { Throttle, type ThrottleOptions } from './throttle.ts';
export {
  egressBytes,
  ingressBytes,
  packetBytes,
  RETH_BYTES,
  ROCE,
  type WireFacts,
  wireBytes,
  wireFactsOf,
} from './wire.ts';
