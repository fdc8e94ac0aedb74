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
  withLabels,
} from '../verbs/labels.ts';
import { requireFields } from '../verbs/qp-state.ts';
import type { Verbs } from '../verbs/verbs.ts';
import { Groups } from './groups.ts';

/** The verbs that carry labels, or tell which context an object belongs to. */
type Carriers = 'openDevice' | 'closeDevice' | 'allocPd' | 'openXrcd' | 'createQp' | 'modifyQp' | 'queryQp';

/** A device without labels. */
interface Device extends Pick<Verbs, Carriers> {
  /** @throws InvalidHandleError that names the verb */
  requireContext(context: number, verb: string): void;
  /** @throws InvalidHandleError that names modifyQp */
  requireQp(qp: number): void;
  /** The weight of a group of the context's tenant has changed; it is 1 while no context has created the group. */
  onGroup?(context: number, name: string, weight: number): void;
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
}

function widened(column: Uint32Array, index: number): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(Math.max(index + 1, column.length * 2));
  wider.set(column);
  return wider;
}

/** The verbs of a device with labels and groups. */
export function labelVerbs(device: Device): Pick<Verbs, Carriers | Own> {
  const contexts = new LabelTable<Labels>();
  const qps = new LabelTable<QpLabels>();
  const contextOfPd = new Owners();
  const contextOfXrcd = new Owners();
  const contextOfQp = new Owners();
  const labelsOf = (context: number) => contexts.get(context) ?? DEFAULT_LABELS;
  const groups = new Groups({
    requireContext: device.requireContext,
    isContextIn: (context, name) => labelsOf(context).group === name,
    countQps: (context, name) =>
      qps
        .handles(({ group }) => group === name)
        .filter((qp) => contextOfQp.get(qp) === context && isOpen(device, qp)).length,
    onGroup: device.onGroup,
  });
  return {
    ...groups.verbs(),
    openDevice(name, options) {
      const { labels: given, groups: created, ...rest } = options ?? {};
      const labels = withLabels(
        DEFAULT_LABELS,
        contextLabels('openDevice', given === undefined ? {} : given),
      );
      const isPlain = given === undefined && created === undefined;
      const context = groups.open(created, name, rest.tenant ?? '', () =>
        device.openDevice(name, isPlain ? options : rest),
      );
      contexts.set(context, labels === DEFAULT_LABELS ? undefined : labels);
      return context;
    },
    closeDevice(context) {
      groups.close(context, () => device.closeDevice(context));
    },
    setLabels(context, change) {
      device.requireContext(context, 'setLabels');
      const labels = withLabels(labelsOf(context), contextLabels('setLabels', change));
      contexts.set(context, labels);
      return labels;
    },
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
    createQp(pd, attr) {
      const isLabelled = typeof attr === 'object' && attr !== null && hasLabels(attr);
      const own = isLabelled ? qpLabels('createQp', attr) : undefined;
      const info = device.createQp(pd, isLabelled ? withoutLabels(attr) : attr);
      contextOfQp.set(info.handle, contextOfPd.get(pd) || contextOfXrcd.get(attr.xrcd ?? 0));
      qps.set(info.handle, own);
      return info;
    },
    modifyQp(handle, attr, mask) {
      if (
        typeof mask !== 'number' ||
        (mask & LABEL_BITS) === 0 ||
        typeof attr !== 'object' ||
        attr === null
      ) {
        device.modifyQp(handle, attr, mask);
        return;
      }
      device.requireQp(handle);
      requireFields(attr, mask & LABEL_BITS);
      const change = maskedLabels(attr, mask);
      const rest = mask & ~LABEL_BITS;
      if (rest !== 0) device.modifyQp(handle, withoutLabels(attr), rest);
      qps.set(handle, { ...qps.get(handle), ...change });
    },
    queryQp(handle) {
      const { attr, init } = device.queryQp(handle);
      const labels = withLabels(labelsOf(contextOfQp.get(handle)), qps.get(handle) ?? {});
      const { qpWeight, group, traffic } = labels;
      return { attr: { ...attr, qpWeight, group, traffic }, init };
    },
  };
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
