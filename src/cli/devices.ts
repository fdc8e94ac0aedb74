import type { Logger } from 'pino';
import { getDeviceList, openDevice } from '../open.ts';
import { addonStatus } from '../providers/rdma-core/index.ts';
import { type DeviceInfo, IBV_PORT_ACTIVE, mtuBytes, type WaitSupport } from '../verbs/index.ts';

interface PortReport {
  port: number;
  state: string;
  linkLayer: string;
  lid: number;
  activeMtuBytes: number;
  maxMtuBytes: number;
  gids: { index: number; gid: string; type: string }[];
}

interface DeviceReport extends DeviceInfo {
  fwVer?: string;
  /** How ISO_WR_WAIT and ISO_WR_ENABLE are done: by the device, or by a shim in front of it. */
  wait?: WaitSupport;
  /** How WAIT would be done, and why not in hardware. */
  waitNote?: string;
  ports?: PortReport[];
  /** Why it could not be opened. */
  error?: string;
}

const PORT_STATES = ['NOP', 'DOWN', 'INIT', 'ARMED', 'ACTIVE', 'ACTIVE_DEFER'];

/** `isoverbs devices`. */
export function devices(options: { json?: boolean }, log: Logger): void {
  const list = getDeviceList();
  const report = { devices: list.map((device) => describe(device, log)), notes: notes(list) };
  if (options.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  else process.stdout.write(asText(report.devices, report.notes));
}

function describe(device: DeviceInfo, log: Logger): DeviceReport {
  try {
    const context = openDevice(device.name, { provider: device.provider as 'sim', policy: null });
    try {
      const { fwVer, physPortCnt } = context.queryDevice();
      const ports = Array.from({ length: physPortCnt }, (_, i): PortReport => {
        const port = context.queryPort(i + 1);
        return {
          port: i + 1,
          state: PORT_STATES[port.state] ?? `${port.state}`,
          linkLayer: port.linkLayer,
          lid: port.lid,
          activeMtuBytes: mtuBytes(port.activeMtu),
          maxMtuBytes: mtuBytes(port.maxMtu),
          gids: port.state === IBV_PORT_ACTIVE ? context.gids(i + 1) : [],
        };
      });
      const { wait, describeWait } = context.provider;
      return { ...device, fwVer, wait, waitNote: describeWait?.(context.handle), ports };
    } finally {
      context.close();
    }
  } catch (error) {
    log.debug(error);
    return { ...device, error: (error as Error).message };
  }
}

/** What is missing for real devices, and what to do about it. */
function notes(list: readonly DeviceInfo[]): string[] {
  const { available, notes: reasons } = addonStatus();
  if (!available) return reasons;
  if (list.some((device) => device.provider !== 'sim')) return [];
  return [
    'the RDMA libraries are there, but the kernel has no RDMA device',
    'for a software one on an Ethernet interface (soft-RoCE): `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`',
    'where the kernel has no such module: `scripts/rxe-run -- COMMAND` of this package runs a command in a virtual machine with a soft-RoCE device',
  ];
}

function asText(list: DeviceReport[], remarks: string[]): string {
  const lines = [row('device', 'provider', 'port', 'state', 'mtu', 'link', 'wait', 'gid')];
  for (const device of list) {
    if (device.ports === undefined) lines.push(`${device.name}: cannot be opened: ${device.error}`);
    for (const port of device.ports ?? []) {
      const gid = port.gids.map((entry) => `${entry.gid} (${entry.index}, ${entry.type})`).join(' ');
      const mtu = `${port.activeMtuBytes}`;
      const { name, provider, wait } = device;
      lines.push(row(name, provider, `${port.port}`, port.state, mtu, port.linkLayer, wait ?? '', gid));
    }
  }
  const waits = list.flatMap(({ name, wait, waitNote }) =>
    waitNote === undefined || wait === 'simulated' ? [] : [`${name}: ${waitNote}`],
  );
  return `${[...lines, ...[...waits, ...remarks].map((remark) => `note: ${remark}`)].join('\n')}\n`;
}

function row(...cells: string[]): string {
  const widths = [10, 11, 5, 8, 6, 11, 10, 0];
  return cells
    .map((cell, i) => cell.padEnd(widths[i]))
    .join('')
    .trimEnd();
}
