/** `isoverbs bench`: perftest's tests, on real and on simulated devices, against perftest itself or each other. */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
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
import { LINE } from '../../perftest/report.ts';
import { type Output, runBothEnds, runTest } from '../../perftest/run.ts';
import { type Settings, settingsOf } from '../../perftest/settings.ts';
import { TESTS } from '../../perftest/test-kinds.ts';
import { createFabric, PROFILES } from '../../providers/sim/index.ts';
import { ConfigError, type Provider } from '../../verbs/index.ts';
import { onInterrupt } from '../interrupt.ts';
import { describe } from '../manual.ts';

type Flag = readonly [flags: string, description: string, choices?: readonly string[]];

/** perftest's flags, with what they say in its help. */
const FLAGS: readonly Flag[] = [
  ['-a, --all', 'run sizes from 2 to 2^23'],
  ['-A, --atomic_type <type>', 'default FETCH_AND_ADD', ['FETCH_AND_ADD', 'CMP_AND_SWAP']],
  ['-b, --bidirectional', 'both ends post (default: the client)'],
  ['-c, --connection <type>', 'default RC', ['RC', 'UC', 'UD']],
  ['-d, --ib-dev <device>', 'the device (default: the first one)'],
  ['-D, --duration <seconds>', 'run by time, not by iterations'],
  ['-e, --events', 'sleep until something completes (default: poll)'],
  [
    '-f, --margin <seconds>',
    'what does not count at the beginning and at the end (default: a quarter of the time)',
  ],
  ['-F, --CPU-freq', 'accepted: time here does not depend on the frequency of the CPU'],
  ['-i, --ib-port <port>', 'port of the device (default 1)'],
  ['-I, --inline_size <bytes>', 'messages up to this size go inline'],
  ['-l, --post_list <n>', 'requests that are posted together, the last one signaled'],
  ['-m, --mtu <bytes>', 'default: that of the port', ['256', '512', '1024', '2048', '4096']],
  ['-n, --iters <n>', 'messages (default 1000; write_bw: 5000)'],
  ['-N, --noPeak', 'do not look for the peak'],
  ['-o, --outs <n>', 'READs or atomics outstanding (default: what the device takes)'],
  ['-p, --port <port>', 'TCP port of the server (default 18515)'],
  ['-q, --qp <n>', 'queue pairs (default 1)'],
  ['-Q, --cq-mod <n>', 'ask for a completion every so many requests (default 100; above 8 KiB: each)'],
  ['-r, --rx-depth <n>', 'receives of a queue pair (default 512)'],
  ['-R, --rdma_cm', 'connect the queue pairs by rdma_cm, and speak by it before and after'],
  ['-s, --size <bytes>', 'of a message (default 65536; latency: 2)'],
  ['-S, --sl <sl>', 'service level (default 0)'],
  ['-t, --tx-depth <n>', 'requests outstanding on a queue pair (default 128)'],
  ['-u, --qp-timeout <n>', 'acknowledgements may take 4 us * 2^n (default 14)'],
  ['-w, --limit_bw <value>', 'fail below this bandwidth'],
  ['-x, --gid-index <n>', 'speak from this GID (default on Ethernet: RoCE v2 over IPv4)'],
  ['-y, --limit_msgrate <value>', 'fail below so many million messages per second'],
  ['-z, --com_rdma_cm', 'speak with the other end by rdma_cm instead of TCP'],
  ['--dont_xchg_versions', 'do not exchange versions and MTU'],
  ['--report_gbits', 'Gbit/s instead of MiB/s'],
  ['--perform_warm_up', 'fill the send queues once before the test'],
  ['--run_infinitely', 'a row every --duration seconds (default 5), until stopped'],
  ['--rate_limit <value>', 'post no faster, by the policy token-bucket'],
  ['--rate_units <unit>', 'of --rate_limit: MiB/s, Gbit/s or messages/s (default g)', ['M', 'g', 'p']],
  ['--latency_gap <us>', 'pause before each message'],
  ['--exchange_rate <n>', 'messages a second; each counts from when it was due, sent late or not'],
  ['--source_ip <address>', 'own address: where to listen, or to call from (default: as the routes say)'],
  ['--use-srq', 'receives of all queue pairs come from one queue of --rx-depth'],
  ['--write_with_imm', 'WRITEs take a receive, and complete at the other end'],
  ['--output <what>', 'only this number', ['bandwidth', 'message_rate', 'latency']],
  ['--out_json', 'write the report to a file, too'],
  ['--out_json_file <file>', 'which one (default perftest_out.json)'],
];

/** What perftest has not. */
const OWN_FLAGS: readonly Flag[] = [
  ['--json', 'print one JSON object, in the shape of --out_json'],
  ['--policy <policy[:option[=value],...]>', 'policies around the device'],
  ['--driver <driver>', `where the policies run: ${DRIVERS.join(', ')} (default inline)`],
  ['--provider <provider>', 'rdma-core or sim (default: rdma-core if it has a device)'],
  ['--profile <profile>', 'sim: what is simulated (default cx6-100g)'],
  ['--seed <n>', 'sim: of all that varies (default 1)'],
  ['--cpu <list>', 'pin to these CPUs, as taskset(1) writes them'],
];

/** Adds `bench` to the command. */
export function addBench(command: Command): void {
  const bench = command
    .command('bench')
    .description(
      "perftest's tests; real devices need a server, simulated ones have both ends in this process",
    )
    .argument('<test>', TESTS.map(({ name }) => name).join(', '))
    .argument('[server]', 'host of the server; without it: be the server')
    .action(run);
  for (const flag of FLAGS) bench.addOption(optionOf(flag));
  bench.optionsGroup("Options beside perftest's");
  for (const flag of OWN_FLAGS) bench.addOption(optionOf(flag));
  describe(bench, {
    about:
      "perftest's tests with its flags, defaults and tables. The other end may be perftest itself: the server " +
      'names no host, the client names that of the server. Without a real device both ends run in this ' +
      'process, on two simulated ones, in virtual time.',
    examples: [
      ['isoverbs bench write_bw --provider sim', 'bandwidth of a simulated ConnectX-6'],
      ['isoverbs bench read_lat --provider sim -n 1000 -s 64 --json', 'latency, as one JSON object'],
      ['isoverbs bench write_bw --provider sim --rate_limit 40', 'no faster than 40 Gbit/s'],
      ['isoverbs bench write_bw -d rxe0', 'the server, on a real device; ib_write_bw may be the client'],
      ['isoverbs bench write_bw -d rxe0 192.0.2.1', 'the client; ib_write_bw may be the server'],
    ],
    failed: 'the device or the other end failed, or a result is below --limit_bw or --limit_msgrate',
    environment: ['ISOVERBS_POLICY', 'ISOVERBS_DRIVER', 'ISOVERBS_DEVICE', 'ISOVERBS_NO_ADDON'],
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
    throw new ConfigError(
      `there is no test '${name}'; there are ${TESTS.map((test) => test.name).join(', ')}`,
    );
  }
  const settings = settingsOf(kind, server ?? null, words);
  if (settings.cpu !== undefined) pin(settings.cpu);
  if (settings.out_json) requireWritable(settings.out_json_file);
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
  const { profile = 'cx6-100g', seed, ibDev = 'sim0' } = settings;
  if (!Object.hasOwn(PROFILES, profile)) {
    throw new ConfigError(`--profile takes ${Object.keys(PROFILES).join(', ')}, got '${profile}'`);
  }
  const fabric = createFabric({ profile, seed, hosts: 2 });
  const names = fabric.provider.getDeviceList().map(({ name }) => name);
  if (!names.includes(ibDev)) {
    throw new ConfigError(`--ib-dev ${ibDev}: simulated devices of a test are ${names.join(' and ')}`);
  }
  const options = { ...shaped(settings, fabric.provider), provider: fabric.provider };
  const others = names.filter((name) => name !== ibDev);
  const [client, server] = [ibDev, ...others].map((device) => openDevice(device, options));
  try {
    requireSupported(client, settings);
    // Whoever asks for one thing alone knows.
    if (settings.output === undefined && !settings.json) {
      process.stderr.write(
        `isoverbs: both ends here, on simulated devices (${profile}): ${client.name} is the client, ${server.name} the server\n`,
      );
    }
    const cm = { provider: fabric.provider, openDevice: bareOn(fabric.provider) };
    await runBothEnds(settings, { client, server }, cm, output);
  } finally {
    client.close();
    server.close();
  }
}

async function real(settings: Settings, output: Output): Promise<void> {
  const provider = providerFor('rdma-core');
  const options: OpenDeviceOptions = { ...shaped(settings, provider), provider };
  const open = (device: string | undefined) => openDevice(device, options);
  await runTest(settings, { open, cm: { provider, openDevice: bareOn(provider) } }, output);
}

/** Opens what the ends speak over: no policy has a say in that. */
const bareOn = (provider: Provider) => (name: string) => openDevice(name, { provider, policy: null });

/** A test that cannot say what it found is not begun. */
function requireWritable(file: string): void {
  try {
    closeSync(openSync(file, 'a'));
  } catch (error) {
    throw new ConfigError(`--out_json_file ${file} cannot be written: ${(error as Error).message}`);
  }
}

/** --run_infinitely ends by SIGINT, as perftest does: behind a whole line. */
function endCleanly({ output: only }: Settings, output: Output): void {
  process.once('SIGINT', () => {
    if (only === undefined) output.print(LINE);
    process.kill(process.pid, 'SIGINT');
  });
}

const hasRealDevice = () => getDeviceList().some(({ provider }) => provider === 'rdma-core');

/** Who is limited by --rate_limit. */
const TENANT = 'bench';
const BITS_OF_MIB = 8 * 2 ** 20;
const BURST_BYTES = 65536;
/** Where the device does not say: RoCEv2's. */
const MTU_BYTES = 4096;
const HEADER_BYTES = 82;

/** The policies that were named, and the bucket that --rate_limit stands for. */
function shaped(settings: Settings, provider: Provider): OpenDeviceOptions {
  const { driver, rate_limit } = settings;
  const [policy, from] =
    settings.policy === undefined
      ? [process.env.ISOVERBS_POLICY || undefined, 'ISOVERBS_POLICY']
      : [settings.policy, '--policy'];
  if (policy === undefined && rate_limit === undefined) return { driver };
  const policies: PolicyChoice[] = policy === undefined ? [] : parsePolicies(policy, from);
  if (rate_limit !== undefined) policies.push(bucket(settings, rate_limit, wireBytes(settings, provider)));
  return { driver, tenant: TENANT, policy: policies };
}

/** The rate is that of messages, a bucket's that of the wire: a message takes `messageBytes` there. */
function bucket(settings: Settings, rate: number, messageBytes: number): PolicyChoice {
  const { rate_units, sizeBytes, iters, durationS } = settings;
  const bits = { M: BITS_OF_MIB, g: 1e9, p: 8 * sizeBytes }[rate_units];
  const ratesGbps = { [TENANT]: (rate * bits * messageBytes) / sizeBytes / 1e9 };
  // What the bucket holds at the beginning goes at once: of so many messages a small part.
  const part = durationS > 0 ? BURST_BYTES : Math.ceil((iters * messageBytes) / 100);
  const burstBytes = Math.max(messageBytes, Math.min(BURST_BYTES, part));
  return { name: 'token-bucket', options: { ratesGbps, burstBytes } };
}

/** What the policy takes a message for, headers included. */
function wireBytes({ ibDev, sizeBytes }: Settings, provider: Provider): number {
  const context = openDevice(ibDev, { provider, policy: null });
  const nic = provider.describeNic?.(context.handle);
  context.close();
  const packets = Math.ceil(sizeBytes / (nic?.mtuBytes ?? MTU_BYTES));
  return sizeBytes + packets * (nic?.headerBytes ?? HEADER_BYTES);
}

/** This process, and the threads that it starts from now on. */
function pin(cpus: string): void {
  try {
    execFileSync('taskset', ['-cp', cpus, String(process.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    const said = (error as { stderr?: Buffer }).stderr?.toString().trim() || (error as Error).message;
    throw new ConfigError(`--cpu ${cpus}: ${said} (it takes taskset, of util-linux)`);
  }
}

const PROGRESS_MS = 200;

/** Results on stdout; how far it is on stderr, where somebody looks at it. */
function terminal(): Output {
  let shownMs = performance.now();
  let ignore: (() => void) | undefined;
  const clear = () => {
    if (ignore !== undefined) process.stderr.write('\r\x1b[K');
    ignore?.();
    ignore = undefined;
  };
  return {
    print(line) {
      clear();
      process.stdout.write(`${line}\n`);
    },
    progress(messages) {
      if (!process.stderr.isTTY || performance.now() - shownMs < PROGRESS_MS) return;
      shownMs = performance.now();
      ignore ??= onInterrupt(clear);
      process.stderr.write(`\r ${messages} messages`);
    },
  };
}
