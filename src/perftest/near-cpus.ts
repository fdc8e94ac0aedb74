/** The CPUs near a device, as the kernel knows them. */
import { readFileSync } from 'node:fs';
import { ConfigError } from '../verbs/errors.ts';

/**
 * The CPUs of the NUMA node of a device's NIC, as a list such as `0-15,32-47`.
 * @param sysfs the folder in which the kernel lists RDMA devices
 * @throws ConfigError if the device is simulated, or the kernel knows no CPUs near it
 */
export function cpusNear(device: string, sysfs = '/sys/class/infiniband'): string {
  let list = '';
  try {
    list = readFileSync(`${sysfs}/${device}/device/local_cpulist`, 'utf8').trim();
  } catch {
    // Devices that are no PCI devices, such as soft-RoCE, have no such file.
  }
  if (list !== '') return list;
  throw new ConfigError(
    `--cpu auto: the kernel knows no CPUs near ${device}, which is simulated or not on PCIe; name CPUs, such as --cpu 0-3`,
  );
}
