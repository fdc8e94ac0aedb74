/** `isoverbs calibrate`: measures the facts about a device that no verb reports, and writes them to a facts file. */
import { readlinkSync, renameSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Command } from 'commander';
import { Context } from '../../objects/index.ts';
import { getDeviceList, providerFor } from '../../open.ts';
import { calibrate } from '../../perftest/calibration/calibrate.ts';
import { FACTS_FORMAT, type FactsFile } from '../../providers/facts.ts';
import { createFabric, PROFILES } from '../../providers/sim/index.ts';
import { ConfigError, type Provider } from '../../verbs/index.ts';
import { meantBy } from '../../verbs/suggestions.ts';
import { describe } from '../manual.ts';
import { brief } from '../output/compare-table.ts';
import { tableText } from '../output/table.ts';

interface Options {
  device?: string;
  peer?: string[];
  provider?: string;
  profile?: string;
  hosts?: string;
  seed?: string;
  out?: string;
  json?: boolean;
}

/** Adds `calibrate` to the command. */
export function addCalibrate(command: Command): void {
  const sub = command
    .command('calibrate')
    .description(
      'measure the rates and latencies that a device really reaches, and write them to a facts file',
    )
    .option('--device <device>', 'device to measure (default: the first one)')
    .option(
      '--peer <device...>',
      'devices of this machine to send to (default: all others or, if there are none, the device itself)',
    )
    .option('--provider <provider>', 'rdma-core or sim (default: rdma-core if it has a device)')
    .option('--profile <profile>', 'sim: simulated NIC (default cx6-100g)')
    .option('--hosts <n>', 'sim: number of hosts (default 2)')
    .option('--seed <n>', 'sim: seed of all random variation (default 1)')
    .option('--out <file>', 'write the facts to this file')
    .option('--json', 'print the contents of the facts file instead of a table')
    .action(run);
  describe(sub, {
    about:
      'Measures the highest rate of the device, the message rates of the device and of one queue pair, the ' +
      'rate that each chunk size reaches, and the p99 latency to each peer. The device should be idle. ' +
      'Measurements take a few seconds, and no policy applies to them. Policies use the facts in the file ' +
      'that ISOVERBS_FACTS names.',
    examples: [
      ['isoverbs calibrate --provider sim', 'a simulated ConnectX-6'],
      ['isoverbs calibrate --profile cx5-40g --hosts 4 --json', 'another simulated NIC, with three peers'],
      ['isoverbs calibrate --device rxe0 --out rxe0.facts.json', 'a real device'],
    ],
    failed: 'the device cannot be opened or measured, or the file cannot be written',
    environment: ['ISOVERBS_NO_ADDON'],
    seeAlso: ['docs/configuration.md', 'isoverbs devices', 'isoverbs bench'],
  });
}

/** The devices that can be measured. */
interface Ground {
  readonly provider: Provider;
  readonly devices: readonly string[];
  readonly driverOf: (device: string) => string;
}

function run(options: Options): void {
  const { provider, devices, driverOf } = isSimulated(options) ? simulated(options) : real();
  const known = (flag: string, name: string) => {
    if (devices.includes(name)) return name;
    throw new ConfigError(`${flag} ${name}: no such device; available: ${devices.join(', ')}`);
  };
  const device = options.device === undefined ? devices[0] : known('--device', options.device);
  const others = devices.filter((name) => name !== device);
  const peers =
    options.peer?.map((name) => known('--peer', name)) ?? (others.length === 0 ? [device] : others);
  const from = new Context(provider, device);
  const to = peers.map((name) => new Context(provider, name));
  try {
    const facts = measured(from, to, driverOf(device));
    const text = `${JSON.stringify(facts, null, 2)}\n`;
    if (options.out !== undefined) write(options.out, text);
    process.stdout.write(options.json ? text : asText(facts, namesByGid(to)));
  } finally {
    for (const context of [...to, from]) context.close();
  }
}

function measured(from: Context, to: readonly Context[], driver: string): FactsFile {
  const { mtuBytes = null, linkGbps = null } = from.provider.describeNic?.(from.handle) ?? {};
  return {
    format: FACTS_FORMAT,
    date: new Date().toISOString(),
    device: from.name,
    driver,
    firmware: from.queryDevice().fwVer,
    mtuBytes,
    linkGbps,
    ...calibrate(from, to),
  };
}

/** Writes the file atomically, because a process may read it at any time. */
function write(path: string, text: string): void {
  const partial = `${path}.${process.pid}.partial`;
  try {
    writeFileSync(partial, text);
    renameSync(partial, path);
  } catch (error) {
    throw new Error(`--out ${path} cannot be written: ${(error as Error).message}`, { cause: error });
  }
}

const hasRealDevice = () => getDeviceList().some(({ provider }) => provider === 'rdma-core');

function isSimulated({ provider, profile, hosts, seed, device }: Options): boolean {
  if (provider !== undefined && provider !== 'sim' && provider !== 'rdma-core')
    throw new ConfigError(
      `--provider takes rdma-core or sim, got '${provider}'${meantBy(provider, ['sim', 'rdma-core'])}`,
    );
  const simulates = [profile, hosts, seed].some((option) => option !== undefined);
  if (provider === 'rdma-core' && simulates)
    throw new ConfigError(
      '--profile, --hosts and --seed are for simulated devices; omit them or --provider rdma-core',
    );
  if (provider !== undefined) return provider === 'sim';
  return simulates || (device?.startsWith('sim') ?? !hasRealDevice());
}

function simulated({ profile = 'cx6-100g', hosts, seed }: Options): Ground {
  if (!Object.hasOwn(PROFILES, profile)) {
    throw new ConfigError(`--profile takes ${Object.keys(PROFILES).join(', ')}, got '${profile}'`);
  }
  const { provider } = createFabric({
    profile,
    hosts: whole('hosts', hosts, { otherwise: 2, least: 2, most: 256 }),
    seed: whole('seed', seed, { otherwise: 1, least: 0, most: 2 ** 31 - 1 }),
    payload: false,
  });
  const devices = provider.getDeviceList().map(({ name }) => name);
  return { provider, devices, driverOf: () => `sim ${profile}` };
}

function real(): Ground {
  const provider = providerFor('rdma-core');
  const devices = provider.getDeviceList().map(({ name }) => name);
  if (devices.length === 0) {
    throw new ConfigError(
      'no real device; `isoverbs devices` shows what is missing, and --provider sim simulates devices',
    );
  }
  return { provider, devices, driverOf: kernelDriver };
}

/** The kernel's driver of a device; software devices have none of their own. */
function kernelDriver(device: string): string {
  try {
    return basename(readlinkSync(`/sys/class/infiniband/${device}/device/driver`));
  } catch {
    return 'rdma-core';
  }
}

interface Range {
  readonly otherwise: number;
  readonly least: number;
  readonly most: number;
}

function whole(flag: string, given: string | undefined, { otherwise, least, most }: Range): number {
  if (given === undefined) return otherwise;
  const value = Number(given);
  if (given.trim() !== '' && Number.isInteger(value) && value >= least && value <= most) return value;
  throw new ConfigError(`--${flag} takes whole numbers from ${least} to ${most}, got '${given}'`);
}

/** A peer's name by each of its GIDs. */
const namesByGid = (peers: readonly Context[]) =>
  new Map(peers.flatMap((peer) => peer.gids().map(({ gid }) => [gid, peer.name] as const)));

function asText(facts: FactsFile, names: ReadonlyMap<string, string>): string {
  const { device, driver, firmware, mtuBytes, linkGbps, maxGbps, maxMmps, qpMmps } = facts;
  const rows = [
    ['long messages', `${shown(maxGbps)} Gbit/s`],
    ['short messages', `${shown(maxMmps)} M/s`],
    ['short messages of one queue pair', `${shown(qpMmps)} M/s`],
    ...(facts.chunks ?? []).map(({ chunkBytes, gbps }) => [
      `chunks of ${chunkBytes / 1024} KiB`,
      `${shown(gbps)} Gbit/s`,
    ]),
    ...Object.entries(facts.tailNs ?? {}).map(([gid, ns]) => [
      `p99 to ${names.get(gid)} (${gid})`,
      `${shown(ns / 1000)} us`,
    ]),
  ];
  const link = linkGbps === null ? 'link unknown' : `${linkGbps} Gbit/s`;
  const title = `${device}: ${driver}, firmware ${firmware}, MTU ${mtuBytes ?? 'unknown'}, ${link}`;
  return `${title}\n\n${tableText(rows, { head: ['quantity', 'measured'] })}\n`;
}

const shown = (value: number | null) => (value === null ? '-' : brief(value));
