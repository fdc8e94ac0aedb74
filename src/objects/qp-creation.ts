/** Creation of queue pairs: checks the options and converts them to ibv_qp_init_attr_ex. */
import * as C from '../verbs/constants.ts';
import {
  InvalidArgumentError,
  type Labels,
  type QpCap,
  type QpInfo,
  type QpInitAttr,
  type QpLabels,
  requireKnown,
  shown,
  TRAFFIC_NAMES,
} from '../verbs/index.ts';
import type { CompletionQueue } from './completion-queue.ts';
import type { Context } from './context.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import type { ContextLabels, QpType, QueuePairLabels, QueuePairOptions } from './qp-options.ts';
import { type Resource, requireOwned } from './resource.ts';
import type { SharedReceiveQueue } from './shared-receive-queue.ts';
import type { XrcDomain } from './xrc-domain.ts';

const TYPES: Record<QpType, number> = {
  RC: C.IBV_QPT_RC,
  UC: C.IBV_QPT_UC,
  UD: C.IBV_QPT_UD,
  XRC_SEND: C.IBV_QPT_XRC_SEND,
  XRC_RECV: C.IBV_QPT_XRC_RECV,
};
const DEFAULT_CAP: QpCap = { maxSendWr: 128, maxRecvWr: 128, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
const QP_OPTIONS = ['sendCq', 'recvCq', 'type', 'cap', 'srq', 'extended', 'sqSigAll', 'managed', 'labels'];
const NO_CAP: QpCap = { maxSendWr: 0, maxRecvWr: 0, maxSendSge: 0, maxRecvSge: 0, maxInlineData: 0 };

/** XRC_RECV is created by an XRC domain and takes no other option. */
export type AnyOptions = QueuePairOptions | { type: 'XRC_RECV' };
/** The completion queues; null for XRC_RECV, which has none. */
export type Queues = { send: CompletionQueue; recv: CompletionQueue } | null;

/** Checks the options and returns the objects that they name. @throws InvalidHandleError, InvalidArgumentError */
export function namedObjects(
  context: Context,
  options: AnyOptions,
): { queues: Queues; srq: SharedReceiveQueue | null } {
  requireKnown('createQp', options, QP_OPTIONS);
  const { type = 'RC' } = options;
  if (TYPES[type] === undefined) {
    throw new InvalidArgumentError(`type must be one of ${Object.keys(TYPES).join(', ')}, got '${type}'`);
  }
  if (!('sendCq' in options) && type === 'XRC_RECV') return { queues: null, srq: null };
  const { sendCq, recvCq = sendCq, srq } = options as QueuePairOptions;
  requireOwned(sendCq, 'CompletionQueue', context, 'sendCq');
  requireOwned(recvCq, 'CompletionQueue', context, 'recvCq');
  if (srq !== undefined) requireOwned(srq, 'SharedReceiveQueue', context, 'srq');
  return { queues: { send: sendCq, recv: recvCq }, srq: srq ?? null };
}

/** Calls the verb. @throws InvalidArgumentError when a protection domain is asked for XRC_RECV */
export function createQp(
  owner: ProtectionDomain | XrcDomain,
  options: AnyOptions,
  queues: Queues,
  srq: SharedReceiveQueue | null,
): QpInfo {
  const { provider } = owner;
  if (owner.kind === 'XrcDomain') {
    const xrcd = owner.handle;
    const qpType = C.IBV_QPT_XRC_RECV;
    return provider.createQp(0, { qpType, sendCq: 0, recvCq: 0, cap: NO_CAP, xrcd, sqSigAll: false });
  }
  if (queues === null || options.type === 'XRC_RECV') {
    throw new InvalidArgumentError(
      "createQp: a queue pair of type 'XRC_RECV' is created by createQp() of an XRC domain",
    );
  }
  const { type = 'RC', sqSigAll = false, managed, extended, labels } = options;
  requireKnown('cap', options.cap ?? {}, Object.keys(DEFAULT_CAP));
  const noReceives = srq !== null || type === 'XRC_SEND' ? { maxRecvWr: 0, maxRecvSge: 0 } : {};
  const init: QpInitAttr = {
    qpType: TYPES[type],
    sendCq: queues.send.handle,
    recvCq: queues.recv.handle,
    cap: { ...DEFAULT_CAP, ...noReceives, ...options.cap },
    sqSigAll,
  };
  if (srq !== null) init.srq = srq.handle;
  if (managed !== undefined) init.managed = managed;
  if (extended !== undefined) init.extended = extended;
  if (labels !== undefined) Object.assign(init, qpLabelAttr('createQp', labels));
  return provider.createQp(owner.handle, init);
}

/** The objects that must stay open while the queue pair is open. */
export function parentsOf(owner: Resource, queues: Queues, srq: SharedReceiveQueue | null): Resource[] {
  const parents = [owner];
  if (queues !== null) parents.push(queues.send, queues.recv);
  if (srq !== null) parents.push(srq);
  return parents;
}

/** The labels as verbs take them. @throws InvalidArgumentError for an unknown kind of traffic */
export function packedLabels(verb: string, labels: ContextLabels): Partial<Labels> {
  if (typeof labels !== 'object' || labels === null) {
    throw new InvalidArgumentError(`${verb}: labels must be an object, got ${shown(labels)}`);
  }
  const { traffic, ...rest } = labels;
  if (traffic === undefined) return rest;
  const value = TRAFFIC_NAMES.indexOf(traffic);
  if (value >= 0) return { ...rest, traffic: value };
  throw new InvalidArgumentError(
    `${verb}: labels.traffic must be one of ${TRAFFIC_NAMES.join(', ')}, got ${shown(traffic)}`,
  );
}

const QP_LABELS = ['qpWeight', 'group', 'traffic'];

/** The labels as attributes of a queue pair. @throws InvalidArgumentError for one that queue pairs do not have */
export function qpLabelAttr(verb: string, labels: QueuePairLabels): QpLabels {
  const packed = packedLabels(verb, labels);
  requireKnown(`${verb}: labels`, packed, QP_LABELS);
  return packed;
}
