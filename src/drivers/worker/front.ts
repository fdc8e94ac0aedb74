/**
 * The worker driver. The shim with its policy runs in a separate thread, and this thin front takes its
 * place in the application's thread. Control verbs are calls to the worker; sends that a policy must shape go
 * there through shared memory; everything else goes straight to the device. See docs/architecture.md.
 */
import { availableParallelism } from 'node:os';
import { policiesText } from '../../policies/policy-text.ts';
import { requirePinThread } from '../../providers/rdma-core/addon.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { noLatency } from '../../shim/counters.ts';
import { type Gate, gateOfAll } from '../../shim/gate.ts';
import { twinsOnly } from '../../shim/peer/twins.ts';
import type { ContextView } from '../../shim/policy.ts';
import {
  IBV_EVENT_QP_FATAL,
  IBV_QP_STATE,
  IBV_QPS_ERR,
  IBV_QPS_RESET,
  ISO_WR_ENABLE,
} from '../../verbs/constants.ts';
import { ConfigError, requireOptions, shown, UnsupportedError } from '../../verbs/errors.ts';
import { handleIndex } from '../../verbs/handles.ts';
import { DEFAULT_LABELS, LABEL_BITS, type Labels, maskedLabels, withLabels } from '../../verbs/labels.ts';
import type { LayerCounters, PeerVerbs, Provider, SampledLatency } from '../../verbs/provider.ts';
import type {
  AsyncListener,
  CompletionListener,
  CqInfo,
  CqOptions,
  OpenOptions,
  QpAttr,
  QpInfo,
  QpInitAttr,
} from '../../verbs/types.ts';
import { MR_VERBS, RING_VERBS, type Verbs } from '../../verbs/verbs.ts';
import { DeviceServer } from './device-server.ts';
import { FrontData } from './front-data.ts';
import { FrontCq, FrontQp } from './front-objects.ts';
import { hasPreload, type LinkHost, WorkerLink } from './link.ts';
import { loadPolicy, underCurrentNames } from './policies.ts';
import {
  CALL_SYNC,
  type PolicySpec,
  type WorkerEvent,
  type WorkerReady,
  type WorkerSetup,
} from './protocol.ts';

/** How long an idle worker polls for work before it sleeps; shorter where few CPUs are left for others. */
const SPIN_NS = availableParallelism() > 2 ? 200_000 : 50_000;

/**
 * Verbs that the front implements whatever other interceptors override: the hot verbs, and memory, which
 * cannot be passed between threads. Two shims therefore connect twins only, and SENDs are not split.
 */
const OWN_VERBS = new Set<string>([...RING_VERBS, ...MR_VERBS]);

/** Verbs that must work after the worker's death, so that everything can be queried and closed. */
const AFTER_DEATH = /^(close|dealloc|destroy|query|watch)/;

/**
 * Functions and symbols cannot cross to the worker. They are no valid arguments, so the provider reports the
 * error.
 */
function canCross(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false;
  return typeof value !== 'object' || value === null || Object.values(value).every(canCross);
}

/** Options of the worker thread. */
export interface WorkerDriverOptions {
  /**
   * How long the worker polls, in nanoseconds up to 1e9: after the last work, and before a timer for which requests are
   * held. Default: 200,000; 50,000 with two CPUs or fewer.
   */
  spinNs?: number;
  /** The CPU for the worker. Requires Linux and the native addon. Default: chosen by the system. */
  cpu?: number;
}

/** The limit in native/addon.cc. */
const MAX_CPUS = 65_536;

/** @throws ConfigError for an impossible CPU number; only the worker can tell whether it may use the CPU */
export function requireCpu(cpu: unknown, source: string): number {
  if (typeof cpu === 'number' && Number.isInteger(cpu) && cpu >= 0 && cpu < MAX_CPUS) return cpu;
  throw new ConfigError(
    `${source}: cpu: must be a whole number from 0 to ${MAX_CPUS - 1}, got ${shown(cpu)}`,
  );
}

/** The longest time that makes sense, in nanoseconds: the worker never sleeps. */
const MAX_SPIN_NS = 1e9;

/** @throws ConfigError for an impossible time */
export function requireSpin(spinNs: unknown, source: string): number {
  if (typeof spinNs === 'number' && spinNs >= 0 && spinNs <= MAX_SPIN_NS) return spinNs;
  throw new ConfigError(
    `${source}: spinNs: must be a number of nanoseconds from 0 to ${MAX_SPIN_NS}, got ${shown(spinNs)}`,
  );
}

/**
 * Creates an interceptor that runs these policies, outermost first, in a worker thread.
 * @throws ConfigError for a policy that cannot be created, UnsupportedError for a CPU without the native
 * addon
 */
export function workerDriver(
  policies: readonly PolicySpec[],
  options: WorkerDriverOptions = {},
): Interceptor {
  if (policies.length === 0) throw new ConfigError("driver 'worker': no policy is given");
  const { cpu, spinNs = SPIN_NS } = options;
  requireSpin(spinNs, 'driver worker');
  if (cpu !== undefined) {
    requireCpu(cpu, 'driver worker');
    requirePinThread();
  }
  const loaded = policies.map(loadPolicy);
  return {
    name: loaded.map(({ name }) => name).join('+'),
    spec: policiesText(policies),
    wrap: (next) =>
      new Front(next, [...policies], loaded, { spinNs, ...(cpu !== undefined && { cpu }) }).verbs(),
  };
}

/** A context whose labels may change. */
interface FrontContext extends ContextView {
  labels: Labels;
}

class Front {
  private readonly next: Provider;
  private link: WorkerLink;
  private readonly setup: WorkerSetup;
  private readonly contexts = new Map<number, FrontContext>();
  private released = false;
  /** The counters as of the closing of the last context. */
  private lastCounters: LayerCounters[] = [];
  private readonly data: FrontData;
  private readonly deviceServer: DeviceServer;
  private readonly ready: WorkerReady;
  /**
   * Whether the device can be called only from this thread, so that the worker advances whenever the application calls.
   */
  private readonly lockstep: boolean;
  private readonly completionListeners = new Map<number, CompletionListener>();
  private readonly asyncListeners = new Map<number, AsyncListener>();
  /** Channels and contexts whose listeners keep the process alive. */
  private readonly keepAliveHandles = new Set<number>();
  private readonly host: LinkHost = {
    serve: () => this.deviceServer.serve(),
    onEvent: (what) => this.deliver(what),
    ended: (reason) => this.ended(reason),
  };
  private isSyncScheduled = false;
  private isDeliveryScheduled = false;

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
    const { link, ready } = WorkerLink.acquire(this.setup, this.host);
    this.link = link;
    this.ready = ready;
    this.deviceServer = new DeviceServer(next, link, (of, event, args) => this.deviceEvent(of, event, args));
    this.data = new FrontData(next, link, gateFor(loaded, next), this.lockstep, {
      posted: () => this.scheduleSync(),
      fail: (qp) => this.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE),
    });
  }

  verbs(): ReturnType<Interceptor['wrap']> {
    const { data, next } = this;
    const forwarded = this.ready.verbs.filter((verb) => !OWN_VERBS.has(verb));
    const calls = forwarded.map((verb) => [verb, (...args: unknown[]) => this.call(verb, args)]);
    const verbs = Object.fromEntries(calls) as Partial<Verbs> & PeerVerbs;
    return {
      ...verbs,
      ...(verbs.setPeer !== undefined && twinsOnly(next, verbs)),
      wait: this.ready.wait,
      counters: () => this.counters(),
      sampleLatency: () =>
        this.released || this.link.dead
          ? noLatency()
          : (this.link.call({ sampleLatency: true }) as SampledLatency),
      configurePolicy: (name, changes) => this.configure(name, changes),
      openDevice: (name, options) => this.openDevice(name, options),
      createCq: (context, cqe, channel, options) => this.createCq(context, cqe, channel, options),
      destroyCq: (cq) => this.destroyCq(cq),
      resizeCq: (cq, cqe) => this.resizeCq(cq, cqe),
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      destroyQp: (qp) => this.destroyQp(qp),
      setLabels: (context, change) => this.setLabels(context, change),
      closeDevice: (context) => this.closeDevice(context),
      watchCompChannel: (channel, listener) =>
        this.watch('watchCompChannel', this.completionListeners, channel, listener),
      watchAsyncEvents: (context, listener) =>
        this.watch('watchAsyncEvents', this.asyncListeners, context, listener),
      destroyCompChannel: (channel) => {
        this.call('destroyCompChannel', [channel]);
        this.completionListeners.delete(channel);
        this.setKeepAlive(channel, false);
      },
      refCompChannel: (channel, keepAlive) => this.refEvents('refCompChannel', channel, keepAlive),
      refAsyncEvents: (context, keepAlive) => this.refEvents('refAsyncEvents', context, keepAlive),
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
    // With no context open, any handle is invalid, and the provider reports that.
    if (this.released || (this.link.dead && AFTER_DEATH.test(verb)) || !args.every(canCross)) {
      return (this.next[verb as keyof Verbs] as ((...args: unknown[]) => unknown) | undefined)?.(...args);
    }
    const value = this.link.call({ verb, args });
    if (this.lockstep) this.scheduleDelivery();
    return value;
  }

  /** Only the front has seen the sends that bypassed the worker. */
  private counters(): LayerCounters[] {
    if (this.released || this.link.dead) return this.lastCounters;
    const layers = this.link.call({ counters: true }) as LayerCounters[];
    if (layers.length > 0) layers[0].seen += this.data.straight[0];
    return layers;
  }

  /** Validated here first, because a policy in a worker must not refuse posts. */
  private configure(name: string, changes: Readonly<Record<string, unknown>>): void {
    const { policies } = this.setup;
    if (!policies.some((policy) => policy.name === name)) {
      if (this.next.configurePolicy === undefined) throw new ConfigError(`policy '${name}' is not active`);
      this.next.configurePolicy(name, changes);
      return;
    }
    const current = underCurrentNames(name, { ...requireOptions(name, changes) });
    const changed = policies.map((policy) =>
      policy.name === name ? { ...policy, options: { ...policy.options, ...current } } : policy,
    );
    gateFor(changed.map(loadPolicy), this.next);
    if (!this.released) this.link.call({ configure: name, changes: current });
    this.setup.policies = changed;
  }

  private createCq(context: number, cqe: number, channel: number, options?: CqOptions): CqInfo {
    const info = this.call('createCq', [context, cqe, channel, options]) as CqInfo;
    const cq = new FrontCq(info.handle, this.contextView(context), info.cqe);
    this.data.cqs[handleIndex(info.handle)] = cq;
    this.link.call({ queue: { cq: info.handle, words: cq.queue } });
    if (this.data.gate?.limitsCompletions === true) this.data.claim(cq);
    return info;
  }

  private resizeCq(handle: number, cqe: number): number {
    const cq = this.data.cq(handle);
    // The shim must see the waiting completions, and keeps them.
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
    // Like the shim, the front does not track queue pairs that it does not shape.
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
    if ((mask & LABEL_BITS) !== 0) qp?.relabel(maskedLabels(attr, mask));
    if (qp === undefined || (mask & IBV_QP_STATE) === 0) return;
    qp.state = attr.qpState ?? qp.state;
    if (attr.qpState === IBV_QPS_RESET) this.data.purge(qp);
  }

  private destroyQp(handle: number): void {
    this.call('destroyQp', [handle]);
    const qp = this.data.qp(handle);
    if (qp === undefined) return;
    this.data.purge(qp);
    this.data.qps[qp.index] = undefined;
  }

  /** The worker exists while a context is open. */
  private openDevice(name: string, options?: OpenOptions): number {
    if (this.released) {
      const { link } = WorkerLink.acquire(this.setup, this.host);
      this.link = link;
      this.data.link = link;
      this.deviceServer.link = link;
      this.released = false;
    }
    try {
      const handle = this.call('openDevice', [name, options]) as number;
      const tenant = options?.tenant ?? '';
      const nic = this.next.describeNic?.(handle) ?? null;
      const labels = withLabels(DEFAULT_LABELS, options?.labels ?? {});
      this.contexts.set(handle, contextOf(handle, name, tenant, nic, labels));
      return handle;
    } catch (error) {
      this.releaseIfIdle();
      throw error;
    }
  }

  private contextView(handle: number): ContextView {
    return this.contexts.get(handle) ?? contextOf(handle, '', '', null, DEFAULT_LABELS);
  }

  private setLabels(handle: number, change: Partial<Labels>): Labels {
    const labels = this.call('setLabels', [handle, change]) as Labels;
    const context = this.contexts.get(handle);
    if (context !== undefined) context.labels = labels;
    for (const qp of this.data.qps) if (qp?.context === context) qp?.relabel({});
    return labels;
  }

  private releaseIfIdle(): void {
    if (this.contexts.size > 0) return;
    this.lastCounters = this.link.dead ? [] : this.counters();
    this.released = true;
    this.link.release();
  }

  private closeDevice(context: number): void {
    if (!this.released && this.link.dead) this.deviceServer.closeChannels(context);
    this.call('closeDevice', [context]);
    if (this.contexts.delete(context)) this.releaseIfIdle();
    this.asyncListeners.delete(context);
    this.setKeepAlive(context, false);
  }

  private watch<T>(
    verb: 'watchCompChannel' | 'watchAsyncEvents',
    all: Map<number, T>,
    of: number,
    listener: T | null,
  ): void {
    if (listener !== null && typeof listener !== 'function') {
      // The provider reports what is wrong with the listener.
      (this.next[verb] as (of: number, listener: unknown) => void)(of, listener);
      return;
    }
    if (listener === null) all.delete(of);
    else all.set(of, listener);
    this.call(verb, [of, listener === null ? null : true]);
  }

  private refEvents(verb: 'refCompChannel' | 'refAsyncEvents', of: number, keepAlive: boolean): void {
    if (this.lockstep) {
      this.next[verb](of, keepAlive);
      return;
    }
    this.setKeepAlive(of, keepAlive);
  }

  private setKeepAlive(of: number, keepAlive: boolean): void {
    if (keepAlive) this.keepAliveHandles.add(of);
    else this.keepAliveHandles.delete(of);
    this.link.keepAlive(this.keepAliveHandles.size > 0);
  }

  /**
   * The application may not call again soon, so posted requests are processed in the next idle iteration at
   * the latest.
   */
  private scheduleSync(): void {
    if (!this.lockstep || this.isSyncScheduled) return;
    this.isSyncScheduled = true;
    setImmediate(() => {
      this.isSyncScheduled = false;
      if (this.released || this.link.dead) return;
      this.link.callWords(CALL_SYNC, 0, 0);
      this.deliverEvents();
    });
  }

  /** An event that the worker listens to occurred in this thread. */
  private deviceEvent(of: number, event: 'completion' | 'async' | 'slept', args: number[]): void {
    if (this.released || this.link.dead) return;
    this.link.call(event === 'slept' ? { slept: of } : { event, of, args });
    this.deliverEvents();
  }

  /**
   * Delivers events that the worker sent during a call, later: listeners are never called within the
   * application's own calls.
   */
  private scheduleDelivery(): void {
    if (this.isDeliveryScheduled) return;
    const first = this.link.takeEvent();
    if (first === undefined) return;
    this.isDeliveryScheduled = true;
    queueMicrotask(() => {
      this.isDeliveryScheduled = false;
      this.deliverEvents(first);
    });
  }

  private deliverEvents(first = this.link.takeEvent()): void {
    for (let what = first; what !== undefined; what = this.link.takeEvent()) {
      try {
        this.deliver(what);
      } catch (error) {
        // Delivers the remaining events in a separate iteration. The error belongs to the program and
        // stays uncaught.
        setImmediate(() => this.deliverEvents());
        throw error;
      }
    }
  }

  private deliver(what: WorkerEvent): void {
    if ('serve' in what) {
      this.link.serve();
      return;
    }
    const { event, of, args } = what;
    if (event === 'completion') this.completionListeners.get(of)?.(args[0]);
    else this.asyncListeners.get(of)?.(args[0], args[1]);
  }

  /** The worker is gone: queue pairs with shaped requests fail, and their listeners are notified. */
  private ended(reason: string): void {
    process.emitWarning(`the worker thread that runs a policy has ended: ${reason}`, {
      code: 'ISO_ERR_DRIVER',
    });
    for (const qp of this.data.qps) {
      if (qp?.isShaped !== true) continue;
      try {
        this.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
      } catch {
        // Its state did not allow it.
      }
      const context = qp.context.handle;
      const { handle } = qp;
      setImmediate(() => this.asyncListeners.get(context)?.(IBV_EVENT_QP_FATAL, handle));
    }
  }
}

function contextOf(
  handle: number,
  device: string,
  tenant: string,
  nic: ContextView['nic'],
  labels: Labels,
): FrontContext {
  return { index: handleIndex(handle), handle, device, tenant, nic, labels };
}

/**
 * The part of the policies that decides in the application's thread. Null if a policy has none; then
 * everything is shaped.
 */
function gateFor(loaded: readonly Interceptor[], next: Provider): Gate | null {
  const gates = loaded.map((interceptor) => interceptor.gate?.(next.wait));
  const limiting = loaded.find((_, i) => gates[i]?.limits === true);
  if (limiting !== undefined) {
    throw new UnsupportedError(
      `driver 'worker': policy '${limiting.name}' refuses posts (admit), which only the inline driver supports; use the driver 'inline'`,
    );
  }
  if (gates.includes(undefined)) return null;
  const gate = gateOfAll(gates as Gate[]);
  // Sends are counted and limited in the worker, so none may bypass it.
  return hasPreload() ? { ...gate, straight: () => 0 } : gate;
}
