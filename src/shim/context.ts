/** An open context, as a shim knows it. */
import { IsoverbsError } from '../verbs/errors.ts';
import type { NicFacts } from '../verbs/nic.ts';
import type { Provider } from '../verbs/provider.ts';
import { COLUMNS } from './counters.ts';
import { Sample } from './latency-probe.ts';
import type { Limiter } from './limiter.ts';
import type { ContextView } from './policy.ts';
import type { ShimQp } from './qp-ledger.ts';
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
  /** Another shim around this one tells the coordinator what the application does, and keeps its limits. */
  isInner = false;
  /** Queue pairs that the shim knows; what those have counted that are gone. */
  readonly qps = new Set<ShimQp>();
  readonly gone = new Float64Array(COLUMNS);
  readonly sample: Sample;
  /** Null: it may post as many requests as it likes. */
  limiter: Limiter | null = null;
  /** GIDs of its ports, by number of the port and index, as far as they were asked for. */
  private readonly gids = new Map<string, string>();

  constructor(fields: {
    index: number;
    handle: number;
    device: string;
    tenant: string;
    nic: NicFacts | null;
    maxQpWr: number;
    maxCqe: number;
    watch(isWatched: boolean): void;
  }) {
    this.index = fields.index;
    this.handle = fields.handle;
    this.device = fields.device;
    this.tenant = fields.tenant;
    this.nic = fields.nic;
    this.maxQpWr = fields.maxQpWr;
    this.maxCqe = fields.maxCqe;
    this.sample = new Sample(fields.watch);
  }

  /** A GID of a port; '': the device does not say. */
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

function orEmpty(ask: () => string): string {
  try {
    return ask();
  } catch (error) {
    if (error instanceof IsoverbsError) return '';
    throw error;
  }
}
