/** rdma_cm on user-space RoCE devices: their addresses and sockets. */
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { isIP } from 'node:net';
import { ROCE_PORT } from '../../../roce/icrc.ts';
import * as C from '../../../verbs/constants.ts';
import { ConnectionError, InvalidArgumentError, NoDeviceError, shown } from '../../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../../verbs/gid.ts';
import { mtuCode } from '../../../verbs/names.ts';
import type { AhAttr } from '../../../verbs/types.ts';
import { ANY_HOST } from '../../sim/addresses.ts';
import { CmManager, type CmPlaces, type CmRoute } from '../../sim/cm/manager.ts';
import { type CmId, CmObjects } from '../../sim/cm/objects.ts';
import { addressOf, type SoftDevice } from '../devices.ts';
import type { OpenPorts } from '../open-ports.ts';
import type { RealTimePump } from '../pump.ts';
import { gidOfAddress, SoftExchange } from './exchange.ts';
import { CmInbound } from './inbound.ts';

const WILDCARDS = new Set(['0.0.0.0', '::']);
const LOOPBACK = '127.0.0.1';
/** The most datagrams that wait for the event loop. Others are dropped, and their senders repeat them. */
const MAX_WAITING = 1024;

class SoftPlaces implements CmPlaces {
  readonly network = 'this process';
  /** Hosts whose ports identifiers use. */
  private readonly held = new Map<CmId, number[]>();
  private readonly pump: RealTimePump;
  private readonly devices: readonly SoftDevice[];
  private readonly ports: OpenPorts;
  private readonly mtuCodeOf: (id: CmId) => number;

  constructor(
    pump: RealTimePump,
    devices: readonly SoftDevice[],
    ports: OpenPorts,
    mtuCodeOf: (id: CmId) => number,
  ) {
    this.pump = pump;
    this.devices = devices;
    this.ports = ports;
    this.mtuCodeOf = mtuCodeOf;
  }

  nameOf(host: number): string {
    return this.devices[host].name;
  }

  addressOf(host: number): string {
    return addressOf(this.devices[host].gid);
  }

  mtuBytes(id: CmId): number {
    return 128 << this.mtuCodeOf(id);
  }

  ahTo(id: CmId): AhAttr {
    return this.ahToGroup(gidOfAddress(id.remoteAddress ?? ''));
  }

  ahToGroup(dgid: string): AhAttr {
    return { dgid, sgidIndex: 0, hopLimit: 64, portNum: 1 };
  }

  hostAt(verb: string, name: string, text: string): number {
    if (WILDCARDS.has(text)) return ANY_HOST;
    const address = text === 'localhost' ? LOOPBACK : text;
    const gid = requireIp(verb, name, address);
    const host = text === 'localhost' ? this.hostOfSource(address) : this.hostOf(addressOf(gid));
    if (host >= 0) return host;
    throw new NoDeviceError(
      `${verb}: no user-space RoCE device has the address ${address}; 'isoverbs devices' lists the devices, and ISOVERBS_SOFT_ADDRESSES sets their addresses`,
      { verb, errno: C.ENODEV },
    );
  }

  hold(verb: string, id: CmId, host: number, address: string | null): void {
    const held = this.held.get(id) ?? [];
    this.held.set(id, held);
    if (host === ANY_HOST) {
      this.holdAll(held);
      return;
    }
    this.ports.acquire(host);
    // On the loopback interface, a device takes the next address if another process has the first one.
    if (address === null || address === 'localhost' || this.hostOf(address) === host) {
      held.push(host);
      return;
    }
    const got = this.addressOf(host);
    this.ports.release(host);
    throw new ConnectionError(
      `${verb}: another process uses ${address}; ${this.nameOf(host)} of this process has ${got}`,
      { verb, errno: C.EADDRINUSE },
    );
  }

  /** Opens all devices that can be opened. @throws ConnectionError if none can */
  private holdAll(held: number[]): void {
    let failure: unknown = null;
    for (const host of this.devices.keys()) {
      try {
        this.ports.acquire(host);
        held.push(host);
      } catch (error) {
        failure ??= error;
      }
    }
    if (held.length === 0 && failure !== null) throw failure;
  }

  private hostOf(address: string): number {
    const gid = gidOf(address);
    return this.devices.findIndex((device) => device.gid === gid);
  }

  release(id: CmId): void {
    for (const host of this.held.get(id) ?? []) this.ports.release(host);
    this.held.delete(id);
  }

  keepAlive(channel: number, keeps: boolean): void {
    this.ports.keep(channel, keeps);
  }

  route(id: CmId, text: string, _port: number, _isGroup: boolean): (found: (route: CmRoute) => void) => void {
    const gid = requireIp('resolveAddr', 'remote', text === 'localhost' ? LOOPBACK : text);
    const remoteAddress = addressOf(gid);
    return (found) => {
      const toHost = (host: number) => found({ host, remoteHost: ANY_HOST, remoteAddress });
      if (id.host !== ANY_HOST) {
        const sameFamily = isIP(this.addressOf(id.host)) === isIP(remoteAddress);
        this.pump.notify(() => (sameFamily ? toHost(id.host) : found(-C.ENETUNREACH)));
        return;
      }
      sourceOf(remoteAddress, (source) => {
        if (typeof source === 'number') found(source);
        else {
          const host = this.hostOfSource(source);
          if (host < 0) found(-C.ENODEV);
          else toHost(host);
        }
      });
    };
  }

  /** The device with an address that the kernel chose. All of 127.0.0.0/8 is on one interface. */
  private hostOfSource(source: string): number {
    const host = this.hostOf(source);
    if (host >= 0 || !source.startsWith('127.')) return host;
    return this.devices.findIndex((device) => addressOf(device.gid).startsWith('127.'));
  }
}

/** The GID of an address, in its shortest form. */
function gidOf(address: string): string {
  return gidToString(gidToBytes(gidOfAddress(address)));
}

function requireIp(verb: string, name: string, address: string): string {
  if (isIP(address) !== 0 && !address.includes('%')) return gidOf(address);
  throw new InvalidArgumentError(
    `${verb}: ${name}.address must be an IPv4 address, or an IPv6 address that is not link-local, got ${shown(address)}`,
    { verb },
  );
}

/** Finds the address from which the kernel would send to `remote`, or a negative errno. Nothing is sent. */
function sourceOf(remote: string, found: (source: string | number) => void): void {
  const socket = createSocket(isIP(remote) === 4 ? 'udp4' : 'udp6');
  const fail = (error: NodeJS.ErrnoException) => {
    socket.close();
    found(error.errno ?? -C.ENETUNREACH);
  };
  socket.once('error', fail);
  // Without a route, the callback of connect() gets the error.
  socket.connect(ROCE_PORT, remote, (error?: Error) => {
    if (error) {
      fail(error);
      return;
    }
    socket.off('error', fail);
    const { address } = socket.address();
    socket.close();
    found(address);
  });
}

/** The connection manager of user-space RoCE devices, and its entry for management datagrams. */
export interface SoftCm {
  readonly manager: CmManager;
  /** A datagram has arrived at queue pair 1 of a host. It is processed later, not within this call. */
  receive(host: number, from: Uint8Array, mad: Uint8Array): void;
}

/** Creates the connection manager of these devices. */
export function softCm(pump: RealTimePump, devices: readonly SoftDevice[], ports: OpenPorts): SoftCm {
  const objects = new CmObjects(pump);
  const places = new SoftPlaces(pump, devices, ports, (id) => protocol.mtuCodeOf(id));
  const protocol = new SoftExchange(objects, {
    send: (host, gid, mad) => pump.open.get(host)?.sendManagement(gidToBytes(gid), mad),
    after(delayNs, action) {
      if (delayNs === 0) pump.notify(action);
      else {
        pump.tick();
        pump.after(delayNs, action);
      }
    },
    random: () => randomBytes(4).readUInt32LE(0),
    gidOf: (host) => devices[host].gid,
    mtuCode: (host) => mtuCode(pump.sim.world.hosts[host].mtuBytes),
    hold: (id, host) => places.hold('listen', id, host, null),
    linger: (host) => ports.linger(host),
  });
  const inbound = new CmInbound(protocol);
  const manager = new CmManager({ pump, objects, protocol, places });
  let waiting = 0;
  return {
    manager,
    receive(host, from, mad) {
      if (waiting === MAX_WAITING) return;
      waiting++;
      pump.notify(() => {
        waiting--;
        inbound.receive(host, gidToString(from), mad);
      });
    },
  };
}
