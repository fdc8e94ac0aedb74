/** An open context, as a shim knows it. */
import type { NicFacts } from '../verbs/nic.ts';
import type { ContextView } from './policy.ts';
import type { Resource, TwinOptions } from './resources.ts';

export class ShimContext implements ContextView {
  readonly index: number;
  readonly handle: number;
  readonly device: string;
  readonly tenant: string;
  readonly nic: NicFacts | null;
  readonly maxQpWr: number;
  readonly maxCqe: number;
  /** Channel of the CQs that the application made without one, and of resources; 0: none yet. */
  ownChannel = 0;
  /** The application's objects that keep it open, its CQs among them. */
  children = 0;
  /** Queue pairs that may send and hold requests, or have internal ones that the policy waits for. */
  waiting = 0;
  /** Of the policy, in the order of declaration. */
  readonly resources: Resource[] = [];
  /** What each reliable connection gets, by kind. */
  readonly twinKinds: TwinOptions[] = [];
  /** Ends the coordinator's subscription. */
  unsubscribe: (() => void) | null = null;
  /** Timers, the soonest last. */
  readonly timesNs: number[] = [];
  readonly tokens: number[] = [];
  /** Whether they may be late. */
  readonly relaxed: boolean[] = [];
  /** The soonest time that a sleep ends which a simulated run waits for, and of one that it does not. */
  runSleepNs = Number.POSITIVE_INFINITY;
  idleSleepNs = Number.POSITIVE_INFINITY;
  closed = false;

  constructor(fields: {
    index: number;
    handle: number;
    device: string;
    tenant: string;
    nic: NicFacts | null;
    maxQpWr: number;
    maxCqe: number;
  }) {
    this.index = fields.index;
    this.handle = fields.handle;
    this.device = fields.device;
    this.tenant = fields.tenant;
    this.nic = fields.nic;
    this.maxQpWr = fields.maxQpWr;
    this.maxCqe = fields.maxCqe;
  }
}
