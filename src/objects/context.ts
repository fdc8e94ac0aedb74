import {
  type BatchOptions,
  type DeviceAttr,
  type DeviceAttrEx,
  type GidEntry,
  InvalidArgumentError,
  InvalidHandleError,
  type OpenOptions,
  type PortAttr,
  type Provider,
  RecvBatch,
  type RingVerbs,
  type RtValues,
  requireKnown,
  SendBatch,
  shown,
  WcBatch,
} from '../verbs/index.ts';
import { type AsyncEvent, AsyncEvents, type ContextEvents, type EventSubject } from './async-events.ts';
import { CompletionChannel } from './completion-channel.ts';
import { CompletionQueue, type CompletionQueueOptions } from './completion-queue.ts';
import { EmittingResource, type EventSource, type EventsOptions } from './emitting-resource.ts';
import { gidAt, preferredGid, usedGids } from './gids.ts';
import { ProtectionDomain, type ProtectionDomainOptions } from './protection-domain.ts';
import { packedLabels } from './qp-creation.ts';
import type { ContextLabels } from './qp-options.ts';
import { type LeakRecord, unwatchLeak, watchForLeak } from './resource.ts';
import { XrcDomain } from './xrc-domain.ts';

/** Options of a context. */
export interface ContextOptions {
  /** Tenant that the context works for. Default: each context is a separate tenant. */
  tenant?: string;
  /** What policies should know of it and of its queue pairs. */
  labels?: ContextLabels;
  /** Groups that it creates (createGroup), with their weights. */
  groups?: Readonly<Record<string, number>>;
}

/** Connections and listeners, which a context closes before everything else. */
export interface Service {
  close(): void;
}

const BATCH_OPTIONS = ['capacity', 'sges', 'inlineBytes'];

const BATCHES = { SendBatch, RecvBatch, WcBatch };
type Batch = SendBatch | RecvBatch | WcBatch;

/**
 * An open device (ibv_open_device(3)). All other objects are created from it and closed with it.
 *
 * It emits every asynchronous event as 'event', and events of ports and of the device also by name: 'portErr',
 * 'portActive', 'gidChange', 'deviceFatal' ... (AsyncEvent). Events without a listener are ignored.
 */
export class Context extends EmittingResource<ContextEvents> {
  /** @internal */
  readonly kind = 'Context';
  /** Name of the device: 'sim0', 'mlx5_0'. */
  readonly name: string;
  readonly tenant: string | undefined;
  private readonly record: LeakRecord;
  private readonly services = new Set<Service>();
  private readonly rings = new Set<number>();
  private readonly batches = new WeakSet<Batch>();
  private readonly ringVerbs: RingVerbs;
  private readonly counts = new Map<string, number>();
  /** The GID that chooseGid() preferred, by port. */
  private readonly chosenGids = new Map<number, GidEntry>();
  /** @internal */
  readonly asyncEvents: AsyncEvents;
  private attr: DeviceAttr | null = null;
  private channel: CompletionChannel | null = null;

  /** Opens a device of this provider; openDevice() chooses both. @throws NoDeviceError */
  constructor(provider: Provider, name: string, options: ContextOptions = {}) {
    const { tenant, labels, groups } = options;
    const given: OpenOptions = {
      ...(tenant !== undefined && { tenant }),
      ...(labels !== undefined && { labels: packedLabels('openDevice', labels) }),
      ...(groups !== undefined && { groups }),
    };
    super({
      provider,
      handle: provider.openDevice(name, Object.keys(given).length === 0 ? undefined : given),
      label: `context of ${name}`,
      parents: [],
    });
    this.name = name;
    this.tenant = tenant;
    this.asyncEvents = new AsyncEvents(this);
    this.record = { label: this.label };
    this.ringVerbs = trackedRings(provider, this.rings);
    watchForLeak(this, this.record);
  }

  /**
   * Changes labels of the context, and thereby of its queue pairs that do not set them themselves. Policies act on them
   * from their next decision on. @throws InvalidArgumentError for a label that is wrong; then none changes
   */
  setLabels(change: ContextLabels): void {
    this.provider.setLabels(this.handle, packedLabels('setLabels', change));
  }

  /**
   * Creates a group of queue pairs, or joins the one of this name that another context of the tenant has created on the
   * device. Queue pairs belong to it by their label `group`. It exists while one context has it.
   * @param weight relative to the other groups of the tenant, from 1e-6 to 1e6; the last weight that is set counts
   * @throws InvalidArgumentError, NoResourcesError for more than 1,024 groups of one context
   */
  createGroup(name: string, weight = 1): void {
    this.provider.createGroup(this.handle, name, weight);
  }

  /** Sets the weight of a group. @throws InvalidArgumentError for a group that this context has not created */
  setGroup(name: string, weight: number): void {
    this.provider.setGroup(this.handle, name, weight);
  }

  /** Gives up a group. @throws BusyError while the label `group` of the context, or of a queue pair of it, names it */
  destroyGroup(name: string): void {
    this.provider.destroyGroup(this.handle, name);
  }

  /** ibv_query_device(3). */
  queryDevice(): DeviceAttr {
    // Queried once, because the attributes do not change while the device is open.
    const handle = this.handle;
    this.attr ??= this.provider.queryDevice(handle);
    return { ...this.attr };
  }

  /** ibv_query_device_ex(3): extended capabilities; 0 where the device lacks one. */
  queryDeviceEx(): DeviceAttrEx {
    return this.provider.queryDeviceEx(this.handle);
  }

  /** ibv_query_rt_values_ex(3): the clock that completion timestamps count. @throws UnsupportedError */
  queryRtValues(): RtValues {
    return this.provider.queryRtValues(this.handle);
  }

  /** ibv_query_port(3). Ports count from 1. */
  queryPort(portNum = 1): PortAttr {
    return this.provider.queryPort(this.handle, portNum);
  }

  /** ibv_query_gid(3), with the GID type. @throws InvalidArgumentError when `index` is beyond the table */
  queryGid(portNum: number, index: number): GidEntry {
    return this.provider.queryGid(this.handle, portNum, index);
  }

  /** ibv_query_pkey(3), in host byte order. @throws InvalidArgumentError when `index` is beyond the table */
  queryPkey(portNum: number, index: number): number {
    return this.provider.queryPkey(this.handle, portNum, index);
  }

  /** The partition keys of a port that are in use, with their indexes. */
  pkeys(portNum = 1): { index: number; pkey: number }[] {
    const { pkeyTblLen } = this.queryPort(portNum);
    const all = Array.from({ length: pkeyTblLen }, (_, index) => ({
      index,
      pkey: this.queryPkey(portNum, index),
    }));
    return all.filter(({ pkey }) => pkey !== 0);
  }

  /** The entries of the GID table that are in use. */
  gids(portNum = 1): GidEntry[] {
    const { gidTblLen } = this.queryPort(portNum);
    return usedGids(gidTblLen, (index) => this.queryGid(portNum, index));
  }

  /**
   * The GID at `index`, or the preferred GID of the port: on RoCE, the RoCE v2 GID of an IPv4 address.
   * @throws InvalidArgumentError, NoDeviceError
   */
  chooseGid(portNum = 1, index?: number): GidEntry {
    // Reading a whole table takes long, so only the named or last preferred entry is queried first.
    const known = index === undefined ? this.chosenGids.get(portNum) : undefined;
    const now = this.gidInUse(portNum, index ?? known?.index);
    if (now !== null && (known === undefined || (now.gid === known.gid && now.type === known.type)))
      return now;
    const where = `port ${portNum} of ${this.name}`;
    if (index !== undefined) return gidAt(this.gids(portNum), index, where);
    const chosen = preferredGid(this.gids(portNum), where);
    this.chosenGids.set(portNum, chosen);
    return chosen;
  }

  private gidInUse(portNum: number, index: number | undefined): GidEntry | null {
    if (index === undefined) return null;
    try {
      const entry = this.queryGid(portNum, index);
      return entry.gid === '::' ? null : entry;
    } catch (error) {
      // The index is beyond the table; gidAt() then names the indexes in use.
      if (error instanceof InvalidArgumentError) return null;
      throw error;
    }
  }

  /** ibv_alloc_pd(3). @throws InvalidArgumentError for an impossible slab */
  allocPd(options: ProtectionDomainOptions = {}): ProtectionDomain {
    return new ProtectionDomain(this, options);
  }

  /** ibv_open_xrcd(3). @throws UnsupportedError */
  openXrcd(): XrcDomain {
    return new XrcDomain(this);
  }

  /**
   * Iterates over the asynchronous events from now on (ibv_get_async_event(3)):
   * `for await (const event of context.events())`. Waiting keeps the process alive. The loop ends when the context
   * is closed.
   */
  events(options: EventsOptions = {}): AsyncIterableIterator<AsyncEvent, undefined> {
    return this.asyncEvents.stream(options.signal);
  }

  /** ibv_create_cq(3). @throws NoResourcesError, UnsupportedError */
  createCq(options: CompletionQueueOptions = {}): CompletionQueue {
    return new CompletionQueue(this, options);
  }

  /** ibv_create_comp_channel(3). */
  createChannel(): CompletionChannel {
    return new CompletionChannel(this);
  }

  /** Creates a batch of send requests for qp.postSend(). It is closed with the context, or earlier by its close(). */
  sendBatch(options: BatchOptions): SendBatch {
    requireKnown('sendBatch', options, BATCH_OPTIONS);
    return this.own(new SendBatch(this.ringVerbs, options));
  }

  /** Creates a batch of receive requests for qp.postRecv(). */
  recvBatch(options: BatchOptions): RecvBatch {
    requireKnown('recvBatch', options, BATCH_OPTIONS);
    return this.own(new RecvBatch(this.ringVerbs, options));
  }

  /** Creates a batch of completions for cq.poll(). */
  wcBatch(options: { capacity: number }): WcBatch {
    requireKnown('wcBatch', options, ['capacity']);
    return this.own(new WcBatch(this.ringVerbs, options));
  }

  /** The device's time in nanoseconds: virtual on simulated devices, a monotonic clock on real ones. */
  nowNs(): number {
    return this.provider.nowNs(this.handle);
  }

  /** Resolves after `delayNs` nanoseconds of the device's time. */
  sleep(delayNs: number): Promise<void> {
    return this.provider.sleep(this.handle, delayNs);
  }

  /** Closes all objects of this context in the right order, then the device. */
  override close(): void {
    if (this.closed) return;
    const closables: Service[] = [...this.services, ...this.descendants()];
    const errors: unknown[] = [];
    for (const closable of closables) {
      try {
        closable.close();
      } catch (error) {
        errors.push(error);
      }
    }
    for (const ring of [...this.rings]) this.ringVerbs.destroyRing(ring);
    if (errors.length > 0) throw errors[0];
    super.close();
  }

  /** @internal Whether a path uses GIDs: always on RoCE, otherwise without a LID or with a given GID index. */
  isRouted(portNum: number, lid: number, gidIndex: number | undefined): boolean {
    return lid === 0 || gidIndex !== undefined || this.queryPort(portNum).linkLayer === 'Ethernet';
  }

  /** @internal */
  addEventSubject(handle: number, element: EventSubject): void {
    this.asyncEvents.add(handle, element);
  }

  /** @internal */
  removeEventSubject(handle: number): void {
    this.asyncEvents.remove(handle);
  }

  /** @internal The open queue pair, completion queue or shared receive queue with this handle. */
  eventSubject(handle: number): EventSubject | undefined {
    return this.asyncEvents.find(handle);
  }

  /** @internal The channel of completion queues that name none. */
  sharedChannel(): CompletionChannel {
    if (this.channel === null || this.channel.closed) this.channel = this.createChannel();
    return this.channel;
  }

  /** @internal */
  labelFor(kind: string): string {
    const number = (this.counts.get(kind) ?? 0) + 1;
    this.counts.set(kind, number);
    return `${kind} ${number} of ${this.name}`;
  }

  /**
   * @internal
   * @throws InvalidArgumentError for anything but a batch of the wanted class, InvalidHandleError for one of another context
   */
  requireBatch(verb: string, batch: Batch, wanted: 'SendBatch' | 'RecvBatch' | 'WcBatch'): void {
    const create = `${wanted[0].toLowerCase()}${wanted.slice(1)}()`;
    if (batch instanceof BATCHES[wanted]) {
      if (this.batches.has(batch)) return;
      throw new InvalidHandleError(
        `${verb}: the ${wanted} does not belong to the ${this.label}; create it with ${create} of that context`,
      );
    }
    const kind = Object.entries(BATCHES).find(([, Class]) => (batch as unknown) instanceof Class);
    throw new InvalidArgumentError(
      `${verb}: the batch must be a ${wanted}, created with ${create} of the context, got ${kind === undefined ? shown(batch) : `a ${kind[0]}`}`,
    );
  }

  /** @internal */
  attach(service: Service): void {
    this.services.add(service);
  }

  /** @internal */
  detach(service: Service): void {
    this.services.delete(service);
  }

  private own<T extends Batch>(batch: T): T {
    this.batches.add(batch);
    return batch;
  }

  protected override eventSource(): EventSource {
    return this.asyncEvents;
  }

  protected override release(handle: number): void {
    this.asyncEvents.stop(handle);
    this.provider.closeDevice(handle);
  }

  protected override released(): void {
    this.asyncEvents.stopped();
    unwatchLeak(this.record);
  }
}

/** Ring verbs that track open rings, so that closing one twice, or after the context, does nothing. */
function trackedRings(provider: Provider, rings: Set<number>): RingVerbs {
  const track = <T extends { handle: number }>(ring: T): T => {
    rings.add(ring.handle);
    return ring;
  };
  return {
    createWrRing: (capacity, sges, inlineBytes) => track(provider.createWrRing(capacity, sges, inlineBytes)),
    createWcRing: (capacity) => track(provider.createWcRing(capacity)),
    destroyRing: (ring) => {
      if (!rings.delete(ring)) return;
      provider.destroyRing(ring);
    },
  };
}
