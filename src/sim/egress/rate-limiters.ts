/**
 * Hardware rate limiters of a NIC. Each limited queue pair occupies one of a fixed number. The actual rate of
 * a limiter deviates by a constant factor, and a change takes effect after a delay.
 */
import { ENOMEM } from '../../verbs/constants.ts';
import { NoResourcesError } from '../../verbs/errors.ts';
import { EV_RATE } from '../kernel/event-kinds.ts';
import type { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';
import type { Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { LeakyBucket } from './rate-limiter.ts';
import { setPacer } from './rate-pacing.ts';

/** A limiter and its latest setting. */
export interface Limiter {
  /** Actual rate divided by the configured rate. */
  readonly factor: number;
  inUse: boolean;
  kbps: number;
  burstBytes: number;
  /** Number of settings so far: when several are pending, only the last takes effect. */
  changes: number;
}

/** The limiters of one host. */
export class Limiters {
  private readonly count: number;
  private readonly error: number;
  private readonly random: RandomStream;
  private readonly made: Limiter[] = [];

  constructor(params: Readonly<NicParams>, random: RandomStream) {
    this.count = params.rateLimiters;
    this.error = params.rateError;
    this.random = random;
  }

  /** Whether a limiter is free. */
  get hasFree(): boolean {
    return this.made.length < this.count || this.made.some(({ inUse }) => !inUse);
  }

  /** Takes the first free limiter. @throws NoResourcesError when all are in use */
  take(): Limiter {
    if (!this.hasFree) {
      throw new NoResourcesError(`all ${this.count} rate limiters of the device are in use`, {
        errno: ENOMEM,
      });
    }
    let limiter = this.made.find(({ inUse }) => !inUse);
    if (limiter === undefined) {
      const factor = this.error === 0 ? 1 : 1 + this.error * (2 * this.random.next() - 1);
      limiter = { factor, inUse: false, kbps: 0, burstBytes: 0, changes: 0 };
      this.made.push(limiter);
    }
    limiter.inUse = true;
    return limiter;
  }
}

/**
 * Changes the rate of a queue pair, in units of 1000 bit/s (0: no limit). The old rate applies for another
 * rateChangeNs. @throws NoResourcesError when the queue pair has no limiter and none is free
 */
export function changeRate(world: World, qp: Qp, kbps: number, burstBytes: number): void {
  if (qp.limiter === null) {
    if (kbps === 0) return;
    qp.limiter = world.hosts[qp.host].limiters.take();
  }
  const { limiter } = qp;
  limiter.kbps = kbps;
  limiter.burstBytes = burstBytes;
  limiter.changes = (limiter.changes + 1) | 0;
  const { rateChangeNs } = world.params;
  if (rateChangeNs === 0) {
    apply(world, qp, limiter);
    return;
  }
  world.events.due[0] = world.clock[0] + rateChangeNs;
  world.events.push(EV_RATE, qp.qpn, limiter.changes, qp.epoch);
}

/** A change takes effect unless a later one superseded it. */
export function onRate(world: World, qp: Qp, change: number): void {
  if (qp.limiter !== null && qp.limiter.changes === change) apply(world, qp, qp.limiter);
}

function apply(world: World, qp: Qp, limiter: Limiter): void {
  const { kbps, burstBytes, factor } = limiter;
  if (kbps === 0) freeLimiter(qp);
  const tags = world.tagsOf(qp);
  if (tags !== null) {
    tags.limit(qp, kbps);
    return;
  }
  setPacer(world, qp, kbps === 0 ? null : new LeakyBucket(kbps * factor, burstBytes, world.clock[0]));
}

/** A queue pair is reset or destroyed: its limiter is free, and its tags are gone. */
export function endPacing(world: World, qp: Qp): void {
  freeLimiter(qp);
  world.tagsOf(qp)?.release(qp);
}

/** Returns the limiter of a queue pair. */
function freeLimiter(qp: Qp): void {
  if (qp.limiter === null) return;
  qp.limiter.inUse = false;
  qp.limiter = null;
}
