/**
 * The worker driver: the shim with its policy runs in a thread of its own, and this thin front stands in its place
 * beside the application. Control verbs are calls to the worker; what a policy has to shape goes there through
 * shared memory; everything else goes straight to the device. See docs/architecture.md.
 */
import { availableParallelism } from 'node:os';
import { requirePinThread } from '../../providers/rdma-core/addon.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { type Gate, gateOfAll } from '../../shim/gate.ts';
import type { ContextView } from '../../shim/policy.ts';
import {
  IBV_EVENT_QP_FATAL,
  IBV_QP_STATE,
  IBV_QPS_ERR,
  IBV_QPS_RESET,
  ISO_WR_ENABLE,
} from '../../verbs/constants.ts';
import { ConfigError, shown, UnsupportedError } from '../../verbs/errors.ts';
import { handleIndex } from '../../verbs/handles.ts';
import {
  type AsyncListener,
  type CompletionListener,
  type CqInfo,
  type CqOptions,
  type LayerCounters,
  MR_VERBS,
  type OpenOptions,
  type Provider,
  type QpAttr,
  type QpInfo,
  type QpInitAttr,
  RING_VERBS,
  type Verbs,
} from '../../verbs/provider.ts';
import { FrontData } from './front-data.ts';
import { FrontCq, FrontQp } from './front-objects.ts';
import { isPreloaded, Link, type LinkHost } from './link.ts';
import { loadPolicy } from './policies.ts';
import { CALL_SYNC, type PolicySpec, type Tell, type WorkerReady, type WorkerSetup } from './protocol.ts';
import { Served } from './served.ts';

/** How long a worker without work looks for some before it sleeps: not for long on what others could run. */
const SPIN_NS = availableParallelism() > 2 ? 200_000 : 50_000;

/**
 * What the front has itself, whoever else overrides it: the hot verbs, and memory, which cannot be handed from one
 * thread to another. Two shims therefore agree on nothing here, and SENDs go whole.
 */
const OWN = new Set<string>([...RING_VERBS, ...MR_VERBS]);

/** What must work after the worker's death, so that everything can be looked at and closed. */
const AFTER_DEATH = /^(close|dealloc|destroy|query|watch)/;

/** Functions and symbols are no argument of a verb that a worker would have to see: the provider says what is wrong. */
function canCross(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false;
  return typeof value !== 'object' || value === null || Object.values(value).every(canCross);
}

export interface WorkerDriverOptions {
  /** How long a worker without work looks for some before it sleeps. Default 200 us; 50 us with two CPUs or fewer. */
  spinNs?: number;
  /** The worker runs on this CPU alone. Linux, with the native addon. Default: where the system puts it. */
  cpu?: number;
}

/** As many as native/addon.cc takes. */
const MAX_CPUS = 65_536;

/** @throws ConfigError for what can be the number of no CPU; whether there is one, only the worker sees */
export function requireCpu(cpu: unknown, source: string): number {
  if (typeof cpu === 'number' && Number.isInteger(cpu) && cpu >= 0 && cpu < MAX_CPUS) return cpu;
  throw new ConfigError(
    `${source}: cpu: must be a whole number from 0 to ${MAX_CPUS - 1}, got ${shown(cpu)}`,
  );
}

/**
 * Makes an interceptor that runs these policies, outermost first, in a worker thread.
 * @throws ConfigError for a policy that cannot be made, UnsupportedError for a CPU without the native addon
 */
export function workerDriver(
  policies: readonly PolicySpec[],
  options: WorkerDriverOptions = {},
): Interceptor {
  if (policies.length === 0) throw new ConfigError('driver worker: there is no policy to run');
  const { cpu, spinNs = SPIN_NS } = options;
  if (cpu !== undefined) {
    requireCpu(cpu, 'driver worker');
    requirePinThread();
  }
  const loaded = policies.map(loadPolicy);
  return {
    name: loaded.map(({ name }) => name).join('+'),
    wrap: (next) =>
      new Front(next, [...policies], loaded, { spinNs, ...(cpu !== undefined && { cpu }) }).verbs(),
  };
}

class Front {
  private readonly next: Provider;
  private link: Link;
  private readonly setup: WorkerSetup;
  private readonly contexts = new Map<number, ContextView>();
  private released = false;
  /** What was counted until the last context was closed. */
  private counted: LayerCounters[] = [];
  private readonly data: FrontData;
  private readonly served: Served;
  private readonly ready: WorkerReady;
  /** The device is called from this thread only: the worker does a step whenever the application does one. */
  private readonly lockstep: boolean;
  private readonly completionListeners = new Map<number, CompletionListener>();
  private readonly asyncListeners = new Map<number, AsyncListener>();
  /** Channels and contexts whose listening keeps the process alive. */
  private readonly keeping = new Set<number>();
  private readonly host: LinkHost = {
    serve: () => this.served.serve(),
    tell: (what) => this.tell(what),
    ended: (reason) => this.ended(reason),
  };
  private syncing = false;
  private telling = false;

  constructor(
    next: Provider,
    policies: PolicySpec[],
    loaded: readonly Interceptor[],
    thread: Pick<WorkerSetup, 'spinNs' | 'cpu'>,
  ) {
    this.next = next;
    const direct = next.threads === 'any' && next.name === 'rdma-core' && next.interceptors.length === 0;
    this.lockstep = !direct;
    const provider = { name: next.name, wait: next.wait };
    this.setup = { policies, provider, direct, ...thread };
    const { link, ready } = Link.take(this.setup, this.host);
    this.link = link;
    this.ready = ready;
    this.served = new Served(next, link, (of, event, args) => this.deviceEvent(of, event, args));
    this.data = new FrontData(next, link, gateFor(loaded, next), this.lockstep, {
      posted: () => this.syncSoon(),
      fail: (qp) => this.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE),
    });
  }

  verbs(): ReturnType<Interceptor['wrap']> {
    const { data, next } = this;
    const forwarded = this.ready.verbs.filter((verb) => !OWN.has(verb));
    const calls = forwarded.map((verb) => [verb, (...args: unknown[]) => this.call(verb, args)]);
    return {
      ...(Object.fromEntries(calls) as Partial<Verbs>),
      wait: this.ready.wait,
      counters: () => this.counters(),
      configurePolicy: (name, changes) => this.configure(name, changes),
      openDevice: (name, options) => this.openDevice(name, options),
      createCq: (context, cqe, channel, options) => this.createCq(context, cqe, channel, options),
      destroyCq: (cq) => this.destroyCq(cq),
      resizeCq: (cq, cqe) => this.resizeCq(cq, cqe),
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      destroyQp: (qp) => this.destroyQp(qp),
      closeDevice: (context) => this.closeDevice(context),
      watchCompChannel: (channel, listener) =>
        this.watch('watchCompChannel', this.completionListeners, channel, listener),
      watchAsyncEvents: (context, listener) =>
        this.watch('watchAsyncEvents', this.asyncListeners, context, listener),
      destroyCompChannel: (channel) => {
        this.call('destroyCompChannel', [channel]);
        this.completionListeners.delete(channel);
        this.keep(channel, false);
      },
      refCompChannel: (channel, keepAlive) => this.ref('refCompChannel', channel, keepAlive),
      refAsyncEvents: (context, keepAlive) => this.ref('refAsyncEvents', context, keepAlive),
      createWrRing: (capacity, sges, inlineBytes) =>
        data.addRing('wr', next.createWrRing(capacity, sges, inlineBytes)),
      createWcRing: (capacity) => data.addRing('wc', next.createWcRing(capacity)),
      destroyRing: (ring) => {
        next.destroyRing(ring);
        data.removeRing(ring);
      },
      validateSend: (qp, ring, index) => data.validateSend(qp, ring, index),
      postSend: (qp, ring, start, count) => data.postSend(qp, ring, start, count),
      postRecv: (qp, ring, start, count) => data.postRecv(qp, ring, start, count),
      pollCq: (cq, ring, start, max) => data.pollCq(cq, ring, start, max),
    };
  }

  private call(verb: string, args: unknown[]): unknown {
    // Nothing is open: whatever it names is closed, or not of this device, and the provider says so.
    if (this.released || (this.link.dead && AFTER_DEATH.test(verb)) || !args.every(canCross)) {
      return (this.next[verb as keyof Verbs] as (...args: unknown[]) => unknown)(...args);
    }
    const value = this.link.call({ verb, args });
    if (this.lockstep) this.hearSoon();
    return value;
  }

  /** What went straight was seen by nobody but this front. */
  private counters(): LayerCounters[] {
    if (this.released) return this.counted;
    const layers = this.link.call({ counters: true }) as LayerCounters[];
    if (layers.length > 0) layers[0].seen += this.data.straight[0];
    return layers;
  }

  /** What a program asks for is asked of the policies here first: a worker must not refuse posts. */
  private configure(name: string, changes: Readonly<Record<string, unknown>>): void {
    const { policies } = this.setup;
    if (!policies.some((policy) => policy.name === name)) {
      if (this.next.configurePolicy === undefined)
        throw new ConfigError(`there is no policy '${name}' that runs`);
      this.next.configurePolicy(name, changes);
      return;
    }
    const changed = policies.map((policy) =>
      policy.name === name ? { ...policy, options: { ...policy.options, ...changes } } : policy,
    );
    gateFor(changed.map(loadPolicy), this.next);
    if (!this.released) this.link.call({ configure: name, changes: { ...changes } });
    this.setup.policies = changed;
  }

  private createCq(context: number, cqe: number, channel: number, options?: CqOptions): CqInfo {
    const info = this.call('createCq', [context, cqe, channel, options]) as CqInfo;
    const cq = new FrontCq(info.handle, this.contextView(context), info.cqe);
    this.data.cqs[handleIndex(info.handle)] = cq;
    this.link.call({ queue: { cq: info.handle, words: cq.queue } });
    return info;
  }

  private resizeCq(handle: number, cqe: number): number {
    const cq = this.data.cq(handle);
    // The shim has to look at what waits there, and keeps it.
    if (cq !== undefined) this.data.claim(cq);
    return this.call('resizeCq', [handle, cqe]) as number;
  }

  private destroyCq(handle: number): void {
    this.call('destroyCq', [handle]);
    if (this.data.cq(handle) !== undefined) this.data.cqs[handleIndex(handle)] = undefined;
  }

  private createQp(pd: number, attr: QpInitAttr): QpInfo {
    const info = this.call('createQp', [pd, attr]) as QpInfo;
    const sendCq = this.data.cq(attr.sendCq);
    const recvCq = this.data.cq(attr.recvCq);
    // As the shim: what it does not shape, it does not know.
    const isBelow = attr.managed === true && this.data.gate?.executes(ISO_WR_ENABLE) !== true;
    if (sendCq === undefined || recvCq === undefined || isBelow || !(attr.cap.maxSendWr > 0)) return info;
    const qp = new FrontQp(info, attr, sendCq, recvCq);
    this.data.qps[qp.index] = qp;
    this.link.call({ lane: qp.laneInfo() });
    return info;
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    this.call('modifyQp', [handle, attr, mask]);
    const qp = this.data.qp(handle);
    if (qp === undefined || (mask & IBV_QP_STATE) === 0) return;
    qp.state = attr.qpState ?? qp.state;
    if (attr.qpState === IBV_QPS_RESET) this.data.forget(qp);
  }

  private destroyQp(handle: number): void {
    this.call('destroyQp', [handle]);
    const qp = this.data.qp(handle);
    if (qp === undefined) return;
    this.data.forget(qp);
    this.data.qps[qp.index] = undefined;
  }

  /** The worker is there while a context is open. */
  private openDevice(name: string, options?: OpenOptions): number {
    if (this.released) {
      const { link } = Link.take(this.setup, this.host);
      this.link = link;
      this.data.link = link;
      this.served.link = link;
      this.released = false;
    }
    try {
      const handle = this.call('openDevice', [name, options]) as number;
      const tenant = options?.tenant ?? '';
      const nic = this.next.describeNic?.(handle) ?? null;
      this.contexts.set(handle, contextOf(handle, name, tenant, nic));
      return handle;
    } catch (error) {
      this.releaseIfIdle();
      throw error;
    }
  }

  private contextView(handle: number): ContextView {
    return this.contexts.get(handle) ?? contextOf(handle, '', '', null);
  }

  private releaseIfIdle(): void {
    if (this.contexts.size > 0) return;
    this.counted = this.link.dead ? [] : this.counters();
    this.released = true;
    this.link.release();
  }

  private closeDevice(context: number): void {
    if (!this.released && this.link.dead) this.served.closeChannels(context);
    this.call('closeDevice', [context]);
    if (this.contexts.delete(context)) this.releaseIfIdle();
    this.asyncListeners.delete(context);
    this.keep(context, false);
  }

  private watch<T>(
    verb: 'watchCompChannel' | 'watchAsyncEvents',
    all: Map<number, T>,
    of: number,
    listener: T | null,
  ): void {
    if (listener !== null && typeof listener !== 'function') {
      // The provider says what is wrong with it.
      (this.next[verb] as (of: number, listener: unknown) => void)(of, listener);
      return;
    }
    if (listener === null) all.delete(of);
    else all.set(of, listener);
    this.call(verb, [of, listener === null ? null : true]);
  }

  private ref(verb: 'refCompChannel' | 'refAsyncEvents', of: number, keepAlive: boolean): void {
    if (this.lockstep) {
      this.next[verb](of, keepAlive);
      return;
    }
    this.keep(of, keepAlive);
  }

  private keep(of: number, keepAlive: boolean): void {
    if (keepAlive) this.keeping.add(of);
    else this.keeping.delete(of);
    this.link.keepAlive(this.keeping.size > 0);
  }

  /** The application's next step may be far away: what it posted is done in an idle turn at the latest. */
  private syncSoon(): void {
    if (!this.lockstep || this.syncing) return;
    this.syncing = true;
    setImmediate(() => {
      this.syncing = false;
      if (this.released || this.link.dead) return;
      this.link.callWords(CALL_SYNC, 0, 0);
      this.hear();
    });
  }

  /** Something that the worker listens to happened in this thread. */
  private deviceEvent(of: number, event: 'completion' | 'async' | 'slept', args: number[]): void {
    if (this.released || this.link.dead) return;
    this.link.call(event === 'slept' ? { slept: of } : { event, of, args });
    this.hear();
  }

  /** Tells what the worker told during a call: listeners are never called inside the application's own. */
  private hearSoon(): void {
    if (this.telling) return;
    const first = this.link.takeTold();
    if (first === undefined) return;
    this.telling = true;
    queueMicrotask(() => {
      this.telling = false;
      this.hear(first);
    });
  }

  private hear(first = this.link.takeTold()): void {
    for (let what = first; what !== undefined; what = this.link.takeTold()) {
      try {
        this.tell(what);
      } catch (error) {
        // Those behind it are still told, in a turn of their own; the error is the program's, and uncaught like any other.
        setImmediate(() => this.hear());
        throw error;
      }
    }
  }

  private tell(what: Tell): void {
    if ('serve' in what) {
      this.link.serve();
      return;
    }
    const { event, of, args } = what;
    if (event === 'completion') this.completionListeners.get(of)?.(args[0]);
    else this.asyncListeners.get(of)?.(args[0], args[1]);
  }

  /** The worker is gone: what it had shaped is in nobody's hands, so it fails, and who listens is told. */
  private ended(reason: string): void {
    process.emitWarning(`the worker that runs a policy is gone: ${reason}`, { code: 'ISO_ERR_DRIVER' });
    for (const qp of this.data.qps) {
      if (qp?.shaped !== true) continue;
      try {
        this.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
      } catch {
        // It was in no state to fail.
      }
      const context = qp.context.handle;
      const { handle } = qp;
      setImmediate(() => this.asyncListeners.get(context)?.(IBV_EVENT_QP_FATAL, handle));
    }
  }
}

function contextOf(handle: number, device: string, tenant: string, nic: ContextView['nic']): ContextView {
  return { index: handleIndex(handle), handle, device, tenant, nic };
}

/** The half that decides beside the application; null when some policy has none: then everything is shaped. */
function gateFor(loaded: readonly Interceptor[], next: Provider): Gate | null {
  const gates = loaded.map((interceptor) => interceptor.gate?.(next.wait));
  const limiting = loaded.find((_, i) => gates[i]?.limits === true);
  if (limiting !== undefined) {
    throw new UnsupportedError(
      `driver worker: policy '${limiting.name}' refuses posts at once (admit), which only the inline driver can`,
    );
  }
  if (gates.includes(undefined)) return null;
  const gate = gateOfAll(gates as Gate[]);
  // Who counts and limits what is sent does so in the worker: nothing goes past it.
  return isPreloaded() ? { ...gate, straight: () => 0 } : gate;
}
