/** The hardware counters of devices, as the kernel shows them in sysfs. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Where the kernel lists RDMA devices. */
export const SYSFS = '/sys/class/infiniband';
/** Bounds the number of series of a port. */
const MAX_OF_PORT = 256;
/** A setting of the counters, in milliseconds. */
const LIFESPAN = 'lifespan';

/** The value of a counter of a port of a device. */
export interface HwCounter {
  readonly device: string;
  readonly port: string;
  readonly counter: string;
  readonly value: number;
}

/**
 * The counters in `DEVICE/ports/PORT/hw_counters` of these devices; none for devices that are not in sysfs. Their meanings
 * are the driver's.
 * @param sysfs the folder of devices
 */
export async function hwCounters(devices: readonly string[], sysfs: string = SYSFS): Promise<HwCounter[]> {
  const all = await Promise.all(devices.filter(isName).map((device) => countersOf(device, sysfs)));
  return all.flat();
}

/** The names of devices come from the kernel or the configuration; none is a path. */
const isName = (device: string) => /^[\w.-]+$/.test(device) && !device.startsWith('.');

async function countersOf(device: string, sysfs: string): Promise<HwCounter[]> {
  const ports = join(sysfs, device, 'ports');
  const found = await Promise.all(
    (await names(ports)).map(async (port) => {
      const folder = join(ports, port, 'hw_counters');
      const counters = (await names(folder)).filter((name) => name !== LIFESPAN).slice(0, MAX_OF_PORT);
      return Promise.all(
        counters.map(async (counter) => ({
          device,
          port,
          counter,
          value: await numberIn(join(folder, counter)),
        })),
      );
    }),
  );
  return found.flat().filter(({ value }) => Number.isFinite(value));
}

async function names(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).sort();
}

/** NaN if the counter cannot be read, or is no number. */
async function numberIn(file: string): Promise<number> {
  const text = (await readFile(file, 'utf8').catch(() => '')).trim();
  return text === '' ? Number.NaN : Number(text);
}
