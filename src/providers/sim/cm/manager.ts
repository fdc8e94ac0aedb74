/**
 * An rdma_cm that is not librdmacm: it checks arguments, ports and the order of calls. Its network exchanges the messages
 * with the peer and knows the addresses of devices. The network is the fabric (protocol.ts, places.ts), where everything
 * happens in virtual time, or user-space RoCE (providers/soft/cm).
 */

import type {
  CmAddress,
  CmConnParam,
  CmIdInfo,
  ConnectionManager,
} from '../../../verbs/connection-manager.ts';
import * as C from '../../../verbs/constants.ts';
import {
  BusyError,
  ConnectionError,
  InvalidArgumentError,
  InvalidStateError,
  IsoverbsError,
  shown,
  UnsupportedError,
} from '../../../verbs/errors.ts';
import { maskOf } from '../../../verbs/qp-state.ts';
import type { AhAttr } from '../../../verbs/types.ts';
import { ANY_HOST, groupGid } from '../addresses.ts';
import { countOf, requireInteger, requireObject } from '../arguments.ts';
import { LIMITS } from '../limits.ts';
import type { TimePump } from '../time-pump.ts';
import type { CmId, CmIdState, CmObjects, FullConnParam } from './objects.ts';
import { limitsOf } from './private-data.ts';
import { qpAttrOf } from './qp-attr.ts';

const FIRST_EPHEMERAL_PORT = 49152;
const LAST_PORT = 65535;
const MAX_BACKLOG = 1024;

/** The exchange of messages with the peers of identifiers. */
export interface CmExchange {
  /** Calls `action` after this many message delays, outside of the caller, if the identifier still exists. */
  later(id: CmId, messages: number, action: () => void): void;
  connect(id: CmId, param: FullConnParam): void;
  accept(id: CmId, param: FullConnParam): void;
  /** Both ends are ready. */
  establish(id: CmId): void;
  /** Data arrived before the peer's confirmation. */
  established(id: CmId): void;
  reject(id: CmId, data: Uint8Array): void;
  disconnect(id: CmId): void;
  /** Notifies the peer of an identifier that is destroyed. */
  abandon(id: CmId): void;
}

/** Where an identifier's peer is, or a negative errno if it cannot be reached. */
export type CmRoute = { host: number; remoteHost: number; remoteAddress: string | null } | number;

/** The devices of a network and their addresses. */
export interface CmPlaces {
  /** The name of a host in errors, such as 'sim0'. */
  nameOf(host: number): string;
  /** The name of the network in errors. */
  readonly network: string;
  /** The address of a host as text. */
  addressOf(host: number): string;
  /** Bytes of payload per packet of a connection. */
  mtuBytes(id: CmId): number;
  /** The path to the peer of an identifier. */
  ahTo(id: CmId): AhAttr;
  /** The path to a group. */
  ahToGroup(dgid: string): AhAttr;
  /** The host of a local address; ANY_HOST for the wildcard address. @throws NoDeviceError */
  hostAt(verb: string, name: string, address: string): number;
  /**
   * Checks an address, or that of a multicast group (`port` 0 allowed), and returns a function that looks up its route and
   * calls `found` outside of the caller.
   */
  route(id: CmId, address: string, port: number, isGroup: boolean): (found: (route: CmRoute) => void) => void;
  /** The identifier is about to receive messages at `host`, or everywhere. @throws ConnectionError if the device cannot */
  hold(verb: string, id: CmId, host: number, address: string | null): void;
  /** The identifier was destroyed. */
  release(id: CmId): void;
  /** Whether events of the channel keep the process alive. */
  keepAlive(channel: number, keeps: boolean): void;
}

/** The parts of a connection manager. */
export interface CmParts {
  readonly pump: TimePump;
  readonly objects: CmObjects;
  readonly protocol: CmExchange;
  readonly places: CmPlaces;
}

/** The ConnectionManager of a network. */
export class CmManager {
  readonly verbs: ConnectionManager;
  private readonly pump: TimePump;
  private readonly objects: CmObjects;
  private readonly protocol: CmExchange;
  private readonly places: CmPlaces;
  private nextPort = FIRST_EPHEMERAL_PORT;

  constructor({ pump, objects, protocol, places }: CmParts) {
    this.pump = pump;
    this.objects = objects;
    this.protocol = protocol;
    this.places = places;
    this.verbs = Object.freeze({ ...this.channelVerbs(), ...this.addressVerbs(), ...this.connectionVerbs() });
  }

  private channelVerbs() {
    const { objects, places } = this;
    const { channels } = objects;
    return {
      createEventChannel: () => channels.add({ ids: new Set(), listener: null, pending: [] }),
      destroyEventChannel: (handle) => {
        const channel = channels.require(handle, 'destroyEventChannel');
        const taken = [...channel.ids].filter((id) => !id.unclaimed);
        if (taken.length > 0) {
          throw new BusyError(
            `destroyEventChannel: the channel still has ${countOf(taken.length, 'CM identifier')}; destroy them first`,
            { verb: 'destroyEventChannel', errno: C.EBUSY },
          );
        }
        for (const request of [...channel.ids]) this.destroy(request);
        channel.listener = null;
        places.keepAlive(handle, false);
        channels.delete(handle);
      },
      watchEventChannel: (handle, listener) => {
        const channel = channels.require(handle, 'watchEventChannel');
        if (listener !== null && typeof listener !== 'function') {
          throw new InvalidArgumentError(
            `watchEventChannel: listener must be a function or null, got ${shown(listener)}`,
            { verb: 'watchEventChannel' },
          );
        }
        channel.listener = listener;
        if (channel.pending.length > 0) this.pump.notify(() => objects.deliver(channel));
      },
      refEventChannel: (handle, keeps) => {
        channels.require(handle, 'refEventChannel');
        places.keepAlive(handle, keeps);
      },
      createId: (handle, portSpace) => {
        const channel = channels.require(handle, 'createId');
        if (portSpace !== C.RDMA_PS_TCP && portSpace !== C.RDMA_PS_UDP) {
          throw new InvalidArgumentError(
            `createId: portSpace must be RDMA_PS_TCP or RDMA_PS_UDP, got ${shown(portSpace)}`,
            { verb: 'createId' },
          );
        }
        return objects.addId(channel, portSpace).handle;
      },
      destroyId: (handle) => this.destroy(objects.requireId(handle, 'destroyId')),
      queryId: (handle) => this.infoOf(objects.requireId(handle, 'queryId')),
    } satisfies Partial<ConnectionManager>;
  }

  private addressVerbs() {
    const { objects, protocol, places } = this;
    return {
      bindAddr: (handle, local) => {
        const id = objects.requireId(handle, 'bindAddr');
        requireState('bindAddr', id, ['idle']);
        this.bind('bindAddr', id, this.hostAt('bindAddr', 'local', local), local);
      },
      resolveAddr: (handle, local, remote, timeoutMs) => {
        const id = objects.requireId(handle, 'resolveAddr');
        requireInteger('resolveAddr', 'timeoutMs', timeoutMs, 0, 2 ** 31 - 1);
        requireState('resolveAddr', id, ['idle', 'bound']);
        this.resolve(id, local, remote);
      },
      resolveRoute: (handle, timeoutMs) => {
        const id = objects.requireId(handle, 'resolveRoute');
        requireInteger('resolveRoute', 'timeoutMs', timeoutMs, 0, 2 ** 31 - 1);
        requireState('resolveRoute', id, ['address resolved']);
        id.state = 'resolving a route';
        protocol.later(id, 1, () => {
          id.state = 'route resolved';
          objects.emit(id, C.RDMA_CM_EVENT_ROUTE_RESOLVED);
        });
      },
      listen: (handle, backlog) => {
        const id = objects.requireId(handle, 'listen');
        requireInteger('listen', 'backlog', backlog, 0, 2 ** 31 - 1);
        requireState('listen', id, ['idle', 'bound']);
        if (id.state === 'idle') this.bind('listen', id, ANY_HOST, null);
        if (id.host === ANY_HOST) places.hold('listen', id, ANY_HOST, null);
        id.state = 'listening';
        id.backlog = backlog === 0 ? MAX_BACKLOG : Math.min(backlog, MAX_BACKLOG);
      },
      joinMulticast: (handle, group) => {
        const id = objects.requireId(handle, 'joinMulticast');
        this.join(id, group);
      },
      leaveMulticast: (handle, group) => {
        const id = objects.requireId(handle, 'leaveMulticast');
        const at = id.groups.indexOf(groupGid('leaveMulticast', group));
        if (at < 0) {
          throw new InvalidArgumentError(
            `leaveMulticast: ${group.address} is not a group that this identifier joined`,
            {
              verb: 'leaveMulticast',
              errno: C.EADDRNOTAVAIL,
            },
          );
        }
        id.groups.splice(at, 1);
      },
    } satisfies Partial<ConnectionManager>;
  }

  private connectionVerbs() {
    const { objects, protocol, places } = this;
    return {
      connect: (handle, param) => {
        const id = objects.requireId(handle, 'connect');
        // A client for datagrams needs no queue pair yet.
        const isDatagram = id.portSpace === C.RDMA_PS_UDP;
        const full = fullParam('connect', isDatagram ? { qpNum: 0, ...param } : param, limitsOf(id).request);
        requireState('connect', id, ['route resolved']);
        protocol.connect(id, full);
      },
      establish: (handle) => {
        const id = objects.requireId(handle, 'establish');
        requireLink('establish', id, ['REP_RCVD'], 'after CONNECT_RESPONSE');
        protocol.establish(id);
      },
      accept: (handle, param) => {
        const id = objects.requireId(handle, 'accept');
        const full = fullParam('accept', param, limitsOf(id).reply);
        const { qkey = C.RDMA_UDP_QKEY } = param;
        requireInteger('accept', 'qkey', qkey, 0, 0xffffffff);
        if (qkey !== C.RDMA_UDP_QKEY) {
          // This matches librdmacm, whose parameters have no field for another value.
          throw new UnsupportedError('accept: qkey must be RDMA_UDP_QKEY (0x01234567)', {
            verb: 'accept',
          });
        }
        requireLink('accept', id, ['REQ_RCVD'], 'once, after CONNECT_REQUEST');
        protocol.accept(id, full);
      },
      reject: (handle, privateData) => {
        const id = objects.requireId(handle, 'reject');
        const data = privateDataOf('reject', privateData, limitsOf(id).reject);
        requireLink('reject', id, ['REQ_RCVD', 'REP_RCVD'], 'after CONNECT_REQUEST or CONNECT_RESPONSE');
        protocol.reject(id, data);
      },
      disconnect: (handle) => {
        const id = objects.requireId(handle, 'disconnect');
        if (id.link === 'none') throw wrongOrder('disconnect', id, 'after connect or accept');
        protocol.disconnect(id);
      },
      notify: (handle, event) => {
        const id = objects.requireId(handle, 'notify');
        if (event !== C.IBV_EVENT_COMM_EST) {
          throw new InvalidArgumentError(`notify: event must be IBV_EVENT_COMM_EST, got ${shown(event)}`, {
            verb: 'notify',
          });
        }
        requireLink('notify', id, ['REP_SENT'], 'between accept and ESTABLISHED');
        protocol.later(id, 0, () => protocol.established(id));
      },
      initQpAttr: (handle, qpState) => {
        const id = objects.requireId(handle, 'initQpAttr');
        requireInteger('initQpAttr', 'qpState', qpState, C.IBV_QPS_INIT, C.IBV_QPS_RTS);
        if (id.host === ANY_HOST) throw wrongOrder('initQpAttr', id, 'after ADDR_RESOLVED or on a device');
        const attr = qpAttrOf(id, qpState, { mtuBytes: places.mtuBytes(id), ah: places.ahTo(id) });
        return { attr, mask: maskOf(attr) };
      },
    } satisfies Partial<ConnectionManager>;
  }

  private destroy(id: CmId): void {
    this.protocol.abandon(id);
    for (const request of this.objects.removeId(id)) this.destroy(request);
    this.places.release(id);
  }

  private resolve(id: CmId, local: CmAddress | null, remote: CmAddress): void {
    const { objects, places } = this;
    const isGroup = isGroupAddress(remote);
    const port = requireInteger('resolveAddr', 'remote.port', remote.port, isGroup ? 0 : 1, LAST_PORT);
    const look = places.route(id, remote.address, port, isGroup);
    if (id.state === 'idle') {
      const host = local === null ? ANY_HOST : this.hostAt('resolveAddr', 'local', local);
      this.bind('resolveAddr', id, host, local);
    }
    id.state = 'resolving an address';
    look((route) => {
      if (!id.alive) return;
      const status = this.take(id, route);
      if (status !== 0) {
        id.state = 'bound';
        objects.emit(id, C.RDMA_CM_EVENT_ADDR_ERROR, { status });
        return;
      }
      id.remotePort = port;
      id.state = 'address resolved';
      objects.emit(id, C.RDMA_CM_EVENT_ADDR_RESOLVED);
    });
  }

  /** Sets the route of an identifier. Returns 0 or a negative errno. */
  private take(id: CmId, route: CmRoute): number {
    if (typeof route === 'number') return route;
    try {
      if (id.host === ANY_HOST) this.places.hold('resolveAddr', id, route.host, null);
    } catch (error) {
      if (error instanceof IsoverbsError) return -(error.errno ?? C.EADDRNOTAVAIL);
      throw error;
    }
    id.host = route.host;
    id.remoteHost = route.remoteHost;
    id.remoteAddress = route.remoteAddress;
    return 0;
  }

  private hostAt(verb: string, name: string, at: CmAddress): number {
    const address = addressText(verb, name, at);
    requireInteger(verb, `${name}.port`, at.port, 0, LAST_PORT);
    return this.places.hostAt(verb, name, address);
  }

  private bind(verb: string, id: CmId, host: number, local: CmAddress | null): void {
    const { places } = this;
    const where = host === ANY_HOST ? places.network : places.nameOf(host);
    const wanted = local?.port ?? 0;
    if (wanted !== 0 && this.isTaken(id, host, wanted)) {
      const text = `${verb}: port ${wanted} of ${where} is in use`;
      throw new ConnectionError(text, { verb, errno: C.EADDRINUSE });
    }
    const port = wanted === 0 ? this.freePort(id, host) : wanted;
    if (port === null) {
      const text = `${verb}: ${where} has no free port left; destroy unused identifiers`;
      throw new ConnectionError(text, { verb, errno: C.EADDRNOTAVAIL });
    }
    if (host !== ANY_HOST) places.hold(verb, id, host, local?.address ?? null);
    this.objects.bind(id, host, port);
    id.state = 'bound';
  }

  private isTaken({ portSpace }: CmId, host: number, port: number): boolean {
    const others = this.objects.boundTo(portSpace, port);
    return others.some((other) => other.host === host || other.host === ANY_HOST || host === ANY_HOST);
  }

  /** The next free ephemeral port; null when all are in use. */
  private freePort(id: CmId, host: number): number | null {
    for (let tries = FIRST_EPHEMERAL_PORT; tries <= LAST_PORT; tries++) {
      const port = this.nextPort;
      this.nextPort = port === LAST_PORT ? FIRST_EPHEMERAL_PORT : port + 1;
      if (!this.isTaken(id, host, port)) return port;
    }
    return null;
  }

  private join(id: CmId, group: CmAddress): void {
    const { objects, protocol } = this;
    const dgid = groupGid('joinMulticast', group);
    if (id.portSpace !== C.RDMA_PS_UDP)
      throw wrongOrder('joinMulticast', id, 'on an identifier of RDMA_PS_UDP');
    requireState('joinMulticast', id, ['bound', 'address resolved']);
    if (id.host === ANY_HOST) throw wrongOrder('joinMulticast', id, 'when bound to the address of a device');
    id.groups.push(dgid);
    protocol.later(id, 1, () => {
      const ud = {
        ah: this.places.ahToGroup(dgid),
        qpNum: 0xffffff,
        qkey: C.RDMA_UDP_QKEY,
      };
      objects.emit(id, C.RDMA_CM_EVENT_MULTICAST_JOIN, { ud });
    });
  }

  private infoOf(id: CmId): CmIdInfo {
    const { places } = this;
    const text = (host: number) => (host === ANY_HOST ? '0.0.0.0' : places.addressOf(host));
    return {
      deviceName: id.host === ANY_HOST ? '' : places.nameOf(id.host),
      portNum: id.host === ANY_HOST ? 0 : 1,
      local: { address: text(id.host), port: id.port },
      remote: { address: id.remoteAddress ?? text(id.remoteHost), port: id.remotePort },
    };
  }
}

function addressText(verb: string, name: string, at: CmAddress): string {
  requireObject(verb, name, at);
  if (typeof at.address === 'string') return at.address;
  throw new InvalidArgumentError(`${verb}: ${name}.address must be a string, got ${shown(at.address)}`, {
    verb,
  });
}

function isGroupAddress(remote: CmAddress): boolean {
  addressText('resolveAddr', 'remote', remote);
  try {
    groupGid('resolveAddr', remote);
    return true;
  } catch (error) {
    if (error instanceof InvalidArgumentError) return false;
    throw error;
  }
}

function wrongOrder(verb: string, id: CmId, when: string): InvalidStateError {
  const link = id.link === 'none' ? '' : ` (${id.link})`;
  return new InvalidStateError(`${verb}: only valid ${when}; this identifier is ${id.state}${link}`, {
    verb,
    errno: C.EINVAL,
  });
}

function requireState(verb: string, id: CmId, states: CmIdState[]): void {
  if (!states.includes(id.state))
    throw wrongOrder(verb, id, `with an identifier that is ${states.join(' or ')}`);
}

function requireLink(verb: string, id: CmId, links: CmId['link'][], when: string): void {
  if (!links.includes(id.link)) throw wrongOrder(verb, id, when);
}

function privateDataOf(verb: string, data: unknown, limit: number): Uint8Array {
  if (!(data instanceof Uint8Array)) {
    throw new InvalidArgumentError(`${verb}: privateData must be a Uint8Array, got ${shown(data)}`, {
      verb,
    });
  }
  if (data.length <= limit) return data.slice();
  throw new InvalidArgumentError(
    `${verb}: privateData has ${data.length} bytes, but this message holds at most ${limit}`,
    { verb },
  );
}

function fullParam(verb: string, param: CmConnParam, dataBytes: number): FullConnParam {
  requireObject(verb, 'param', param);
  if (param.qpNum === undefined) {
    throw new InvalidArgumentError(`${verb}: qpNum is missing; pass the number of the queue pair`, { verb });
  }
  const { privateData = new Uint8Array(0), srq = false } = param;
  const { responderResources = LIMITS.maxQpRdAtom, initiatorDepth = LIMITS.maxQpRdAtom } = param;
  const { flowControl = 0, retryCount = 7, rnrRetryCount = 7, qpNum } = param;
  return {
    privateData: privateDataOf(verb, privateData, dataBytes),
    responderResources: requireInteger(verb, 'responderResources', responderResources, 0, 255),
    initiatorDepth: requireInteger(verb, 'initiatorDepth', initiatorDepth, 0, 255),
    flowControl: requireInteger(verb, 'flowControl', flowControl, 0, 255),
    retryCount: requireInteger(verb, 'retryCount', retryCount, 0, 7),
    rnrRetryCount: requireInteger(verb, 'rnrRetryCount', rnrRetryCount, 0, 7),
    srq: srq === true,
    qpNum: requireInteger(verb, 'qpNum', qpNum, 0, 0xffffff),
  };
}
