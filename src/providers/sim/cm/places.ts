/** rdma_cm between the hosts of a fabric. The same program gets the same events, because everything happens in virtual time. */
import * as C from '../../../verbs/constants.ts';
import { ConnectionError, NoDeviceError } from '../../../verbs/errors.ts';
import { ANY_HOST, addressOf, hostNamed } from '../addresses.ts';
import type { TimePump } from '../time-pump.ts';
import { CmManager, type CmPlaces, type CmRoute } from './manager.ts';
import { type CmId, CmObjects } from './objects.ts';
import { ahTo, CmProtocol } from './protocol.ts';

/** The simulated hosts: sim0, sim1 ... */
class SimPlaces implements CmPlaces {
  readonly network = 'this fabric';
  private readonly pump: TimePump;
  private readonly objects: CmObjects;
  private readonly protocol: CmProtocol;

  constructor(pump: TimePump, objects: CmObjects, protocol: CmProtocol) {
    this.pump = pump;
    this.objects = objects;
    this.protocol = protocol;
  }

  nameOf(host: number): string {
    return `sim${host}`;
  }

  addressOf(host: number): string {
    return addressOf(host);
  }

  mtuBytes(): number {
    return this.pump.sim.world.params.mtuBytes;
  }

  ahTo(id: CmId) {
    return ahTo(id.remoteHost);
  }

  ahToGroup(dgid: string) {
    return { dgid, sgidIndex: 1, hopLimit: 64, portNum: 1 };
  }

  hostAt(verb: string, _name: string, address: string): number {
    const { hosts } = this.pump.sim.world;
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

  route(
    id: CmId,
    address: string,
    port: number,
    isGroup: boolean,
  ): (found: (route: CmRoute) => void) => void {
    const target = isGroup ? ANY_HOST : this.targetOf(id, address, port);
    return (found) =>
      this.protocol.later(id, 1, () => {
        const { protocol } = this;
        const host = id.host === ANY_HOST ? this.sourceFor(target) : id.host;
        if (host === null || target === null || !protocol.reachable(target) || !protocol.reachable(host)) {
          found(-C.ETIMEDOUT);
          return;
        }
        const remoteHost = target === ANY_HOST && !isGroup ? host : target;
        found({ host, remoteHost, remoteAddress: isGroup ? address : null });
      });
  }

  hold(): void {}

  release(): void {}

  // Pending events keep the process alive anyway (time-pump.ts), and if none are pending, none can arrive.
  keepAlive(): void {}

  /**
   * The host to connect to. 'localhost' is any listening host, preferably the caller's. Null if the address is unknown.
   */
  private targetOf(id: CmId, address: string, port: number): number | null {
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
}

function isNumeric(address: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(address) || address.includes(':');
}

/** The connection manager of a fabric. `hostDied` notifies the peers of a host that died. */
export function simCm(pump: TimePump): { cm: CmManager; hostDied(host: number): void } {
  const objects = new CmObjects(pump);
  const protocol = new CmProtocol(pump, objects);
  const cm = new CmManager({ pump, objects, protocol, places: new SimPlaces(pump, objects, protocol) });
  return { cm, hostDied: (host) => protocol.hostDied(host) };
}
