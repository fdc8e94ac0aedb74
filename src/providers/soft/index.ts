/**
 * RoCEv2 devices in user space: the transport of src/sim with the real clock, and UDP sockets instead of cables. They
 * interoperate with kernel soft-RoCE and, across processes, with each other; NICs as peers are untested.
 */

import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { UPLINK_NIC } from '../../sim/profile/profiles.ts';
import { Simulation } from '../../sim/simulation.ts';
import type { ConnectionManager } from '../../verbs/connection-manager.ts';
import { IBV_QPS_INIT, IBV_QPS_RTR } from '../../verbs/constants.ts';
import { ConfigError, requireKnown } from '../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../verbs/gid.ts';
import type { Provider, Rendezvous } from '../../verbs/provider.ts';
import { unsupportedVerbs } from '../../verbs/verbs.ts';
import { EventLoopAlarm, sleepInRealTime } from '../rdma-core/alarm.ts';
import { describeNic } from '../rdma-core/nic.ts';
import { tcpRendezvous } from '../rdma-core/rendezvous.ts';
import type { HostNames } from '../sim/addresses.ts';
import { buildProvider } from '../sim/provider.ts';
import { AddressWatch } from './address-watch.ts';
import { PortCapture } from './capture.ts';
import { gidOfAddress } from './cm/exchange.ts';
import { softCm } from './cm/places.ts';
import {
  isLoopback,
  openAt,
  requireReachable,
  requireSameHost,
  type SoftDevice,
  softDevices,
} from './devices.ts';
import { impaired } from './impairment.ts';
import { requireUdp, whyNoUdp } from './native.ts';
import { OpenPorts } from './open-ports.ts';
import { Peers } from './peers.ts';
import { type PortCounters, SoftPort } from './port.ts';
import { RealTimePump } from './pump.ts';

export { whyNoUdp } from './native.ts';

/** Options of createSoftNetwork(). */
export interface SoftOptions {
  /** Addresses of this host, one for each device. Default: those of all network interfaces. */
  addresses?: readonly string[];
  /** Probability that a device loses a packet that it sends, for tests. Default 0. */
  loss?: number;
  /** Delay of packets before they leave, in milliseconds, for tests. Default 0. */
  delayMs?: number;
  /** Probability that a packet leaves at once, in spite of `delayMs`, and so overtakes others. Default 0. */
  reorder?: number;
  /** Seed of losses and of packets that overtake others. Default 1. */
  seed?: number;
  /**
   * Number of UDP source ports over which a device spreads its connections, 1 to 64; with 1, all packets leave from port
   * 4791. Default: 16, and 1 on the loopback interface.
   */
  flows?: number;
  /** File to which all packets are appended, in pcapng. Default: none. */
  pcap?: string;
}

/** Number of source ports of a device that is not on the loopback interface. */
const DEFAULT_FLOWS = 16;
const MAX_FLOWS = 64;

/** The devices of a process. */
export interface SoftNetwork {
  readonly provider: Provider;
  /** What became of the packets of an open device; undefined while it is closed. */
  counters(device: string): Readonly<PortCounters> | undefined;
}

/** Creates the devices. They use sockets while they are open. @throws UnsupportedError without the addon */
export function createSoftNetwork(options: SoftOptions = {}): SoftNetwork {
  requireKnown('createSoftNetwork', options, [
    'addresses',
    'loss',
    'delayMs',
    'reorder',
    'seed',
    'flows',
    'pcap',
  ]);
  const { delayMs = 0, reorder = 0 } = options;
  if (!(delayMs >= 0) || !(reorder >= 0 && reorder <= 1)) {
    throw new ConfigError(
      'createSoftNetwork: delayMs must be at least 0, and reorder a probability from 0 to 1',
    );
  }
  const { loss = 0, seed = 1, flows = 1 } = options;
  const native = delayMs > 0 ? impaired(requireUdp(), { delayMs, reorder, seed }) : requireUdp();
  const devices = softDevices(options.addresses ?? []);
  const peers = new Peers();
  const open = new Map<number, SoftPort>();
  const uplink = {
    hasRoom: (host: number) => open.get(host)?.hasRoom() ?? true,
    send: (host: number, p: number) => open.get(host)?.send(p),
  };
  if (!(Number.isInteger(flows) && flows >= 1 && flows <= MAX_FLOWS)) {
    throw new ConfigError(`createSoftNetwork: flows must be a whole number from 1 to ${MAX_FLOWS}`);
  }
  const sim = new Simulation({ hosts: devices.length, params: UPLINK_NIC, seed, loss, uplink });
  for (const { index } of devices.map((_, i) => ({ index: i }))) {
    sim.world.hosts[index].mtuBytes = devices[index].mtuBytes;
  }
  reserveNumbers(sim);
  const pump = new RealTimePump(sim, native.readClock, open);
  const { pcap } = options;
  const captureOf = (host: number, gid: Uint8Array) =>
    pcap === undefined ? null : new PortCapture(pcap, devices[host].name, gid);
  const watch = new AddressWatch(pump, devices);
  const owner = {
    ...{ sim, peers, native, captureOf },
    flowsOf: (gid: Uint8Array) => options.flows ?? (isLoopback(gid) ? 1 : DEFAULT_FLOWS),
    ifindexOf: (host: number) => devices[host].ifindex,
    onReady: () => pump.turn(),
    onManagement: (host: number, from: Uint8Array, mad: Uint8Array) => cm.receive(host, from, mad),
    onRefused: () => watch.suspect(),
  };
  const start = (host: number) => openAt(devices[host], (gid) => new SoftPort(owner, host, gid));
  const ports = new OpenPorts(pump, start, watch);
  const cm = softCm(pump, devices, ports);
  const provider = softProvider(pump, devices, peers, ports, cm.manager.verbs);
  const portOf = (name: string) => open.get(devices.findIndex((device) => device.name === name));
  return { provider, counters: (name) => portOf(name)?.counters };
}

/** The first queue pair of a process has one of these numbers. Those below are reserved, as on NICs. */
const FIRST_QPN = 0x11;
const FIRST_QPNS = 1024;

/**
 * Begins the numbers of queue pairs at a random number, so that a restarted program does not reuse those that its peers
 * still know.
 */
function reserveNumbers({ world }: Simulation): void {
  const first = randomInt(FIRST_QPN, FIRST_QPN + FIRST_QPNS);
  while (world.qps.length < first) world.qps.push(undefined);
}

function namesOf(devices: readonly SoftDevice[], peers: Peers): HostNames {
  return {
    provider: 'soft',
    deviceName: (host) => devices[host].name,
    gidOf: (host) => devices[host].gid,
    gidEntry: (host, index) => ({
      index,
      gid: index === 0 ? devices[host].gid : '::',
      type: 'RoCE v2',
      ndevIfindex: index === 0 ? devices[host].ifindex : 0,
    }),
    hostOf: (gid, from, verb) => {
      requireReachable(verb, devices[from], gid);
      return peers.numberOf(gid);
    },
  };
}

function softProvider(
  pump: RealTimePump,
  devices: readonly SoftDevice[],
  peers: Peers,
  ports: OpenPorts,
  cm: ConnectionManager,
): Provider {
  const names = namesOf(devices, peers);
  const { provider: base } = buildProvider(pump, { rendezvous: rendezvousOf(devices), cm }, true, names);
  return Object.freeze({
    ...base,
    describeWait: () => 'WAIT and ENABLE are executed by the device, which is software',
    describeNic: (context: number) => ({ ...describeNic(base, context), arbitrates: false }),
    ...lifetimes(base, ports),
    ...timedVerbs(base, pump),
    ...groupVerbs(base, pump),
    ...refusals(),
    nowNs: () => pump.nowNs,
    sleep: sleepInRealTime,
    createAlarm: (_context: number, _keeps: unknown, listener: () => void) =>
      new EventLoopAlarm(() => pump.nowNs, listener),
  });
}

/** TCP. A device on the loopback interface does not connect to another host, because its packets do not leave its own. */
function rendezvousOf(devices: readonly SoftDevice[]): Rendezvous {
  return Object.freeze({
    ...tcpRendezvous,
    async connect(host: number, options: Parameters<Rendezvous['connect']>[1]) {
      const wire = await tcpRendezvous.connect(host, options);
      // Without the port, and without the interface of a link-local address.
      const [address] = wire.remoteAddress.slice(0, wire.remoteAddress.lastIndexOf(':')).split('%');
      try {
        requireSameHost('connect', devices[host], gidToString(gidToBytes(gidOfAddress(address))));
      } catch (error) {
        wire.close();
        throw error;
      }
      return wire;
    },
  });
}

type Lifetimes = Pick<
  Provider,
  'openDevice' | 'closeDevice' | 'refCompChannel' | 'destroyCompChannel' | 'refAsyncEvents'
>;

/** Opens the socket of a device with its first context, and keeps the process alive while a listener asks for it. */
function lifetimes(base: Provider, ports: OpenPorts): Lifetimes {
  const hostByContext = new Map<number, number>();
  return {
    openDevice(name, options) {
      const context = base.openDevice(name, options);
      const host = base.getDeviceList().findIndex((device) => device.name === name);
      try {
        ports.acquire(host);
      } catch (error) {
        base.closeDevice(context);
        throw error;
      }
      hostByContext.set(context, host);
      return context;
    },
    closeDevice(context) {
      base.closeDevice(context);
      const host = hostByContext.get(context) as number;
      hostByContext.delete(context);
      ports.keep(context, false);
      ports.release(host);
    },
    refCompChannel(channel, keeps) {
      base.refCompChannel(channel, keeps);
      ports.keep(channel, keeps);
    },
    destroyCompChannel(channel) {
      base.destroyCompChannel(channel);
      ports.keep(channel, false);
    },
    refAsyncEvents(context, keeps) {
      base.refAsyncEvents(context, keeps);
      ports.keep(context, keeps);
    },
  };
}

type TimedVerbs = Pick<Provider, 'postSend' | 'postRecv' | 'modifyQp' | 'destroyQp'>;

/** Verbs whose effects carry the time of the call. */
function timedVerbs(base: Provider, pump: RealTimePump): TimedVerbs {
  return {
    postSend(qp, ring, start, count) {
      pump.tick();
      return base.postSend(qp, ring, start, count);
    },
    postRecv(qp, ring, start, count) {
      pump.tick();
      return base.postRecv(qp, ring, start, count);
    },
    modifyQp(qp, attr, mask) {
      // What has arrived for a former connection of the queue pair is dropped before the next one begins.
      if (attr?.qpState === IBV_QPS_INIT || attr?.qpState === IBV_QPS_RTR) pump.turn();
      else pump.tick();
      base.modifyQp(qp, attr, mask);
    },
    destroyQp(qp) {
      pump.tick();
      base.destroyQp(qp);
    },
  };
}

/** Multicast groups: a device joins and leaves them as its queue pairs are attached and detached. */
function groupVerbs(
  base: Provider,
  { sim, open }: RealTimePump,
): Pick<Provider, 'attachMcast' | 'detachMcast'> {
  const follow = (gid: string) => {
    const text = gidToString(gidToBytes(gid));
    for (const port of open.values()) port.updateMembership(text, sim.world.groups.at(text));
  };
  return {
    attachMcast(qp, gid, lid) {
      base.attachMcast(qp, gid, lid);
      try {
        follow(gid);
      } catch (error) {
        base.detachMcast(qp, gid, lid);
        throw error;
      }
    },
    detachMcast(qp, gid, lid) {
      base.detachMcast(qp, gid, lid);
      follow(gid);
    },
  };
}

/** Verbs that these devices do not support. */
function refusals() {
  const no = 'user-space RoCE devices do not support enhanced connection establishment';
  return unsupportedVerbs({ queryEce: no, setEce: no });
}

/** Names the file of captured packets, for this process and its threads. */
const PCAP_VARIABLE = 'ISOVERBS_SOFT_PCAP';

/**
 * Empties a file, and writes to it the packets of all devices that this process and its threads open.
 * @throws ConfigError if the file cannot be written
 */
export function captureTo(file: string): void {
  try {
    writeFileSync(file, '');
  } catch (cause) {
    throw new ConfigError(`pcap: cannot write ${file}: ${(cause as Error).message}`, { cause });
  }
  process.env[PCAP_VARIABLE] = file;
}

/** The value of ISOVERBS_SOFT_FLOWS. @throws ConfigError if it is not a valid number of source ports */
function flowsOfVariable(): number | undefined {
  const text = process.env.ISOVERBS_SOFT_FLOWS || undefined;
  if (text === undefined) return undefined;
  const flows = Number(text);
  if (Number.isInteger(flows) && flows >= 1 && flows <= MAX_FLOWS) return flows;
  throw new ConfigError(`ISOVERBS_SOFT_FLOWS must be a whole number from 1 to ${MAX_FLOWS}, got '${text}'`);
}

let shared: SoftNetwork | null = null;

/**
 * The devices of programs that do not create them: those of ISOVERBS_SOFT_ADDRESSES (addresses, separated by commas), or of
 * all network interfaces; soft0 is the loopback interface. ISOVERBS_SOFT_FLOWS is their number of source ports.
 * ISOVERBS_SOFT_PCAP names a file to which their packets are appended, in pcapng. @throws UnsupportedError without the addon, ConfigError
 */
export function defaultSoftProvider(): Provider {
  const addresses = (process.env.ISOVERBS_SOFT_ADDRESSES ?? '').split(',').map((text) => text.trim());
  const pcap = process.env[PCAP_VARIABLE] || undefined;
  const flows = flowsOfVariable();
  shared ??= createSoftNetwork({ addresses: addresses.filter((text) => text !== ''), flows, pcap });
  return shared.provider;
}

/** What became of the packets of an open device of defaultSoftProvider(); undefined while the device is closed. */
export function softCounters(device: string): Readonly<PortCounters> | undefined {
  return shared?.counters(device);
}

/** Whether such devices can be opened here. */
export function isSoftAvailable(): boolean {
  return whyNoUdp() === null;
}
