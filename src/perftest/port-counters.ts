/** Counters of the port of a test, and how much each has grown since the last report (--report-counters). */
import { readdirSync, readFileSync } from 'node:fs';
import type { Fabric } from '../providers/sim/index.ts';
import { softCounters } from '../providers/soft/index.ts';
import { ConfigError } from '../verbs/errors.ts';

/** The counters that a port has. */
export interface CounterSource {
  names(): readonly string[];
  /** The value of one of these. */
  read(name: string): number;
}

/** Folders of counters of a port. Their meanings are the driver's. */
const FOLDERS = ['counters', 'hw_counters'];
/** A setting of the hardware counters, in milliseconds. */
const LIFESPAN = 'lifespan';

/**
 * The counters in sysfs, named as perftest names them: `counters/port_xmit_data`, `hw_counters/out_of_buffer`.
 * @param sysfs the folder in which the kernel lists RDMA devices
 */
export function sysfsCounters(device: string, port: number, sysfs = '/sys/class/infiniband'): CounterSource {
  const folder = `${sysfs}/${device}/ports/${port}`;
  const list = (name: string) => {
    try {
      return readdirSync(`${folder}/${name}`).sort();
    } catch {
      return [];
    }
  };
  return {
    names: () =>
      FOLDERS.flatMap((name) =>
        list(name)
          .filter((counter) => counter !== LIFESPAN)
          .map((counter) => `${name}/${counter}`),
      ),
    read: (name) => Number(readFileSync(`${folder}/${name}`, 'utf8')),
  };
}

/** What a user-space RoCE device counts (PortCounters of src/providers/soft). The device must be open. */
export function softSource(device: string): CounterSource {
  const counters = () => softCounters(device) as unknown as Readonly<Record<string, number>>;
  return { names: () => Object.keys(counters() ?? {}), read: (name) => counters()[name] };
}

/** What the simulation counts: the bytes of a device, headers included, and the packets of all devices. */
export function simSource(device: string, { simulation: { world } }: Fabric): CounterSource {
  const host = Number(device.replace('sim', ''));
  // Each host has two ports: its link, and the loopback.
  const counters: Readonly<Record<string, () => number>> = {
    sentBytes: () => world.ports[2 * host].bytesOut[0],
    loopbackBytes: () => world.ports[2 * host + 1].bytesOut[0],
    packets: () => world.packetCount[0],
    lostPackets: () => world.packetCount[1],
    congestionNotifications: () => world.cnpCount[0],
  };
  return { names: () => Object.keys(counters), read: (name) => counters[name]() };
}

/** The counters that a test reports. */
export class PortCounters {
  private readonly source: CounterSource;
  private readonly names: readonly string[];
  private readonly last: number[];

  /** @param list their names, separated by commas. @throws ConfigError for a name that the port does not have */
  constructor(source: CounterSource, list: string) {
    this.source = source;
    this.names = list.split(',').map((name) => name.trim());
    const known = source.names();
    for (const name of this.names) {
      if (known.includes(name)) continue;
      throw new ConfigError(
        `--report-counters: the port has no counter '${name}'; ${known.length === 0 ? 'it has no counters' : `it has ${known.join(', ')}`}`,
      );
    }
    this.last = this.names.map((name) => source.read(name));
  }

  /** How much each has grown since the last call, or since construction. */
  differences(): Record<string, number> {
    const { names, last, source } = this;
    return Object.fromEntries(
      names.map((name, i) => {
        const before = last[i];
        last[i] = source.read(name);
        return [name, last[i] - before];
      }),
    );
  }
}

/** The counters of a list; null without a list, or without a source. @throws ConfigError for unknown names */
export function countersOf(list: string | undefined, source: CounterSource | undefined): PortCounters | null {
  return list === undefined || source === undefined ? null : new PortCounters(source, list);
}
