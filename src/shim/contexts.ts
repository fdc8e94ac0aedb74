/** The open contexts of a shim: what keeps them open, their subscription with the coordinator, and its limits. */
import { ENOMEM } from '../verbs/constants.ts';
import { NoResourcesError } from '../verbs/errors.ts';
import { handleIndex } from '../verbs/handles.ts';
import { DEFAULT_LABELS, type Labels, sameLabels, withLabels } from '../verbs/labels.ts';
import type { PolicyGauge, Provider, SampledLatency } from '../verbs/provider.ts';
import type { OpenOptions } from '../verbs/types.ts';
import { ShimContext } from './context.ts';
import type { CoordinatorPort, Usage } from './coordinator-port.ts';
import { addLatency, noLatency } from './counters.ts';
import type { DeviceEvents } from './device-events.ts';
import type { Events } from './events.ts';
import { type Feeder, LIMITER_TOKENS } from './feeder.ts';
import { ContextGroups } from './groups.ts';
import { Limiter, type LimiterHost } from './limits/limiter.ts';

/** Limiters of tenants whose contexts were closed are kept up to this number. */
const MAX_LIMITERS = 1024;

/** The functions of the shim that contexts use. */
export interface ContextsHost {
  readonly events: Events;
  readonly deviceEvents: DeviceEvents;
  readonly feeder: Feeder;
}

export class Contexts {
  /** The context of each protection domain, completion channel and XRC domain, by handle. */
  readonly pds = new Map<number, ShimContext>();
  readonly channels = new Map<number, ShimContext>();
  readonly xrcds = new Map<number, ShimContext>();
  readonly groups: ContextGroups;
  private readonly next: Provider;
  private readonly coordinator: CoordinatorPort | null;
  private readonly host: ContextsHost;
  private readonly byHandle = new Map<number, ShimContext>();
  /** Contexts whose coordinator is elsewhere, and the one whose turn it is in `pulse`. */
  private readonly remote: ShimContext[] = [];
  private pulsed = 0;
  private readonly closedLatency = noLatency();
  /** By device and tenant. */
  private readonly limiters = new Map<string, Limiter>();
  private readonly limiterHost: LimiterHost = {
    nowNs: ({ handle }) => this.next.nowNs(handle),
    requestsPerS: (context) => this.coordinator?.maxRequestsPerSOf?.(context) ?? Number.POSITIVE_INFINITY,
    tenantRequestsPerS: (context) =>
      this.coordinator?.tenantRequestsPerSOf?.(context) ?? Number.POSITIVE_INFINITY,
    pay: (context, requests) => this.coordinator?.payRequests?.(context, requests),
    setTimer: (context, atNs) =>
      this.host.feeder.timers.set(context, atNs, LIMITER_TOKENS + context.index, false),
    feed: (qp) => this.host.feeder.feed(qp),
  };

  constructor(next: Provider, coordinator: CoordinatorPort | null, host: ContextsHost) {
    this.next = next;
    this.coordinator = coordinator;
    this.host = host;
    this.groups = new ContextGroups(next, coordinator, (context, name, weight) =>
      this.host.feeder.setGroup(context, name, weight),
    );
  }

  get(handle: number): ShimContext | undefined {
    return this.byHandle.get(handle);
  }

  /** The requests that are held, by context with queue pairs that the shim shapes. */
  held(): Omit<PolicyGauge, 'policy'>[] {
    return [...this.byHandle.values()]
      .filter(({ qps }) => qps.size > 0)
      .map((context) => {
        const { device, tenant } = context;
        return { device, tenant, name: 'held', unit: 'requests', value: context.usage().held };
      });
  }

  /** The latencies of all requests sampled so far, those of closed contexts included. Then each context samples another one. */
  sampleLatency(): SampledLatency {
    const total = { sumNs: this.closedLatency.sumNs, buckets: [...this.closedLatency.buckets] };
    for (const { latencyProbe, isInner } of this.byHandle.values()) {
      addLatency(total, latencyProbe);
      if (!isInner) latencyProbe.arm();
    }
    return total;
  }

  /** The limiter of a context may have tokens. */
  serve(index: number): void {
    for (const context of this.byHandle.values()) {
      if (context.index === index) {
        context.limiter?.serve(context);
        return;
      }
    }
  }

  /** Counts an object of the application that keeps its context open. */
  adopt(of: Map<number, ShimContext>, context: number, handle: number): number {
    const state = this.byHandle.get(context);
    if (state !== undefined) {
      state.children++;
      of.set(handle, state);
    }
    return handle;
  }

  /** The object was closed. */
  release(of: Map<number, ShimContext>, handle: number): void {
    const state = of.get(handle);
    if (state !== undefined) state.children--;
    of.delete(handle);
  }

  open(device: string, options?: OpenOptions): number {
    const { coordinator, next } = this;
    const handle = next.openDevice(device, options);
    const { maxQpWr, maxCqe } = next.queryDevice(handle);
    const context = new ShimContext({
      index: handleIndex(handle),
      handle,
      device,
      tenant: options?.tenant ?? '',
      nic: next.describeNic?.(handle) ?? null,
      labels: withLabels(DEFAULT_LABELS, options?.labels ?? {}),
      maxQpWr,
      maxCqe,
      watch: (isWatched) => this.host.feeder.timers.watch(isWatched),
    });
    this.byHandle.set(handle, context);
    try {
      this.host.feeder.setup(context);
      this.groups.open(context, options?.groups ?? {});
      if (coordinator !== null) {
        next.yieldContext?.(handle);
        const granted = () => this.granted(context);
        context.unsubscribe = coordinator.subscribe(context, granted, () => this.usage(context));
        if (coordinator.isRemote?.(context)) this.addRemote(context);
      }
    } catch (error) {
      this.close(handle);
      throw error;
    }
    return handle;
  }

  private addRemote(context: ShimContext): void {
    this.remote.push(context);
    this.host.feeder.timers.pulse(() => this.pulse());
  }

  private removeRemote(context: ShimContext): void {
    const at = this.remote.indexOf(context);
    if (at >= 0) this.remote.splice(at, 1);
    if (this.remote.length === 0) this.host.feeder.timers.pulse(null);
  }

  /** Called between the application's calls: one context exchanges news with its coordinator. */
  private pulse(): void {
    this.pulsed = (this.pulsed + 1) % this.remote.length;
    const context = this.remote[this.pulsed];
    this.coordinator?.pulse?.(context);
    const isLimited = this.limiterHost.requestsPerS(context) < Number.POSITIVE_INFINITY;
    if (isLimited !== (context.limiter !== null)) this.limit(context);
  }

  /** Grants of the context have changed. */
  private granted(context: ShimContext): void {
    this.limit(context);
    this.relabel(context);
    this.groups.granted(context);
    this.host.feeder.granted(context);
  }

  /** Changes labels of a context; its queue pairs follow. */
  setLabels(handle: number, change: Partial<Labels>): Labels {
    const labels = this.next.setLabels(handle, change);
    const context = this.byHandle.get(handle);
    if (context === undefined) return labels;
    context.ownLabels = withLabels(context.ownLabels, change);
    this.relabel(context);
    return context.labels;
  }

  /** The labels of the program or of the coordinator may have changed. */
  private relabel(context: ShimContext): void {
    const given = this.coordinator?.labelsOf?.(context) ?? {};
    const labels = withLabels(context.ownLabels, given);
    if (sameLabels(labels, context.labels)) return;
    const isWeightAlone = sameLabels({ ...context.labels, weight: labels.weight }, labels);
    context.labels = labels;
    this.coordinator?.relabel?.(context);
    this.host.feeder.relabelContext(context, isWeightAlone);
  }

  close(handle: number): void {
    const context = this.byHandle.get(handle);
    const { deviceEvents, events, feeder } = this.host;
    // While the application has children of it, the provider refuses to close it, and the shim's objects stay.
    if (context !== undefined && context.children === 0) {
      feeder.sharing?.close(context);
      feeder.resources.close(context);
      if (context.ownChannel !== 0) {
        this.next.destroyCompChannel(context.ownChannel);
        events.forget(context.ownChannel);
        context.ownChannel = 0;
      }
    }
    this.next.closeDevice(handle);
    if (context === undefined) return;
    context.limiter?.leave(context);
    context.limiter = null;
    context.closed = true;
    context.unsubscribe?.();
    this.removeRemote(context);
    this.groups.close(context);
    context.latencyProbe.end();
    addLatency(this.closedLatency, context.latencyProbe);
    feeder.timers.forget(context);
    feeder.completionLimits?.forget(context);
    this.byHandle.delete(handle);
    deviceEvents.forget(handle);
  }

  /** The shim's own channel, for CQs without one, so that held requests continue while the application is idle. */
  channelOf(context: ShimContext): number {
    if (context.ownChannel === 0) context.ownChannel = this.next.createCompChannel(context.handle);
    return context.ownChannel;
  }

  /** A shim around this one reports this context to the coordinator from now on. */
  yieldContext(handle: number): void {
    const context = this.byHandle.get(handle);
    if (context !== undefined) context.isInner = true;
    this.next.yieldContext?.(handle);
  }

  /**
   * Without a queue pair, a context can send nothing, so its first one waits for the grants of a coordinator elsewhere.
   * @throws NoResourcesError when the coordinator's limit allows no more queue pairs
   */
  checkQpLimit(context: ShimContext): void {
    if (context.qps.size === 0 && this.remote.includes(context)) {
      this.coordinator?.awaitGrants?.(context);
      this.granted(context);
    }
    const most = context.isInner ? undefined : this.coordinator?.maxQpsOf?.(context, context.qps.size + 1);
    if (most === undefined || context.qps.size < most) return;
    const text =
      `createQp: the daemon's limit for this tenant (maxQps) allows this context ${most} queue pairs, and it has ` +
      `${context.qps.size}: close queue pairs of the tenant, or have the limit raised`;
    throw new NoResourcesError(text, { verb: 'createQp', errno: ENOMEM });
  }

  /** Tells the coordinator how many queue pairs a context has. */
  countQps(context: ShimContext): void {
    if (!context.isInner) this.coordinator?.countQps?.(context, context.qps.size);
  }

  /** The coordinator may have set, changed or removed a limit. */
  private limit(context: ShimContext): void {
    const { limiter } = context;
    if (context.isInner || context.closed) return;
    const isLimited = this.limiterHost.requestsPerS(context) < Number.POSITIVE_INFINITY;
    if (limiter !== null) {
      if (!isLimited) context.limiter = null;
      if (isLimited) limiter.limitChanged(context);
      else limiter.end(context);
    } else if (isLimited) {
      for (const qp of context.qps) {
        qp.licensed = qp.appPosted;
        qp.plainBelow = 0;
      }
      const limiter = this.limiterOf(context);
      limiter.join(context);
      context.limiter = limiter;
    }
  }

  /** The limiter of the context's tenant. */
  private limiterOf(context: ShimContext): Limiter {
    const { device, tenant, handle } = context;
    const name = this.coordinator?.tenantOf?.(context) ?? tenant;
    const key = `${device}\0${name === '' ? `#${handle}` : name}`;
    const known = this.limiters.get(key);
    if (known !== undefined) return known;
    for (const [other, { isUnused }] of this.limiters) {
      if (this.limiters.size < MAX_LIMITERS) break;
      if (isUnused) this.limiters.delete(other);
    }
    const limiter = new Limiter(this.next.nowNs(handle), this.limiterHost);
    this.limiters.set(key, limiter);
    return limiter;
  }

  /** The context's counts. The latency of its next request will be part of the next answer. */
  private usage(context: ShimContext): Usage | null {
    if (context.isInner) return null;
    context.latencyProbe.arm();
    return context.usage();
  }
}
