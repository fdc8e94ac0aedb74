/** `isoverbs devices`: lists devices, and what real devices still require. */
import type { Command } from 'commander';
import type { AddonSource } from '../../providers/native-addon.ts';
import type { DeviceInfo, WaitSupport } from '../../verbs/index.ts';
import { debug } from '../log.ts';
import { describe } from '../manual.ts';
import { jsonText } from '../output/json.ts';
import { tableText } from '../output/table.ts';

/** Adds `devices` to the command. */
export function addDevices(command: Command): void {
  const sub = command
    .command('devices')
    .description('list the devices, and what is required to use real ones')
    .option('--json', 'print one JSON object: { addon, devices, notes }')
    .action(devices);
  describe(sub, {
    about:
      'Lists each port of each device, real devices first, with its GIDs, and how the device executes WAIT and ENABLE ' +
      '(docs/wait-enable.md). Devices of user-space RoCE (docs/soft.md) come last. Notes explain what real devices still ' +
      'require, and how to provide it. A device that cannot be opened is listed with the reason. The last note says whether ' +
      'the addon came with the package (`prebuilt`) or was built on this machine (`built here`).',
    examples: [
      ['isoverbs devices', 'as tables'],
      ['isoverbs devices --json', 'for programs, with firmware versions, LIDs and maximum MTUs'],
    ],
    failed: 'the devices cannot be listed',
    environment: [
      'ISOVERBS_NO_ADDON',
      'ISOVERBS_SIM_HOSTS',
      'ISOVERBS_SOFT_ADDRESSES',
      'ISOVERBS_SOFT_FLOWS',
    ],
    seeAlso: ['docs/soft.md', 'docs/support.md', 'docs/wait-enable.md', 'ibv_devinfo(1)'],
  });
}

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
  /** How ISO_WR_WAIT and ISO_WR_ENABLE are executed: by the device, or by a shim in front of it. */
  wait?: WaitSupport;
  /** How WAIT would be executed, and why not in hardware. */
  waitNote?: string;
  ports?: PortReport[];
  /** Why the device could not be opened. */
  error?: string;
}

const PORT_STATES = ['NOP', 'DOWN', 'INIT', 'ARMED', 'ACTIVE', 'ACTIVE_DEFER'];

async function devices(options: { json?: boolean }): Promise<void> {
  const { getDeviceList } = await import('../../open.ts');
  const { defaultSoftProvider, isSoftAvailable } = await import('../../providers/soft/index.ts');
  const list = getDeviceList();
  // The list of a program contains them only if ISOVERBS_PROVIDER names them.
  const lacksSoft = isSoftAvailable() && list.every(({ provider }) => provider !== 'soft');
  if (lacksSoft) list.push(...defaultSoftProvider().getDeviceList());
  const reports: DeviceReport[] = [];
  for (const device of list) reports.push(await reportOf(device));
  const { addonStatus } = await import('../../providers/rdma-core/index.ts');
  const report = { addon: addonStatus().source ?? null, devices: reports, notes: await notes(list) };
  if (options.json) process.stdout.write(jsonText(report));
  else process.stdout.write(asText(report.devices, [...report.notes, addonText(report.addon)]));
}

async function reportOf(device: DeviceInfo): Promise<DeviceReport> {
  const { openDevice } = await import('../../open.ts');
  const { IBV_PORT_ACTIVE, mtuBytes } = await import('../../verbs/index.ts');
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
    await debug(error);
    return { ...device, error: (error as Error).message };
  }
}

function addonText(source: AddonSource | null): string {
  if (source === null) return 'no addon is in use';
  return source === 'prebuilt' ? 'the addon came with the package' : 'the addon was built on this machine';
}

/** What real devices still require, and how to provide it. */
async function notes(list: readonly DeviceInfo[]): Promise<string[]> {
  const { addonStatus } = await import('../../providers/rdma-core/index.ts');
  const { available, notes: reasons } = addonStatus();
  const { whyNoUdp } = await import('../../providers/soft/index.ts');
  const why = whyNoUdp();
  const soft = [
    why === null
      ? 'soft0 ... connect processes and hosts over UDP, without an RDMA device: name one, or set ISOVERBS_PROVIDER=soft (docs/soft.md)'
      : `there are no user-space RoCE devices: ${why}`,
  ];
  if (!available) return [...reasons, ...soft];
  if (list.some((device) => device.provider === 'rdma-core')) return [];
  return [
    ...soft,
    'the RDMA libraries are installed, but the kernel has no RDMA device',
    'to create a software device on an Ethernet interface (soft-RoCE): `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`',
    'if the kernel lacks that module: `isoverbs rxe -- COMMAND` runs a command in a virtual machine with a soft-RoCE device',
  ];
}

function asText(list: readonly DeviceReport[], remarks: readonly string[]): string {
  const parts = [ports(list), gids(list)];
  const unopened = list.flatMap(({ name, error }) =>
    error === undefined ? [] : [`${name}: cannot be opened: ${error}`],
  );
  const waits = list.flatMap(({ name, wait, waitNote }) =>
    waitNote === undefined || wait === 'simulated' ? [] : [`${name}: ${waitNote}`],
  );
  parts.push([...unopened, ...waits, ...remarks].map((remark) => `note: ${remark}`).join('\n'));
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

function ports(list: readonly DeviceReport[]): string {
  const head = ['device', 'provider', 'port', 'state', 'mtu', 'link', 'wait'];
  const rows = list.flatMap(({ name, provider, wait, ports: all }) => {
    if (all === undefined) return [[name, provider, '-', 'not open', '-', '-', '-']];
    return all.map(({ port, state, activeMtuBytes, linkLayer }) => {
      return [name, provider, `${port}`, state, `${activeMtuBytes}`, linkLayer, wait ?? 'none'];
    });
  });
  return tableText(rows, { head });
}

function gids(list: readonly DeviceReport[]): string {
  const rows = list.flatMap(({ name, ports: all = [] }) =>
    all.flatMap(({ port, gids: own }) =>
      own.map(({ index, type, gid }) => [name, `${port}`, `${index}`, type, gid]),
    ),
  );
  return rows.length === 0 ? '' : tableText(rows, { head: ['device', 'port', 'index', 'type', 'gid'] });
}
