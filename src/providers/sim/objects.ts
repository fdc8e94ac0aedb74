/** The provider's objects behind handles, with their parents and contexts. */

import type { Region } from '../../sim/memory/memory.ts';
import type { Window } from '../../sim/memory/memory-windows.ts';
import type { Ah } from '../../sim/network/address.ts';
import type { Cq } from '../../sim/queues/cq.ts';
import type { WrRing } from '../../sim/queues/post.ts';
import type { Srq } from '../../sim/queues/srq.ts';
import type { Qp } from '../../sim/transport/qp.ts';
import { BusyError, InvalidHandleError } from '../../verbs/errors.ts';
import * as H from '../../verbs/handles.ts';
import type { AsyncListener, CompletionListener } from '../../verbs/types.ts';
import { countOf } from './arguments.ts';

export interface Context {
  handle: number;
  readonly host: number;
  readonly tenant: string;
  readonly pds: Set<Pd>;
  readonly cqs: Set<CqObject>;
  readonly channels: Set<Channel>;
  /** Number of XRC domains; likewise for counts of other objects below. */
  xrcds: number;
  listener: AsyncListener | null;
  /** Asynchronous events not delivered yet. */
  events: { event: number; element: number }[];
}

export interface Pd {
  readonly context: Context;
  /** Number of the protection domain in the simulation. */
  readonly id: number;
  readonly mrs: Set<Mr>;
  mws: number;
  qps: number;
  srqs: number;
  ahs: number;
}

export interface AhObject {
  readonly pd: Pd;
  readonly ah: Ah;
}

export interface Xrcd {
  handle: number;
  readonly context: Context;
  /** Number of the domain in the simulation. */
  readonly id: number;
  qps: number;
  srqs: number;
}

export interface SrqObject {
  readonly pd: Pd;
  readonly srq: Srq;
  readonly xrcd: Xrcd | null;
  readonly cq: CqObject | null;
  qps: number;
}

export interface Mr {
  pd: Pd;
  region: Region;
  /** Memory allocated by the provider, which is detached with the region. */
  readonly owned: ArrayBuffer | null;
}

export interface Mw {
  readonly pd: Pd;
  readonly window: Window;
}

export interface Channel {
  readonly context: Context;
  readonly cqs: Set<CqObject>;
  listener: CompletionListener | null;
  /** Events not delivered yet. */
  pending: CqObject[];
}

export interface CqObject {
  readonly context: Context;
  readonly cq: Cq;
  readonly channel: Channel | null;
  qps: number;
  srqs: number;
}

export interface QpObject {
  readonly context: Context;
  readonly qp: Qp;
  /** null for XRC_RECV, which has an XRC domain instead. */
  readonly pd: Pd | null;
  readonly sendCq: CqObject | null;
  readonly recvCq: CqObject | null;
  readonly xrcd: Xrcd | null;
  readonly srq: SrqObject | null;
  readonly extended: boolean;
  /** Number of multicast groups that it is attached to. */
  groups: number;
}

export interface WcRing {
  readonly capacity: number;
  readonly words: Uint32Array;
}

export class Objects {
  readonly contexts = new H.HandleTable<Context>(H.KIND_CONTEXT);
  readonly pds = new H.HandleTable<Pd>(H.KIND_PD);
  readonly mrs = new H.HandleTable<Mr>(H.KIND_MR);
  readonly mws = new H.HandleTable<Mw>(H.KIND_MW);
  readonly cqs = new H.HandleTable<CqObject>(H.KIND_CQ);
  readonly qps = new H.HandleTable<QpObject>(H.KIND_QP);
  readonly ahs = new H.HandleTable<AhObject>(H.KIND_AH);
  readonly srqs = new H.HandleTable<SrqObject>(H.KIND_SRQ);
  readonly xrcds = new H.HandleTable<Xrcd>(H.KIND_XRCD);
  readonly channels = new H.HandleTable<Channel>(H.KIND_CHANNEL);
  readonly wrRings = new H.HandleTable<WrRing>(H.KIND_WR_RING);
  readonly wcRings = new H.HandleTable<WcRing>(H.KIND_WC_RING);
}

/** @throws InvalidHandleError when an object belongs to another context */
export function sameContext(verb: string, name: string, a: Context, b: Context): void {
  if (a === b) return;
  throw new InvalidHandleError(`${verb}: ${name} belongs to another context`, { verb });
}

/** @throws BusyError naming the children that still exist */
export function requireNoChildren(
  verb: string,
  what: string,
  children: [count: number, name: string][],
): void {
  const alive = children.filter(([count]) => count > 0).map(([count, name]) => countOf(count, name));
  if (alive.length === 0) return;
  throw new BusyError(`${verb}: the ${what} still has ${alive.join(', ')}; close them first`, {
    verb,
    errno: 16,
  });
}

/** Detaches an ArrayBuffer. */
export function detach(memory: ArrayBuffer): void {
  const buffer = memory as ArrayBuffer & { transfer?: (bytes: number) => ArrayBuffer };
  // transfer() exists from Node 21 on; before it, only structuredClone can detach.
  if (typeof buffer.transfer === 'function') buffer.transfer(0);
  else structuredClone(memory, { transfer: [memory] });
}
