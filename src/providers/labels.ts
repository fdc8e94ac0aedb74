/**
 * Keeps the labels of contexts and queue pairs in front of a device: takes them off the attributes, and adds them to
 * what queryQp returns. Policies read them on the way (src/shim).
 */
import { InvalidHandleError } from '../verbs/errors.ts';
import { handleIndex } from '../verbs/handles.ts';
import {
  contextLabels,
  DEFAULT_LABELS,
  hasLabels,
  LABEL_BITS,
  type Labels,
  maskedLabels,
  type QpLabels,
  qpLabels,
  sameLabels,
  withLabels,
} from '../verbs/labels.ts';
import { requireFields } from '../verbs/qp-state.ts';
import type { OpenOptions, QpAttr, QpInfo, QpInitAttr } from '../verbs/types.ts';
import type { Verbs } from '../verbs/verbs.ts';
import { Groups } from './groups.ts';

/** The verbs that carry labels, or tell which context an object belongs to. */
type Carriers = 'openDevice' | 'closeDevice' | 'allocPd' | 'openXrcd' | 'createQp' | 'modifyQp' | 'queryQp';

/** What a device may want to know of labels and groups. */
export interface LabelHooks {
  /** A queue pair was created with these labels, or they have changed. The queue pair may have been destroyed since. */
  onLabels?(qp: number, context: number, labels: Labels): void;
  /** The weight of a context's tenant has changed since the context was opened. */
  onWeight?(context: number, weight: number): void;
  /** The weight of a group of the context's tenant has changed; it is 1 while no context has created the group. */
  onGroup?(context: number, name: string, weight: number): void;
}

/** A device without labels. */
interface Device extends Pick<Verbs, Carriers>, LabelHooks {
  /** @throws InvalidHandleError that names the verb */
  requireContext(context: number, verb: string): void;
  /** @throws InvalidHandleError that names modifyQp */
  requireQp(qp: number): void;
}

/** The verbs that only labels and groups have. */
type Own = 'setLabels' | 'createGroup' | 'setGroup' | 'destroyGroup';

/**
 * Labels of objects that have some themselves. A new object takes the place of a closed one with the same index, so that
 * nothing leaks.
 */
class LabelTable<T> {
  private readonly entries = new Map<number, { handle: number; labels: T }>();

  get(handle: number): T | undefined {
    const entry = this.entries.get(handleIndex(handle));
    return entry?.handle === handle ? entry.labels : undefined;
  }

  /** @param labels undefined for a new object without any, whose handle an object with labels may have had */
  set(handle: number, labels: T | undefined): void {
    if (labels === undefined) this.entries.delete(handleIndex(handle));
    else this.entries.set(handleIndex(handle), { handle, labels });
  }

  /** Handles of the objects with such labels; they may be closed. */
  handles(isSuch: (labels: T) => boolean): number[] {
    return [...this.entries.values()].filter(({ labels }) => isSuch(labels)).map(({ handle }) => handle);
  }
}

/** The contexts of objects of one kind, 8 bytes each: a program may have many thousands of queue pairs. */
class Owners {
  private handles = new Uint32Array(64);
  private contexts = new Uint32Array(64);

  /** The context; 0 for an object that is unknown here. */
  get(handle: number): number {
    const index = handleIndex(handle);
    return this.handles[index] === handle ? this.contexts[index] : 0;
  }

  set(handle: number, context: number): void {
    const index = handleIndex(handle);
    if (index >= this.handles.length) {
      this.handles = widened(this.handles, index);
      this.contexts = widened(this.contexts, index);
    }
    this.handles[index] = handle;
    this.contexts[index] = context;
  }

  /** The objects of a context, and some of closed ones. */
  *of(context: number): Generator<number> {
    for (const [index, owner] of this.contexts.entries()) if (owner === context) yield this.handles[index];
  }
}

function widened(column: Uint32Array, index: number): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(Math.max(index + 1, column.length * 2));
  wider.set(column);
  return wider;
}

/** The verbs of a device with labels and groups. */
export function labelVerbs(device: Device): Pick<Verbs, Carriers | Own> {
  return new LabelKeeper(device).verbs();
}

class LabelKeeper {
  private readonly device: Device;
  private readonly groups: Groups;
  private readonly contexts = new LabelTable<Labels>();
  private readonly qps = new LabelTable<QpLabels>();
  private readonly contextOfPd = new Owners();
  private readonly contextOfXrcd = new Owners();
  private readonly contextOfQp = new Owners();

  constructor(device: Device) {
    this.device = device;
    this.groups = new Groups({
      requireContext: device.requireContext,
      isContextIn: (context, name) => this.labelsOf(context).group === name,
      countQps: (context, name) => this.countQps(context, name),
      onGroup: device.onGroup,
    });
  }

  verbs(): Pick<Verbs, Carriers | Own> {
    const { device, contextOfPd, contextOfXrcd } = this;
    return {
      ...this.groups.verbs(),
      openDevice: (name, options) => this.openDevice(name, options),
      closeDevice: (context) => this.groups.close(context, () => device.closeDevice(context)),
      setLabels: (context, change) => this.setLabels(context, change),
      allocPd(context) {
        const pd = device.allocPd(context);
        contextOfPd.set(pd, context);
        return pd;
      },
      openXrcd(context) {
        const xrcd = device.openXrcd(context);
        contextOfXrcd.set(xrcd, context);
        return xrcd;
      },
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (handle, attr, mask) => this.modifyQp(handle, attr, mask),
      queryQp: (handle) => {
        const { attr, init } = device.queryQp(handle);
        const { qpWeight, group, traffic } = this.labelsOfQp(handle);
        return { attr: { ...attr, qpWeight, group, traffic }, init };
      },
    };
  }

  private labelsOf(context: number): Labels {
    return this.contexts.get(context) ?? DEFAULT_LABELS;
  }

  private labelsOfQp(qp: number): Labels {
    return withLabels(this.labelsOf(this.contextOfQp.get(qp)), this.qps.get(qp) ?? {});
  }

  private openDevice(name: string, options?: OpenOptions): number {
    const { labels: given, groups, ...rest } = options ?? {};
    const labels = withLabels(DEFAULT_LABELS, contextLabels('openDevice', given === undefined ? {} : given));
    const isPlain = given === undefined && groups === undefined;
    const context = this.groups.open(groups, name, rest.tenant ?? '', () =>
      this.device.openDevice(name, isPlain ? options : rest),
    );
    this.contexts.set(context, labels === DEFAULT_LABELS ? undefined : labels);
    return context;
  }

  private setLabels(context: number, change: Partial<Labels>): Labels {
    const { device } = this;
    device.requireContext(context, 'setLabels');
    const before = this.labelsOf(context);
    const labels = withLabels(before, contextLabels('setLabels', change));
    this.contexts.set(context, labels);
    if (labels.weight !== before.weight) device.onWeight?.(context, labels.weight);
    if (device.onLabels !== undefined && !sameLabels({ ...labels, weight: before.weight }, before)) {
      for (const qp of this.contextOfQp.of(context)) this.tellLabels(qp);
    }
    return labels;
  }

  private createQp(pd: number, attr: QpInitAttr): QpInfo {
    const isLabelled = typeof attr === 'object' && attr !== null && hasLabels(attr);
    const own = isLabelled ? qpLabels('createQp', attr) : undefined;
    const info = this.device.createQp(pd, isLabelled ? withoutLabels(attr) : attr);
    this.contextOfQp.set(info.handle, this.contextOfPd.get(pd) || this.contextOfXrcd.get(attr.xrcd ?? 0));
    this.qps.set(info.handle, own);
    this.tellLabels(info.handle);
    return info;
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    const { device, qps } = this;
    const isLabelled = typeof mask === 'number' && (mask & LABEL_BITS) !== 0;
    if (!isLabelled || typeof attr !== 'object' || attr === null) {
      device.modifyQp(handle, attr, mask);
      return;
    }
    device.requireQp(handle);
    requireFields(attr, mask & LABEL_BITS);
    const change = maskedLabels(attr, mask);
    const rest = mask & ~LABEL_BITS;
    if (rest !== 0) device.modifyQp(handle, withoutLabels(attr), rest);
    qps.set(handle, { ...qps.get(handle), ...change });
    this.tellLabels(handle);
  }

  private tellLabels(qp: number): void {
    const { device, contextOfQp } = this;
    if (device.onLabels !== undefined) device.onLabels(qp, contextOfQp.get(qp), this.labelsOfQp(qp));
  }

  /** Number of queue pairs of a context whose own label names a group. */
  private countQps(context: number, name: string): number {
    const { device, qps, contextOfQp } = this;
    const named = qps.handles(({ group }) => group === name);
    return named.filter((qp) => contextOfQp.get(qp) === context && isOpen(device, qp)).length;
  }
}

function isOpen(device: Device, qp: number): boolean {
  try {
    device.requireQp(qp);
    return true;
  } catch (error) {
    if (error instanceof InvalidHandleError) return false;
    throw error;
  }
}

function withoutLabels<T extends QpLabels>(attr: T): T {
  const { qpWeight: _weight, group: _group, traffic: _traffic, ...rest } = attr;
  return rest as T;
}
