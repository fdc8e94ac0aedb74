/** `isoverbs bench`: perftest's tests, on real or simulated devices, with perftest or isoverbs at the other end. */
import { execFileSync } from 'node:child_process';
import { type Command, Option } from 'commander';
import { parsePolicies } from '../../config.ts';
import { DRIVERS } from '../../drivers/index.ts';
import {
  getDeviceList,
  type OpenDeviceOptions,
  openDevice,
  type PolicyChoice,
  providerFor,
} from '../../open.ts';
import { requireSupported } from '../../perftest/endpoint.ts';
import { cpusNear } from '../../perftest/near-cpus.ts';
import { countersOf, simSource, softSource, sysfsCounters } from '../../perftest/port-counters.ts';
import { LINE } from '../../perftest/report.ts';
import { type Output, runBothEnds, runTest } from '../../perftest/run.ts';
import { type Settings, settingsOf, TESTS } from '../../perftest/settings.ts';
import { wireBytes, wireFactsOf } from '../../policies/kit/wire.ts';
import { policiesText } from '../../policies/policy-text.ts';
import { namedProviders } from '../../process-interceptors.ts';
import { createFabric, PROFILES } from '../../providers/sim/index.ts';
import { captureTo } from '../../providers/soft/index.ts';
import * as V from '../../verbs/index.ts';
import { ConfigError, type Provider } from '../../verbs/index.ts';
import { describe } from '../manual.ts';
import { onInterrupt } from '../output/progress.ts';
import { requireDistinct, requireWritable } from '../output/svg.ts';

type Flag = readonly [flags: string, description: string, choices?: readonly string[]];

/** perftest's flags. */
const FLAGS: readonly Flag[] = [
  ['-a, --all', 'run all sizes from 2 to 2^23 bytes'],
  ['-A, --atomic_type <type>', 'atomic operation (default FETCH_AND_ADD)', ['FETCH_AND_ADD', 'CMP_AND_SWAP']],
  ['-b, --bidirectional', 'both ends send (default: only the client)'],
  ['-c, --connection <type>', 'transport (default RC)', ['RC', 'UC', 'UD']],
  ['-d, --ib-dev <device>', 'device (default: the first one)'],
  ['-D, --duration <seconds>', 'run for this time instead of a number of iterations'],
  ['-e, --events', 'sleep until something completes (default: poll)'],
  [
    '-f, --margin <seconds>',
    'time that is not measured at the start and at the end (default: a quarter of --duration)',
  ],
  ['-F, --CPU-freq', 'accepted and ignored: times do not depend on the CPU frequency'],
  ['-g, --mcg', 'send to a multicast group that the other end joins; implies --connection UD'],
  ['-H, --report-histogram', 'also print the latency of every message, sorted'],
  ['-i, --ib-port <port>', 'port of the device (default 1)'],
  ['-I, --inline_size <bytes>', 'send messages up to this size inline'],
  ['-l, --post_list <n>', 'requests posted together as one list'],
  ['-m, --mtu <bytes>', 'path MTU (default: that of the port)', ['256', '512', '1024', '2048', '4096']],
  [
    '-M, --MGID <gid>',
    'GID of the group of --mcg (default: ::ffff:239.2.201.132 for IPv4, ff05:0:2:c985:: for IPv6)',
  ],
  ['-n, --iters <n>', 'number of messages (default 1000; write_bw: 5000)'],
  ['-N, --noPeak', 'do not compute the peak'],
  ['-o, --outs <n>', 'READs or atomics outstanding (default: the limit of the device)'],
  ['-p, --port <port>', 'TCP port of the server (default 18515)'],
  ['-q, --qp <n>', 'number of queue pairs (default 1)'],
  ['-Q, --cq-mod <n>', 'signal every n-th request (default 100; above 8 KiB: every one)'],
  ['-r, --rx-depth <n>', 'receives posted per queue pair (default 512)'],
  ['-R, --rdma_cm', 'connect the queue pairs by rdma_cm; implies --com_rdma_cm'],
  ['-s, --size <bytes>', 'message size (default 65536; latency: 2)'],
  ['-S, --sl <sl>', 'service level (default 0)'],
  ['-t, --tx-depth <n>', 'requests outstanding per queue pair (default 128)'],
  ['-u, --qp-timeout <n>', 'acknowledgement timeout of 4 us * 2^n (default 14)'],
  ['-U, --report-unsorted', 'also print the latency of every message, in the order of the messages'],
  ['-w, --limit_bw <value>', 'fail if the bandwidth is below this value'],
  [
    '-W, --report-counters <list>',
    'print how much these counters of the port have grown, such as counters/port_xmit_data,hw_counters/out_of_buffer',
  ],
  ['-x, --gid-index <n>', 'local GID (default on Ethernet: RoCE v2 over IPv4)'],
  ['-y, --limit_msgrate <value>', 'fail below this rate, in millions of messages per second'],
  ['-z, --com_rdma_cm', 'exchange control messages over rdma_cm instead of TCP'],
  ['--dont_xchg_versions', 'do not exchange versions and MTU'],
  ['--report-both', 'with --bidirectional: also report each direction'],
  ['--report_gbits', 'report Gbit/s instead of MiB/s'],
  ['--perform_warm_up', 'fill the send queues once before the test'],
  ['--run_infinitely', 'print a row every --duration seconds (default 5) until stopped'],
  ['--rate_limit <value>', 'limit the rate with the policy tassel'],
  ['--rate_units <unit>', 'unit of --rate_limit: MiB/s, Gbit/s or messages/s (default g)', ['M', 'g', 'p']],
  ['--latency_gap <us>', 'pause before each message'],
  [
    '--exchange_rate <n>',
    'messages per second; the latency of a message starts when it was due, even if it was sent late',
  ],
  [
    '--source_ip <address>',
    'local address to listen on or connect from (default: chosen by the routing table)',
  ],
  ['--use-srq', 'use one shared receive queue of --rx-depth for all queue pairs'],
  [
    '--write_with_imm',
    'use WRITEs with immediate data, which consume a receive and complete at the other end',
  ],
  ['--output <what>', 'print only this number', ['bandwidth', 'message_rate', 'latency']],
  ['--out_json', 'also write the report to a file'],
  ['--out_json_file <file>', 'file for --out_json (default perftest_out.json)'],
];

/** Flags that perftest does not have. */
const OWN_FLAGS: readonly Flag[] = [
  [
    '--interval <seconds>',
    'with --duration: print a row for each interval of this length, and the lowest bandwidth',
  ],
  ['--json', 'print one JSON object, in the shape of --out_json'],
  ['--policy <policy[:option[=value],...]>', 'policy between the test and the device'],
  ['--driver <driver>', `where the policy runs: ${DRIVERS.join(', ')} (default inline)`],
  ['--provider <provider>', 'rdma-core, sim or soft (default: rdma-core if it has a device)'],
  ['--pcap <file>', 'soft: write the packets of this end to this file, in pcapng'],
  ['--profile <profile>', 'sim: simulated NIC (default cx6-100g)'],
  ['--seed <n>', 'sim: seed of all random variation (default 1)'],
  [
    '--cpu <list>',
    'pin the process to these CPUs, in the syntax of taskset(1); auto: those of the NUMA node of the NIC',
  ],
];

/** Adds `bench` to the program. */
export function addBench(command: Command): void {
  const bench = command
    .command('bench')
    .description(
      "run perftest's tests; real devices need a server, simulated ones run both ends in this process",
    )
    .argument('<test>', TESTS.map(({ name }) => name).join(', '))
    .argument('[server]', 'host of the server; without it, this end is the server')
    .action(run);
  for (const flag of FLAGS) bench.addOption(optionOf(flag));
  bench.optionsGroup("Options in addition to perftest's");
  for (const flag of OWN_FLAGS) bench.addOption(optionOf(flag));
  describe(bench, {
    about:
      "Runs perftest's tests with its flags, defaults and tables. The other end may be perftest itself: start the " +
      'server without a host, and the client with the host of the server. Without a real device, both ends run ' +
      'in this process on two simulated devices, in virtual time.',
    examples: [
      ['isoverbs bench write_bw --provider sim', 'bandwidth of a simulated ConnectX-6'],
      ['isoverbs bench read_lat --provider sim -n 1000 -s 64 --json', 'latency, as one JSON object'],
      ['isoverbs bench write_bw --provider sim --rate_limit 40', 'at most 40 Gbit/s'],
      ['isoverbs bench write_bw -d rxe0', 'the server on a real device; the client may be ib_write_bw'],
      ['isoverbs bench write_bw -d soft0', 'the server over UDP sockets; the client is another process'],
      ['isoverbs bench write_bw -d rxe0 192.0.2.1', 'the client; the server may be ib_write_bw'],
    ],
    failed: 'the device or the other end failed, or a result is below --limit_bw or --limit_msgrate',
    environment: [
      'ISOVERBS_POLICY',
      'ISOVERBS_DRIVER',
      'ISOVERBS_DEVICE',
      'ISOVERBS_PROVIDER',
      'ISOVERBS_FACTS',
      'ISOVERBS_NO_ADDON',
    ],
    seeAlso: ['docs/bench.md', 'docs/policies.md', 'isoverbs mix', 'ib_write_bw(1)'],
  });
}

function optionOf([flags, description, choices]: Flag): Option {
  const option = new Option(flags, description);
  return choices === undefined ? option : option.choices(choices);
}

async function run(name: string, server: string | undefined, words: Record<string, unknown>): Promise<void> {
  const kind = TESTS.find((test) => test.name === name);
  if (kind === undefined) {
    throw new ConfigError(`unknown test '${name}'; use one of ${TESTS.map((test) => test.name).join(', ')}`);
  }
  const settings = withProvider(withPolicy(settingsOf(kind, server ?? null, words)));
  if (settings.cpu !== undefined) pin(cpusOf(settings.cpu, settings));
  if (settings.out_json) {
    const { pcap, out_json_file: json } = settings;
    requireDistinct([
      ['--pcap', pcap],
      ['--out_json_file', json],
    ]);
    requireWritable('--out_json_file', json);
  }
  const output = terminal();
  if (settings.run_infinitely) endCleanly(settings, output);
  if (isSimulated(settings)) await simulated(settings, output);
  else await real(settings, output);
}

function isSimulated({ provider, ibDev, server, profile }: Settings): boolean {
  if (provider !== undefined) return provider === 'sim';
  if (server !== null) return false;
  return profile !== undefined || (ibDev?.startsWith('sim') ?? !hasRealDevice());
}

async function simulated(settings: Settings, output: Output): Promise<void> {
  if (settings.pcap !== undefined) {
    throw new ConfigError(
      '--pcap is for user-space RoCE devices (--provider soft); simulated ones: isoverbs mix',
    );
  }
  const { profile = 'cx6-100g', seed, ibDev = 'sim0' } = settings;
  if (!Object.hasOwn(PROFILES, profile)) {
    throw new ConfigError(`--profile takes ${Object.keys(PROFILES).join(', ')}, got '${profile}'`);
  }
  const fabric = createFabric({ profile, seed, hosts: 2 });
  const names = fabric.provider.getDeviceList().map(({ name }) => name);
  if (!names.includes(ibDev)) {
    throw new ConfigError(`--ib-dev ${ibDev}: the simulated devices of a test are ${names.join(' and ')}`);
  }
  const options = { ...shaped(settings, fabric.provider), provider: fabric.provider };
  const others = names.filter((name) => name !== ibDev);
  const [client, server] = [ibDev, ...others].map((device) => openDevice(device, options));
  try {
    requireSupported(client, settings);
    const counters = countersOf(settings.reportCounters, simSource(client.name, fabric));
    // --output and --json print nothing but the result.
    if (settings.output === undefined && !settings.json) {
      process.stderr.write(
        `isoverbs: both ends run in this process on simulated devices (${profile}); the client is ${client.name}, the server ${server.name}\n`,
      );
    }
    const cm = { provider: fabric.provider, openDevice: bareOn(fabric.provider) };
    await runBothEnds(settings, { client, server }, cm, output, counters);
  } finally {
    client.close();
    server.close();
  }
}

async function real(settings: Settings, output: Output): Promise<void> {
  const { ibDev, pcap } = settings;
  const isSoft =
    settings.provider === 'soft' || (settings.provider === undefined && ibDev?.startsWith('soft'));
  if (pcap !== undefined) {
    if (!isSoft) throw new ConfigError('--pcap is for user-space RoCE devices (--provider soft)');
    captureTo(pcap);
  }
  const provider = providerFor(isSoft ? 'soft' : 'rdma-core');
  const options: OpenDeviceOptions = { ...shaped(settings, provider), provider };
  const open = (device: string | undefined) => openDevice(device, options);
  const cm = { provider, openDevice: bareOn(provider) };
  const counters = (device: string) => (isSoft ? softSource(device) : sysfsCounters(device, settings.ibPort));
  await runTest(settings, { open, cm, counters }, output);
}

/** Opens the device for control messages, to which no policy applies. */
const bareOn = (provider: Provider) => (name: string) => openDevice(name, { provider, policy: null });

/** --run_infinitely ends on SIGINT, as in perftest, after a complete line. */
function endCleanly({ output: only }: Settings, output: Terminal): void {
  process.once('SIGINT', () => {
    if (only === undefined) output.endTable();
    process.kill(process.pid, 'SIGINT');
  });
}

const hasRealDevice = () => getDeviceList().some(({ provider }) => provider === 'rdma-core');

const TENANT = 'bench';
const BITS_OF_MIB = 8 * 2 ** 20;

/** The settings with the policies of --policy or else of ISOVERBS_POLICY, in a uniform spelling. @throws ConfigError */
function withPolicy(settings: Settings): Settings {
  const inherited = process.env.ISOVERBS_POLICY;
  const [policy, from] =
    settings.policy === undefined ? [inherited, 'ISOVERBS_POLICY'] : [settings.policy, '--policy'];
  return policy ? { ...settings, policy: policiesText(parsePolicies(policy, from)) } : settings;
}

/** The settings with user-space RoCE if ISOVERBS_PROVIDER names it first, and no option says otherwise. */
function withProvider(settings: Settings): Settings {
  const { provider, ibDev, profile } = settings;
  const isOpen = provider === undefined && ibDev === undefined && profile === undefined;
  return isOpen && namedProviders()[0] === 'soft' ? { ...settings, provider: 'soft' } : settings;
}

/** The named policies, and tassel for --rate_limit. */
function shaped(settings: Settings, provider: Provider): OpenDeviceOptions {
  const { driver, rate_limit, policy } = settings;
  if (policy === undefined && rate_limit === undefined) return { driver };
  const policies: PolicyChoice[] = policy === undefined ? [] : parsePolicies(policy, '--policy');
  if (rate_limit !== undefined)
    policies.push(limiter(settings, rate_limit, messageBytesOf(settings, provider)));
  return { driver, tenant: TENANT, policy: policies };
}

/** The policy of --rate_limit. Its rate is the wire's, on which a message takes `messageBytes`. */
function limiter(settings: Settings, rate: number, messageBytes: number): PolicyChoice {
  const { rate_units, sizeBytes } = settings;
  const bits = { M: BITS_OF_MIB, g: 1e9, p: 8 * sizeBytes }[rate_units];
  // A daemon has rates of its own for tenants, but none for applications.
  return { name: 'tassel', options: { applicationGbps: (rate * bits * messageBytes) / sizeBytes / 1e9 } };
}

/** The opcodes of perftest's tests. */
const OPCODES = {
  write: V.IBV_WR_RDMA_WRITE,
  send: V.IBV_WR_SEND,
  read: V.IBV_WR_RDMA_READ,
  atomic: V.IBV_WR_ATOMIC_FETCH_AND_ADD,
};

/** Size of a message on the wire, including headers, as the policy counts it. */
function messageBytesOf(settings: Settings, provider: Provider): number {
  const { ibDev, sizeBytes, kind, write_with_imm } = settings;
  const context = openDevice(ibDev, { provider, policy: null });
  const nic = provider.describeNic?.(context.handle) ?? null;
  context.close();
  const opcode = write_with_imm ? V.IBV_WR_RDMA_WRITE_WITH_IMM : OPCODES[kind.verb];
  return wireBytes(wireFactsOf(nic), opcode, sizeBytes);
}

function cpusOf(cpus: string, settings: Settings): string {
  if (cpus !== 'auto') return cpus;
  const { ibDev } = settings;
  const first = isSimulated(settings)
    ? 'sim0'
    : getDeviceList().find(({ provider }) => provider !== 'sim')?.name;
  return cpusNear(ibDev ?? first ?? 'sim0');
}

/** Pins this process, and the threads it starts from now on. @throws ConfigError */
function pin(cpus: string): void {
  try {
    execFileSync('taskset', ['-cp', cpus, String(process.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    const reason = (error as { stderr?: Buffer }).stderr?.toString().trim() || (error as Error).message;
    throw new ConfigError(`--cpu ${cpus}: ${reason} (--cpu requires taskset, of util-linux)`);
  }
}

const PROGRESS_MS = 200;

/** Where results and progress go. */
interface Terminal extends Output {
  /** Ends the table of a test that was interrupted. */
  endTable(): void;
}

/** Prints results on stdout, and progress on stderr if it is a terminal. */
function terminal(): Terminal {
  let lastLine: string | undefined;
  let shownMs = performance.now();
  let ignore: (() => void) | undefined;
  const clear = () => {
    if (ignore !== undefined) process.stderr.write('\r\x1b[K');
    ignore?.();
    ignore = undefined;
  };
  const print = (line: string) => {
    clear();
    process.stdout.write(`${line}\n`);
  };
  return {
    print,
    setLastLine(line) {
      lastLine = line;
    },
    endTable() {
      print(lastLine === undefined ? LINE : `${LINE}\n${lastLine}`);
    },
    progress(messages) {
      if (!process.stderr.isTTY || performance.now() - shownMs < PROGRESS_MS) return;
      shownMs = performance.now();
      ignore ??= onInterrupt(clear);
      process.stderr.write(`\r ${messages} messages`);
    },
  };
}
