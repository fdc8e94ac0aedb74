/**
 * The rate limiters of a NIC's hardware. A queue pair that is limited has one for itself, there are so many and no
 * more, the rate of each is off by a share of its own that never changes, and a change takes a while to take effect.
 */
import { ENOMEM } from '../../verbs/constants.ts';
import { NoResourcesError } from '../../verbs/errors.ts';
import { EV_RATE } from '../kernel/event-kinds.ts';
import type { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';
import type { Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { RatePacer, setPacer } from './rate-pacing.ts';

/** One of them, and what it was told last. */
export interface Limiter {
  /** Its real rate, as a share of what it is told. */
  readonly factor: number;
  inUse: boolean;
  kbps: number;
  burstBytes: number;
  /** How often it was told something: of changes that overtake one another the last one counts. */
  changes: number;
}

/** Those of one host. */
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

  /** Whether one is free. */
  get hasFree(): boolean {
    return this.made.length < this.count || this.made.some(({ inUse }) => !inUse);
  }

  /** Takes the first free one. @throws NoResourcesError all are in use */
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
 * Tells the limiter of a queue pair another rate, in 1000 bits a second (0: none any more). It has the old one for
 * rateChangeNs yet. @throws NoResourcesError it had none so far, and none is free
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

/** A change takes effect, unless it was overtaken. */
export function onRate(world: World, qp: Qp, change: number): void {
  if (qp.limiter !== null && qp.limiter.changes === change) apply(world, qp, qp.limiter);
}

function apply(world: World, qp: Qp, limiter: Limiter): void {
  const { kbps, burstBytes, factor } = limiter;
  if (kbps === 0) freeLimiter(qp);
  setPacer(world, qp, kbps === 0 ? null : new RatePacer(kbps * factor, burstBytes, world.clock[0]));
}

/** The queue pair needs its limiter no more. */
export function freeLimiter(qp: Qp): void {
  if (qp.limiter === null) return;
  qp.limiter.inUse = false;
  qp.limiter = null;
}
