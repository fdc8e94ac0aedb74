/** Validates changes to a profile as written by people. */
import { ConfigError, shown } from '../../verbs/errors.ts';
import { didYouMean } from '../../verbs/suggestions.ts';
import { COORDINATOR_COSTS, type CoordinatorCosts, type NicParams, WORDS } from './params.ts';

/** Sizes, rates and counts that must be above 0. Costs, jitter and optional limits may be 0. */
const POSITIVE = new Set([
  'pcieGbps',
  'pciePayloadBytes',
  'recvWqeEntries',
  'dmaReads',
  'wqeFetchBatch',
  'palosWqeBatch',
  'readAheadBytes',
  'qpcEntries',
  'mptEntries',
  'mttEntries',
  'pageBytes',
  'processingUnits',
  'egressFifoBytes',
  'headerBytes',
  'linkGbps',
  'loopbackGbps',
  'mtuBytes',
  'ackEveryPackets',
  'switchBufferBytes',
  'dcqcnAlphaTimerNs',
  'dcqcnIncreaseTimerNs',
  'dcqcnAiMbps',
  'dcqcnMinMbps',
  'pollMissNs',
  'rendezvousNs',
]);
/** Array sizes and loop counts: integers with an upper bound. */
const COUNTS = new Set([
  'dmaReads',
  'wqeFetchBatch',
  'palosWqeBatch',
  'qpcEntries',
  'mptEntries',
  'mttEntries',
  'recvWqeEntries',
  'processingUnits',
  'ackEveryPackets',
  'rateLimiters',
  'dcqcnFastRecoveries',
]);
const MOST = 1 << 20;
/** Sizes of packets and FIFOs are 32-bit integers. */
const MAX_BYTES: Readonly<Record<string, number>> = {
  headerBytes: 1 << 16,
  rethBytes: 1 << 16,
  ackBytes: 1 << 16,
  egressFifoBytes: 1 << 30,
  palosChunkBytes: 1 << 30,
  palosFifoBytes: 1 << 30,
  palosUrgentBytes: 2 ** 31,
};
const SHARES = new Set([
  'agentLoss',
  'hostJitter',
  'pcieJitter',
  'palosUrgentShare',
  'rateError',
  'ecnPmax',
  'dcqcnG',
]);
/** Path MTUs of verbs and of Ethernet. */
const MTUS = [256, 512, 1024, 1500, 2048, 4096];

/** A copy of `base` with these changes. @throws ConfigError for an unknown name or an invalid value */
export function override(base: Readonly<NicParams>, changes: Readonly<Record<string, unknown>>): NicParams {
  const params: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(changes)) {
    if (!Object.hasOwn(params, name)) {
      const names = Object.keys(base);
      throw new ConfigError(
        `a profile has no '${name}'; ${didYouMean(name, names)}its parameters are ${names.join(', ')}`,
      );
    }
    requireValue(name, value);
    params[name] = value;
  }
  // What Tassel is about: every queue pair has a limiter, which is exact and changes at once.
  if (params.rateLimiter === 'tassel') {
    Object.assign(params, { rateLimiters: Number.POSITIVE_INFINITY, rateError: 0, rateChangeNs: 0 });
  }
  const result = params as unknown as NicParams;
  if (result.rateLimiter === 'tassel' && result.scheduler === 'palos') {
    throw new ConfigError(
      'rateLimiter tassel and scheduler palos exclude each other, because both order queue pairs; choose one of them',
    );
  }
  if (result.scheduler === 'greedy' && result.puHoldBytes === 0) {
    throw new ConfigError(
      'scheduler greedy requires puHoldBytes above 0, the bytes for which a unit keeps its queue pair',
    );
  }
  return result;
}

/** COORDINATOR_COSTS with these changes. @throws ConfigError for an unknown name or an invalid value */
export function overrideCoordinator(changes: Readonly<Record<string, unknown>>): CoordinatorCosts {
  const costs: Record<string, number> = { ...COORDINATOR_COSTS };
  for (const [name, value] of Object.entries(changes)) {
    if (!Object.hasOwn(costs, name)) {
      throw new ConfigError(
        `the coordinator has no '${name}'; its parameters are ${Object.keys(costs).join(', ')}`,
      );
    }
    if (typeof value !== 'number' || !(value >= 0 && Number.isFinite(value))) {
      throw new ConfigError(`${name} must be a finite number of at least 0, got ${shown(value)}`);
    }
    costs[name] = value;
  }
  return costs as unknown as CoordinatorCosts;
}

function requireValue(name: string, value: unknown): void {
  const words = WORDS[name];
  if (words !== undefined) {
    if (typeof value === 'string' && words.includes(value)) return;
    throw new ConfigError(`${name} must be one of ${words.join(', ')}, got ${shown(value)}`);
  }
  if (name === 'etsWeights') {
    if (
      Array.isArray(value) &&
      value.length > 0 &&
      value.every((weight) => Number.isFinite(weight) && weight > 0)
    )
      return;
    throw new ConfigError(`etsWeights must be numbers above 0, one per class, such as 16,1`);
  }
  if (typeof value !== 'number' || Number.isNaN(value) || value < 0 || (value === 0 && POSITIVE.has(name))) {
    throw new ConfigError(
      `${name} must be a number ${POSITIVE.has(name) ? 'above 0' : 'of at least 0'}, got ${shown(value)}`,
    );
  }
  if (SHARES.has(name) && value > 1)
    throw new ConfigError(`${name} must be a share from 0 to 1, got ${shown(value)}`);
  if (name === 'blueFlame' && value > 1) throw new ConfigError('blueFlame must be 1 or 0');
  if (name === 'mtuBytes' && !MTUS.includes(value)) {
    throw new ConfigError(`mtuBytes must be one of ${MTUS.join(', ')}, got ${shown(value)}`);
  }
  requireSize(name, value);
}

/** Rejects values with which a run would hang or exhaust memory. */
function requireSize(name: string, value: number): void {
  if (COUNTS.has(name) && value !== Number.POSITIVE_INFINITY && !(Number.isInteger(value) && value <= MOST))
    throw new ConfigError(`${name} must be a whole number up to ${MOST}, or Infinity, got ${shown(value)}`);
  if ((name === 'pageBytes' || name === 'pciePayloadBytes') && value < 64)
    throw new ConfigError(`${name} must be at least 64, got ${shown(value)}`);
  if (Object.hasOwn(MAX_BYTES, name) && !(Number.isInteger(value) && value <= MAX_BYTES[name]))
    throw new ConfigError(`${name} must be a whole number up to ${MAX_BYTES[name]}, got ${shown(value)}`);
}
