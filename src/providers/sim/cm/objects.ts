/** What the simulated rdma_cm keeps: event channels, and identifiers with the state of what they ask for. */

import type { CmConnParam, CmEvent } from '../../../verbs/connection-manager.ts';
import * as H from '../../../verbs/handles.ts';
import { ANY_HOST } from '../addresses.ts';
import type { TimePump } from '../time-pump.ts';

/** An identifier's own progress, as the kernel's rdma_cm counts it. */
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

/** Where the exchange with the peer is, as the IB CM counts it. */
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
  /** Events that nobody has been told. */
  pending: CmEvent[];
}

/** rdma_conn_param with everything in it. */
export type FullConnParam = Required<CmConnParam>;

export interface CmId {
  handle: number;
  readonly channel: CmChannel;
  readonly portSpace: number;
  state: CmIdState;
  link: CmLinkState;
  alive: boolean;
  /** It came with a CONNECT_REQUEST. */
  incoming: boolean;
  /** It came with a CONNECT_REQUEST, and no verb has named it. */
  unclaimed: boolean;
  /** Of the own end; ANY_HOST when it is not bound to a device. */
  host: number;
  port: number;
  /** Of the other end; ANY_HOST before an address was resolved. */
  remoteHost: number;
  remotePort: number;
  /** Where a group is resolved rather than a host: the text of its address. */
  remoteGroup: string | null;
  backlog: number;
  peer: CmId | null;
  /** What this end said of itself, and what the peer did. */
  localParam: FullConnParam | null;
  remoteParam: FullConnParam | null;
  /** First packet number that this end's queue pair expects. */
  readonly psn: number;
  readonly groups: string[];
}

export class CmObjects {
  readonly channels = new H.HandleTable<CmChannel>(H.KIND_CM_CHANNEL);
  readonly ids = new H.HandleTable<CmId>(H.KIND_CM_ID);
  /** Who is bound to a port, by portKey(); what came in shares the port of its listener and is not here. */
  private readonly bound = new Map<number, Set<CmId>>();
  private readonly pump: TimePump;
  private serial = 0;

  constructor(pump: TimePump) {
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
      remoteGroup: null,
      backlog: 0,
      peer: null,
      localParam: null,
      remoteParam: null,
      // Any numbers do that differ from one identifier to the next.
      psn: (this.serial * 0x9e3779) & 0xffffff,
      groups: [],
    };
    id.handle = this.ids.add(id);
    channel.ids.add(id);
    return id;
  }

  /** The identifier that a verb names. @throws InvalidHandleError */
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

  /** Who is bound to this port of a host or of all, in the order of binding. */
  boundTo(portSpace: number, port: number): CmId[] {
    return [...(this.bound.get(portKey(portSpace, port)) ?? [])];
  }

  /** Puts an event into the identifier's channel. Only from the driver's own calls: listeners run here. */
  emit(id: CmId, event: number, rest: Partial<CmEvent> = {}): void {
    if (!id.alive) return;
    const empty = { listenId: 0, status: 0, privateData: new Uint8Array(0) };
    id.channel.pending.push({ event, id: id.handle, ...empty, ...rest });
    this.deliver(id.channel);
  }

  /** Tells the channel's listener of its events. */
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

  /** Forgets an identifier and the events that nobody was told of it; returns requests that came for it. */
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
