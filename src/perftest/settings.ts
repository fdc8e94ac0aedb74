/** The settings of a test: perftest's flags, its defaults, and its rules about which flags can be combined. */
import { z } from 'zod';
import type { DriverName } from '../drivers/index.ts';
import { ConfigError } from '../verbs/errors.ts';
import { meantBy } from '../verbs/suggestions.ts';
import { groupGid } from './multicast.ts';

/** Validated settings of a test. */
export interface Settings extends Flags {
  kind: TestKind;
  /** Host of the server; null if this end is the server. */
  server: string | null;
  sizeBytes: number;
  /** Whether the size was given by a flag. */
  sizeGiven: boolean;
  iters: number;
  txDepth: number;
  rxDepth: number;
  cqMod: number;
  inlineBytes: number;
  inlineGiven: boolean;
  /** Length of a run with --duration; 0 for a run of `iters` iterations. */
  durationS: number;
  marginS: number;
  noPeak: boolean;
  /** Whether each message consumes a receive at the other end: SENDs, and WRITEs with immediate data. */
  takesReceives: boolean;
}

/** A whole number; every error names the accepted range. */
function whole(least: number, most: number) {
  const takes = `takes whole numbers from ${least} to ${most}`;
  return z.coerce.number(takes).int(takes).min(least, takes).max(most, takes);
}

function oneOf<const T extends readonly [string, ...string[]]>(...names: T) {
  return z.enum(names, `takes ${names.join(', ')}`);
}

const ABOVE_0 = 'takes numbers above 0';
const above0 = z.coerce.number(ABOVE_0).positive(ABOVE_0);
const FROM_0 = 'takes numbers from 0 on';
const from0 = z.coerce.number(FROM_0).min(0, FROM_0);
const count = whole(1, 1e9);
const SHORTEST_INTERVAL_S = 1e-6;
const INTERVAL = `takes seconds, at least ${SHORTEST_INTERVAL_S}`;

/** perftest's flags as commander names them, and our own (policy, driver, provider, profile, seed, json, cpu, rate). */
const flagsSchema = z.object({
  all: z.boolean().default(false),
  atomic_type: oneOf('FETCH_AND_ADD', 'CMP_AND_SWAP').default('FETCH_AND_ADD'),
  bidirectional: z.boolean().default(false),
  connection: oneOf('RC', 'UC', 'UD').default('RC'),
  ibDev: z.string().min(1).optional(),
  duration: whole(1, 1e6).optional(),
  events: z.boolean().default(false),
  margin: from0.optional(),
  mcg: z.boolean().default(false),
  MGID: z.string().transform(groupGid).optional(),
  ibPort: whole(1, 255).default(1),
  inline_size: whole(0, 1024).optional(),
  post_list: whole(1, 4096).default(1),
  mtu: oneOf('256', '512', '1024', '2048', '4096').optional(),
  iters: whole(5, 100_000_000).optional(),
  noPeak: z.boolean().default(false),
  outs: whole(1, 128).optional(),
  port: whole(1, 65535).default(18515),
  qp: whole(1, 16384).default(1),
  cqMod: whole(1, 1024).optional(),
  rdma_cm: z.boolean().default(false),
  com_rdma_cm: z.boolean().default(false),
  rxDepth: whole(1, 16384).optional(),
  size: whole(1, 2 ** 31).optional(),
  sl: whole(0, 15).default(0),
  txDepth: whole(1, 15000).optional(),
  qpTimeout: whole(0, 31).default(14),
  gidIndex: whole(0, 1023).optional(),
  limit_bw: above0.optional(),
  limit_msgrate: above0.optional(),
  dont_xchg_versions: z.boolean().default(false),
  report_gbits: z.boolean().default(false),
  run_infinitely: z.boolean().default(false),
  perform_warm_up: z.boolean().default(false),
  reportBoth: z.boolean().default(false),
  reportHistogram: z.boolean().default(false),
  reportUnsorted: z.boolean().default(false),
  reportCounters: z.string().optional(),
  interval: z.coerce.number(INTERVAL).min(SHORTEST_INTERVAL_S, INTERVAL).optional(),
  source_ip: z.string().min(1).optional(),
  useSrq: z.boolean().default(false),
  write_with_imm: z.boolean().default(false),
  rate_limit: above0.optional(),
  rate_units: oneOf('M', 'g', 'p').default('g'),
  latency_gap: from0.default(0),
  exchange_rate: count.optional(),
  output: oneOf('bandwidth', 'message_rate', 'latency').optional(),
  out_json: z.boolean().default(false),
  out_json_file: z.string().min(1).default('perftest_out.json'),
  json: z.boolean().default(false),
  policy: z.string().optional(),
  driver: oneOf('inline', 'worker').optional(),
  provider: oneOf('sim', 'rdma-core', 'soft').optional(),
  pcap: z.string().min(1).optional(),
  profile: z.string().optional(),
  seed: whole(0, 2 ** 31 - 1).default(1),
  cpu: z
    .string()
    .regex(/^(auto|\d+(-\d+)?(,\d+(-\d+)?)*)$/, 'takes a list of CPUs, such as 0,2-3, or auto')
    .optional(),
});
type Flags = Omit<
  z.infer<typeof flagsSchema>,
  'size' | 'iters' | 'txDepth' | 'rxDepth' | 'cqMod' | 'inline_size' | 'duration' | 'margin' | 'noPeak'
> & { driver?: DriverName };

const LARGEST_BYTES = 1 << 23;
const ATOMIC_BYTES = 8;
const DEFAULT_DURATION_S = 5;
/** Larger messages are all signaled: a hundred of them would take too long. */
const MAX_MODERATED_BYTES = 8192;
const MAX_DATAGRAM_RECEIVES = 16000;
/** With more requests no peak is computed: the search is quadratic. */
const MAX_PEAK_ITERS = 20_000;
/** The most latencies that a list may have. */
const MAX_LISTED_ITERS = 10_000_000;
const MAX_INTERVALS = 100_000;
const INLINE_BYTES = { write: 220, send: 236, read: 0, atomic: 0 };
const INLINE_UD_BYTES = 188;

/** A key as the command line spells it: `tx-depth` for `txDepth`. */
const flagOf = (key: string) =>
  key === 'MGID' ? key : key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/**
 * Validates the flags of a command line and fills in the defaults.
 * @throws ConfigError for a flag that the test does not support, an invalid value, or flags that exclude each other
 */
export function settingsOf(kind: TestKind, server: string | null, words: Record<string, unknown>): Settings {
  const parsed = flagsSchema.safeParse(words);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const key = issue.path.join('.');
    const given = String(words[key]);
    const known = issue.code === 'invalid_value' ? issue.values.map(String) : [];
    throw new ConfigError(`--${flagOf(key)} ${issue.message}, got '${given}'${meantBy(given, known)}`);
  }
  // As in perftest, multicast implies datagrams.
  const flags: Parsed = parsed.data.mcg ? { ...parsed.data, connection: 'UD' } : parsed.data;
  requireCompatible(kind, server, flags);
  const byTime = isByTime(flags);
  const durationS = byTime ? (flags.duration ?? DEFAULT_DURATION_S) : 0;
  const iters = itersOf(kind, flags);
  const marginS = flags.margin ?? durationS / 4;
  if (byTime && !flags.run_infinitely && durationS <= 2 * marginS) {
    throw new ConfigError('please check that DURATION > 2*MARGIN');
  }
  if (flags.interval !== undefined) requireIntervals(flags.interval, durationS - 2 * marginS);
  const sizeBytes = sizeOf(kind, flags);
  const receives = receivesOf(kind, flags, byTime, iters);
  if (flags.useSrq && flags.qp > receives) {
    throw new ConfigError('Using SRQ depth should be greater than number of QPs.');
  }
  const txDepth = depth(flags.txDepth ?? (kind.measures === 'bw' ? 128 : 1), byTime, iters);
  return {
    ...flags,
    kind,
    server,
    sizeBytes,
    sizeGiven: flags.size !== undefined,
    iters,
    txDepth,
    rxDepth: receives,
    cqMod: fitCqMod(txDepth, moderation(kind, flags, sizeBytes), flags.post_list),
    inlineBytes: inlineOf(kind, flags),
    inlineGiven: flags.inline_size !== undefined,
    durationS,
    marginS,
    noPeak: flags.noPeak || byTime || iters * flags.qp > MAX_PEAK_ITERS,
    takesReceives: takesReceives(kind, flags),
  };
}

type Parsed = z.infer<typeof flagsSchema>;

const isByTime = ({ duration, run_infinitely }: Parsed) => duration !== undefined || run_infinitely;

const takesReceives = ({ verb }: TestKind, { write_with_imm }: Parsed) => verb === 'send' || write_with_imm;

const itersOf = ({ name }: TestKind, { iters }: Parsed) => iters ?? (name === 'write_bw' ? 5000 : 1000);

const depth = (wanted: number, byTime: boolean, iters: number) => (byTime ? wanted : Math.min(wanted, iters));

function sizeOf({ verb, measures }: TestKind, { all, size }: Parsed): number {
  if (verb === 'atomic') return ATOMIC_BYTES;
  if (all) return LARGEST_BYTES;
  return size ?? (measures === 'bw' ? 65536 : 2);
}

function receivesOf(kind: TestKind, flags: Parsed, byTime: boolean, iters: number): number {
  if (!takesReceives(kind, flags)) return 1;
  if (byTime) return flags.rxDepth ?? 512;
  if (flags.rxDepth === undefined && flags.connection !== 'RC') return Math.min(iters, MAX_DATAGRAM_RECEIVES);
  return depth(flags.rxDepth ?? 512, byTime, iters);
}

function moderation({ measures }: TestKind, flags: Parsed, sizeBytes: number): number {
  if (measures === 'lat') return 1;
  if (flags.cqMod !== undefined) return flags.cqMod;
  if (flags.post_list > 1) return flags.post_list;
  if (flags.connection === 'UD' || flags.all || flags.events) return 100;
  return sizeBytes > MAX_MODERATED_BYTES ? 1 : 100;
}

/** Limits cqMod to the queue: a list is posted as a whole, so unsignaled requests must leave room for another list. */
function fitCqMod(txDepth: number, cqMod: number, list: number): number {
  return cqMod <= txDepth ? cqMod : Math.max(1, txDepth - (txDepth % list));
}

function inlineOf({ verb, measures }: TestKind, { inline_size, connection }: Parsed): number {
  if (verb === 'read' || verb === 'atomic') return 0;
  if (inline_size !== undefined) return inline_size;
  if (measures === 'bw') return 0;
  return connection === 'UD' ? INLINE_UD_BYTES : INLINE_BYTES[verb];
}

/** Whether signaled requests fall inside lists: a list is posted as a whole and should end with one. */
const splitsLists = ({ cqMod, post_list: list }: Parsed) =>
  cqMod !== undefined && cqMod % list !== 0 && list % cqMod !== 0;

/** A combination of flags that is rejected, and why. */
type Rule = readonly [applies: boolean, reason: string];

/** Combinations that --events rejects. */
function eventRules({ verb }: TestKind, flags: Parsed): Rule[] {
  const { events, write_with_imm, run_infinitely, latency_gap, exchange_rate } = flags;
  if (!events) return [];
  return [
    [verb === 'write' && !write_with_imm, 'Events feature not available on WRITE verb'],
    [run_infinitely, 'run_infinitely does not support events feature yet.'],
    [isByTime(flags), "Duration mode doesn't work with events."],
    [
      latency_gap > 0 || exchange_rate !== undefined,
      '--events sleeps until something arrives: leave out --latency_gap and --exchange_rate',
    ],
  ];
}

/** Combinations that --run_infinitely rejects. */
function infiniteRules(kind: TestKind, flags: Parsed): Rule[] {
  const { measures } = kind;
  return [
    [measures === 'lat', 'run_infinitely exists only in BW tests for now.'],
    [flags.all, 'run_infinitely runs one size: leave out --all'],
    [
      flags.bidirectional && takesReceives(kind, flags),
      'run_infinitely mode is not supported in SEND Bidirectional BW test',
    ],
    [flags.json || flags.out_json, 'run_infinitely never ends: leave out --json and --out_json'],
  ];
}

/** Checks that intervals of this length fit into the measured time. @throws ConfigError */
function requireIntervals(intervalS: number, measuredS: number): void {
  if (intervalS <= measuredS && measuredS / intervalS <= MAX_INTERVALS) return;
  throw new ConfigError(
    `--interval ${intervalS}: the measured time (--duration minus both margins) is ${measuredS} s, and must hold 1 to ${MAX_INTERVALS} intervals`,
  );
}

/** Combinations that flags for detailed reports reject. */
function reportRules({ measures }: TestKind, flags: Parsed): Rule[] {
  const { reportBoth, reportHistogram, reportUnsorted, interval, bidirectional, run_infinitely } = flags;
  const listed = reportHistogram || reportUnsorted;
  return [
    [reportBoth && !bidirectional, '--report-both is for tests with --bidirectional'],
    [reportBoth && flags.all, '--report-both is for messages of one size: leave out --all'],
    [reportBoth && run_infinitely, '--report-both is for tests that end: leave out --run_infinitely'],
    [listed && measures === 'bw', '--report-histogram and --report-unsorted are for latency tests'],
    [
      listed && isByTime(flags),
      '--report-histogram and --report-unsorted list a number of iterations: leave out --duration',
    ],
    [
      listed && (flags.iters ?? 0) > MAX_LISTED_ITERS,
      `--report-histogram and --report-unsorted list up to ${MAX_LISTED_ITERS} latencies: reduce --iters`,
    ],
    [
      interval !== undefined && (measures === 'lat' || flags.duration === undefined),
      '--interval is for bandwidth tests with --duration',
    ],
    [
      interval !== undefined && run_infinitely,
      '--run_infinitely prints a row every --duration seconds: leave out --interval',
    ],
    [interval !== undefined && bidirectional, '--interval is for one direction: leave out --bidirectional'],
  ];
}

/** Combinations that simulated devices reject. */
function simulatedRules(server: string | null, flags: Parsed): Rule[] {
  return [
    [
      flags.provider === 'sim' && flags.source_ip !== undefined,
      'on simulated devices both ends run in this process: leave out --source_ip',
    ],
    [
      flags.provider === 'sim' && server !== null,
      'on simulated devices both ends run in this process: leave out the server',
    ],
  ];
}

/** Combinations that concern receives and warm-up. */
function receiveRules({ verb, measures }: TestKind, flags: Parsed): Rule[] {
  const { useSrq, write_with_imm, perform_warm_up } = flags;
  return [
    [useSrq && verb !== 'send', 'Using SRQ only available in SEND tests.'],
    [write_with_imm && verb !== 'write', 'Write_with_imm can only be used with write_lat and write_bw tests'],
    [
      perform_warm_up && (measures === 'lat' || verb === 'send'),
      '--perform_warm_up is for the bandwidth of WRITEs, READs and atomics',
    ],
    [perform_warm_up && write_with_imm, 'Warm up not supported for WRITE_IMM verb.'],
  ];
}

/** Combinations that multicast rejects. */
function multicastRules({ verb }: TestKind, { mcg, MGID, bidirectional, qp, rdma_cm }: Parsed): Rule[] {
  if (!mcg) return [[MGID !== undefined, '--MGID names the group of --mcg: add --mcg']];
  return [
    [verb !== 'send', '--mcg is for send_bw and send_lat'],
    [bidirectional, 'Bidirectional mode not supported in multicast'],
    [qp > 1, 'Only 1 QP supported in multicast'],
    [rdma_cm, '--rdma_cm connects only RC: use --com_rdma_cm for multicast'],
  ];
}

/** Combinations that --rdma_cm rejects. */
function connectionRules({ rdma_cm, connection }: Parsed): Rule[] {
  return [
    [rdma_cm && connection === 'UC', 'UC is not supported in librdmacm'],
    [rdma_cm && connection === 'UD', '--rdma_cm connects only RC: use --com_rdma_cm for datagrams'],
  ];
}

/** Rejects impossible combinations of flags, in perftest's words where it has some. @throws ConfigError */
function requireCompatible(kind: TestKind, server: string | null, flags: Parsed): void {
  const { verb, measures } = kind;
  const by: readonly Rule[] = [
    ...multicastRules(kind, flags),
    [
      flags.connection === 'UC' && (verb === 'read' || verb === 'atomic'),
      'UC connection not possible in READ/ATOMIC verbs',
    ],
    [flags.connection === 'UD' && verb !== 'send', 'UD connection only possible in SEND verb'],
    [
      verb === 'atomic' && (flags.all || (flags.size ?? ATOMIC_BYTES) !== ATOMIC_BYTES),
      'Message size cannot be changed for Atomic tests',
    ],
    [flags.all && flags.size !== undefined, '--all runs every size: leave out --size'],
    [
      flags.all && flags.duration !== undefined,
      "Duration mode currently doesn't support running on all sizes.",
    ],
    [flags.iters !== undefined && flags.duration !== undefined, '--iters and --duration exclude each other'],
    ...(flags.run_infinitely ? infiniteRules(kind, flags) : []),
    [flags.bidirectional && measures === 'lat', '--bidirectional is for bandwidth tests'],
    [flags.qp > 1 && measures === 'lat', '--qp is for bandwidth tests: latency tests have one queue pair'],
    [flags.post_list > 1 && measures === 'lat', 'Post list is supported in BW tests only'],
    [
      flags.post_list > 1 && !isByTime(flags) && itersOf(kind, flags) % flags.post_list !== 0,
      'Number of iterations must be a multiple of post list size',
    ],
    [flags.post_list > (flags.txDepth ?? 128), '--post_list exceeds the send queue: raise --tx-depth'],
    [splitsLists(flags), '--cq-mod must be a multiple or a divisor of --post_list'],
    [
      (flags.latency_gap > 0 || flags.exchange_rate !== undefined) && measures === 'bw',
      'Latency gap feature is only for latency tests',
    ],
    [
      flags.exchange_rate !== undefined && kind.name === 'write_lat',
      '--exchange_rate is not for write_lat: its server sends first, but its client prints',
    ],
    [
      flags.latency_gap > 0 && flags.exchange_rate !== undefined,
      '--latency_gap and --exchange_rate exclude each other',
    ],
    [
      flags.rate_limit !== undefined && (measures === 'lat' || verb === 'atomic'),
      "Rate limiter can't be executed on non-BW or ATOMIC tests",
    ],
    [
      flags.rate_limit !== undefined && flags.all,
      '--rate_limit is for messages of one size: leave out --all',
    ],
    [
      measures === 'bw' && flags.output === 'latency',
      'Output verbosity level for BW can be: bandwidth, message_rate',
    ],
    [
      measures === 'lat' && flags.output !== undefined && flags.output !== 'latency',
      'Output verbosity level for LAT can be: latency',
    ],
    ...eventRules(kind, flags),
    ...receiveRules(kind, flags),
    ...reportRules(kind, flags),
    ...connectionRules(flags),
    ...simulatedRules(server, flags),
  ];
  const reason = by.find(([applies]) => applies);
  if (reason !== undefined) throw new ConfigError(reason[1]);
}

export type Verb = 'write' | 'send' | 'read' | 'atomic';

/** One of perftest's programs: ib_write_bw is `write_bw`. */
export interface TestKind {
  readonly name: string;
  readonly verb: Verb;
  readonly measures: 'bw' | 'lat';
}

export const TESTS: readonly TestKind[] = (['write', 'send', 'read', 'atomic'] as const).flatMap((verb) =>
  (['bw', 'lat'] as const).map((measures) => ({ name: `${verb}_${measures}`, verb, measures })),
);
