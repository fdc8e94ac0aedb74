/** State of an rdma_cm that is not librdmacm: event channels and identifiers. */

import type { CmConnParam, CmEvent } from '../../../verbs/connection-manager.ts';
import * as H from '../../../verbs/handles.ts';
import { ANY_HOST } from '../addresses.ts';
import type { TimePump } from '../time-pump.ts';

/** State of an identifier, as in the kernel's rdma_cm. */
export type CmIdState =
  | 'idle'
  | 'bound'
  | 'resolving an address'
  | 'address resolved'
  | 'resolving a route'
  | 'route resolved'
  | 'listening'
  | 'connecting or connected'
  | 'disconnected';

/** State of the exchange with the peer, as in the IB CM. */
export type CmLinkState =
  | 'none'
  | 'REQ_SENT'
  | 'REQ_RCVD'
  | 'REP_SENT'
  | 'REP_RCVD'
  | 'ESTABLISHED'
  | 'DREQ_SENT'
  | 'DREQ_RCVD'
  | 'TIMEWAIT'
  | 'over';

export interface CmChannel {
  readonly ids: Set<CmId>;
  listener: ((event: CmEvent) => void) | null;
  /** Events not delivered yet. */
  pending: CmEvent[];
}

/** rdma_conn_param with all fields. */
export type FullConnParam = Required<CmConnParam>;

export interface CmId {
  handle: number;
  readonly channel: CmChannel;
  readonly portSpace: number;
  state: CmIdState;
  link: CmLinkState;
  alive: boolean;
  /** Whether a CONNECT_REQUEST created the identifier. */
  incoming: boolean;
  /** Whether a CONNECT_REQUEST created the identifier and no verb has used it yet. */
  unclaimed: boolean;
  /** The local end; ANY_HOST when not bound to a device. */
  host: number;
  port: number;
  /** The remote end; ANY_HOST before an address is resolved. */
  remoteHost: number;
  remotePort: number;
  /** The text of the remote address, if it is a multicast group's or `remoteHost` does not name it. */
  remoteAddress: string | null;
  backlog: number;
  peer: CmId | null;
  /** Parameters from this end and from the peer. */
  localParam: FullConnParam | null;
  remoteParam: FullConnParam | null;
  /** First PSN that this end's queue pair expects. */
  readonly psn: number;
  /** First PSN that the peer's queue pair expects; -1 until it is known. */
  remotePsn: number;
  readonly groups: string[];
}

export class CmObjects {
  readonly channels = new H.HandleTable<CmChannel>(H.KIND_CM_CHANNEL);
  readonly ids = new H.HandleTable<CmId>(H.KIND_CM_ID);
  /**
   * Identifiers bound to a port, by portKey(). Incoming ones share their listener's port and are not listed.
   */
  private readonly bound = new Map<number, Set<CmId>>();
  private readonly pump: Pick<TimePump, 'notify'>;
  private serial = 0;

  constructor(pump: Pick<TimePump, 'notify'>) {
    this.pump = pump;
  }

  addId(channel: CmChannel, portSpace: number): CmId {
    this.serial++;
    const id: CmId = {
      handle: 0,
      channel,
      portSpace,
      state: 'idle',
      link: 'none',
      alive: true,
      incoming: false,
      unclaimed: false,
      host: ANY_HOST,
      port: 0,
      remoteHost: ANY_HOST,
      remotePort: 0,
      remoteAddress: null,
      backlog: 0,
      peer: null,
      localParam: null,
      remoteParam: null,
      // Any numbers that differ between identifiers will do.
      psn: (this.serial * 0x9e3779) & 0xffffff,
      remotePsn: -1,
      groups: [],
    };
    id.handle = this.ids.add(id);
    channel.ids.add(id);
    return id;
  }

  /** The identifier of a handle passed to a verb. @throws InvalidHandleError */
  requireId(handle: number, verb: string): CmId {
    const id = this.ids.require(handle, verb);
    id.unclaimed = false;
    return id;
  }

  bind(id: CmId, host: number, port: number): void {
    id.host = host;
    id.port = port;
    const key = portKey(id.portSpace, port);
    const others = this.bound.get(key);
    if (others === undefined) this.bound.set(key, new Set([id]));
    else others.add(id);
  }

  /** Identifiers bound to this port of any host, in order of binding. */
  boundTo(portSpace: number, port: number): CmId[] {
    return [...(this.bound.get(portKey(portSpace, port)) ?? [])];
  }

  /**
   * Emits an event into the identifier's channel. Only for calls from the time pump, because listeners run
   * here.
   */
  emit(id: CmId, event: number, rest: Partial<CmEvent> = {}): void {
    if (!id.alive) return;
    const empty = { listenId: 0, status: 0, privateData: new Uint8Array(0) };
    id.channel.pending.push({ event, id: id.handle, ...empty, ...rest });
    this.deliver(id.channel);
  }

  /** Calls the channel's listener for its pending events. */
  deliver(channel: CmChannel): void {
    while (channel.listener !== null) {
      const event = channel.pending.shift();
      if (event === undefined) return;
      try {
        channel.listener(event);
      } catch (error) {
        if (channel.pending.length > 0) this.pump.notify(() => this.deliver(channel));
        throw error;
      }
    }
  }

  /**
   * Removes an identifier and its undelivered events. Returns the connection requests that were pending for
   * it.
   */
  removeId(id: CmId): CmId[] {
    id.alive = false;
    this.ids.delete(id.handle);
    id.channel.ids.delete(id);
    const key = portKey(id.portSpace, id.port);
    const others = this.bound.get(key);
    if (others?.delete(id) === true && others.size === 0) this.bound.delete(key);
    const { pending } = id.channel;
    const undelivered = pending.filter((event) => event.listenId === id.handle);
    id.channel.pending = pending.filter((event) => event.id !== id.handle && event.listenId !== id.handle);
    return undelivered.map((event) => this.ids.get(event.id)).filter((found) => found !== undefined);
  }
}

function portKey(portSpace: number, port: number): number {
  return portSpace * 65536 + port;
}
