/**
 * rdma_cm between the hosts of a fabric: arguments, ports and the order of calls. protocol.ts has the
 * messages between the two ends. Everything happens in virtual time, so the same program gets the same
 * events.
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
  NoDeviceError,
  shown,
  UnsupportedError,
} from '../../../verbs/errors.ts';
import { maskOf } from '../../../verbs/qp-state.ts';
import { ANY_HOST, addressOf, groupGid, hostNamed } from '../addresses.ts';
import { countOf, requireInteger, requireObject } from '../arguments.ts';
import { LIMITS } from '../limits.ts';
import type { TimePump } from '../time-pump.ts';
import { type CmId, type CmIdState, CmObjects, type FullConnParam } from './objects.ts';
import { CmProtocol, limitsOf } from './protocol.ts';
import { qpAttrOf } from './qp-attr.ts';

const FIRST_EPHEMERAL_PORT = 49152;
const LAST_PORT = 65535;
const MAX_BACKLOG = 1024;

export class SimCm {
  readonly verbs: ConnectionManager;
  private readonly pump: TimePump;
  private readonly objects: CmObjects;
  private readonly protocol: CmProtocol;
  private nextPort = FIRST_EPHEMERAL_PORT;

  constructor(pump: TimePump) {
    this.pump = pump;
    this.objects = new CmObjects(pump);
    this.protocol = new CmProtocol(pump, this.objects);
    this.verbs = Object.freeze({ ...this.channelVerbs(), ...this.addressVerbs(), ...this.connectionVerbs() });
  }

  /** Notifies the peers of a host that died. */
  hostDied(host: number): void {
    this.protocol.hostDied(host);
  }

  private channelVerbs() {
    const { objects } = this;
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
      // Pending events keep the process alive anyway (time-pump.ts), and if none are pending, none can arrive.
      refEventChannel: (handle) => void channels.require(handle, 'refEventChannel'),
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
      queryId: (handle) => infoOf(objects.requireId(handle, 'queryId')),
    } satisfies Partial<ConnectionManager>;
  }

  private addressVerbs() {
    const { objects, protocol } = this;
    return {
      bindAddr: (handle, local) => {
        const id = objects.requireId(handle, 'bindAddr');
        requireState('bindAddr', id, ['idle']);
        this.bind('bindAddr', id, this.hostAt('bindAddr', 'local', local), local.port);
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
        if (id.state === 'idle') this.bind('listen', id, ANY_HOST, 0);
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
    const { objects, protocol } = this;
    const { mtuBytes } = this.pump.sim.world.params;
    return {
      connect: (handle, param) => {
        const id = objects.requireId(handle, 'connect');
        const full = fullParam('connect', param, limitsOf(id).request);
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
        const attr = qpAttrOf(id, qpState, mtuBytes);
        return { attr, mask: maskOf(attr) };
      },
    } satisfies Partial<ConnectionManager>;
  }

  private destroy(id: CmId): void {
    this.protocol.abandon(id);
    for (const request of this.objects.removeId(id)) this.destroy(request);
  }

  private resolve(id: CmId, local: CmAddress | null, remote: CmAddress): void {
    const { objects, protocol } = this;
    const group = groupOrNull(remote);
    const port = requireInteger('resolveAddr', 'remote.port', remote.port, group === null ? 1 : 0, LAST_PORT);
    const target = group === null ? this.targetOf(id, remote, port) : ANY_HOST;
    if (id.state === 'idle') {
      const host = local === null ? ANY_HOST : this.hostAt('resolveAddr', 'local', local);
      this.bind('resolveAddr', id, host, local?.port ?? 0);
    }
    id.state = 'resolving an address';
    protocol.later(id, 1, () => {
      const from = id.host === ANY_HOST ? this.sourceFor(target) : id.host;
      if (from === null || target === null || !protocol.reachable(target) || !protocol.reachable(from)) {
        id.state = 'bound';
        objects.emit(id, C.RDMA_CM_EVENT_ADDR_ERROR, { status: -C.ETIMEDOUT });
        return;
      }
      id.host = from;
      id.remoteHost = target === ANY_HOST && group === null ? from : target;
      id.remotePort = port;
      id.remoteGroup = group === null ? null : remote.address;
      id.state = 'address resolved';
      objects.emit(id, C.RDMA_CM_EVENT_ADDR_RESOLVED);
    });
  }

  /**
   * The host to connect to. 'localhost' is any listening host, preferably the caller's. Null if the address is unknown.
   */
  private targetOf(id: CmId, remote: CmAddress, port: number): number | null {
    const address = addressText('resolveAddr', 'remote', remote);
    let host: number;
    try {
      host = hostNamed('resolveAddr', this.pump.sim.world.hosts.length, address);
    } catch (error) {
      if (error instanceof ConnectionError && isNumeric(address)) return null;
      throw error;
    }
    if (host !== ANY_HOST) return host;
    const open = this.objects.boundTo(id.portSpace, port).filter((other) => other.state === 'listening');
    return (open.find((other) => other.host === id.host) ?? open[0])?.host ?? ANY_HOST;
  }

  /**
   * The source host when a program names none: preferably another host, so that the connection crosses the
   * network.
   */
  private sourceFor(target: number | null): number | null {
    const alive = this.pump.sim.world.hosts.filter((host) => !host.dead).map((host) => host.index);
    return alive.find((host) => host !== target) ?? alive[0] ?? null;
  }

  private hostAt(verb: string, name: string, at: CmAddress): number {
    const { hosts } = this.pump.sim.world;
    const address = addressText(verb, name, at);
    requireInteger(verb, `${name}.port`, at.port, 0, LAST_PORT);
    let host: number;
    try {
      host = hostNamed(verb, hosts.length, address);
    } catch (cause) {
      if (!(cause instanceof ConnectionError)) throw cause;
      throw new NoDeviceError(cause.message, { verb, errno: C.ENODEV, cause });
    }
    if (host === ANY_HOST || !hosts[host].dead) return host;
    throw new NoDeviceError(`${verb}: sim${host} is dead`, { verb, errno: C.ENODEV });
  }

  private bind(verb: string, id: CmId, host: number, wanted: number): void {
    const where = host === ANY_HOST ? 'this fabric' : `sim${host}`;
    if (wanted !== 0 && this.isTaken(id, host, wanted)) {
      const text = `${verb}: port ${wanted} of ${where} is in use`;
      throw new ConnectionError(text, { verb, errno: C.EADDRINUSE });
    }
    const port = wanted === 0 ? this.freePort(id, host) : wanted;
    if (port === null) {
      const text = `${verb}: ${where} has no free port left; destroy unused identifiers`;
      throw new ConnectionError(text, { verb, errno: C.EADDRNOTAVAIL });
    }
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
        ah: { dgid, sgidIndex: 1, hopLimit: 64, portNum: 1 },
        qpNum: 0xffffff,
        qkey: C.RDMA_UDP_QKEY,
      };
      objects.emit(id, C.RDMA_CM_EVENT_MULTICAST_JOIN, { ud });
    });
  }
}

function infoOf(id: CmId): CmIdInfo {
  const text = (host: number) => (host === ANY_HOST ? '0.0.0.0' : addressOf(host));
  return {
    deviceName: id.host === ANY_HOST ? '' : `sim${id.host}`,
    portNum: id.host === ANY_HOST ? 0 : 1,
    local: { address: text(id.host), port: id.port },
    remote: { address: id.remoteGroup ?? text(id.remoteHost), port: id.remotePort },
  };
}

function addressText(verb: string, name: string, at: CmAddress): string {
  requireObject(verb, name, at);
  if (typeof at.address === 'string') return at.address;
  throw new InvalidArgumentError(`${verb}: ${name}.address must be a string, got ${shown(at.address)}`, {
    verb,
  });
}

function isNumeric(address: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(address) || address.includes(':');
}

function groupOrNull(remote: CmAddress): string | null {
  addressText('resolveAddr', 'remote', remote);
  try {
    return groupGid('resolveAddr', remote);
  } catch (error) {
    if (error instanceof InvalidArgumentError) return null;
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
