/** `isoverbs tenants` and `isoverbs set`: queries and settings of the daemon. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { request, requestListing, requestTenants, socketOf } from '../../daemon/client/tool-request.ts';
import type { TenantRow, ToDaemon } from '../../daemon/protocol.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { isGroupName } from '../../verbs/groups.ts';
import { isGroup, isWeight, TRAFFIC_NAMES } from '../../verbs/labels.ts';
import { RATE_TARGETS, rateTarget } from '../../verbs/rate-targets.ts';
import { didYouMean, meantBy } from '../../verbs/suggestions.ts';
import { escaped, escapedLines } from '../escape.ts';
import { describe } from '../manual.ts';
import { jsonText } from '../output/json.ts';
import { tableWithNotes } from '../output/table.ts';
import { limitsOf } from '../top/table.ts';

/** Programs report how many of their queue pairs have a new rate within 20 ms, unless they wait for a CPU. */
const REPORT_MS = 400;

const number = (value: number) => (value === 0 ? '-' : value.toFixed(2));

const HEAD = [
  'device',
  'tenant',
  'class',
  'QPs',
  'procs',
  'Gbit/s',
  'may',
  'weight',
  'labels',
  'limits',
  'why',
];

/** The labels that the daemon gives to a tenant's contexts, besides its weight, and the weights of its groups. */
function labelsOf({ traffic, group, qpWeight, groups = {}, moreGroups = 0 }: TenantRow): string {
  const weights = Object.entries(groups).map(([name, weight]) => `${name} ${weight}`);
  if (moreGroups > 0) weights.push(`${moreGroups} more`);
  const labels = [
    traffic ?? '',
    group === null ? '' : `group ${group}`,
    qpWeight === null ? '' : `queue pairs ${qpWeight}`,
    weights.length === 0 ? '' : `groups ${weights.join(' ')}`,
  ];
  return labels.filter((one) => one !== '').join(', ') || '-';
}

/** How many of these columns are texts. */
const NOTES = 3;

function tableOf(rows: readonly TenantRow[]): string {
  const cells = rows.map((row) => [
    row.device,
    row.tenant,
    row.class || '-',
    `${row.qps}`,
    `${row.processes}`,
    number(row.wireGbps),
    number(row.rateGbps),
    row.gbps === null ? `${row.weight}` : 'own',
    labelsOf(row),
    limitsOf(row),
    row.why,
  ]);
  return tableWithNotes(
    cells.map((row) => row.map(escaped)),
    HEAD,
    NOTES,
  );
}

async function listTenants({
  socket = socketOf(),
  json,
}: {
  socket?: string;
  json?: boolean;
}): Promise<void> {
  const rows = await requestTenants(socket);
  process.stdout.write(json ? escapedLines(jsonText({ tenants: rows })) : `${tableOf(rows)}\n`);
}

type Setting = Omit<ToDaemon & { type: 'set' }, 'type' | 'tenant' | 'future'>;

/** Reads the value of a setting; undefined if it is invalid. */
type ValueReader = (text: string) => number | string | undefined;

const numberIf =
  (isValid: (value: number) => boolean): ValueReader =>
  (text) =>
    text !== '' && isValid(Number(text)) ? Number(text) : undefined;
const isAbove0 = (value: number) => value > 0 && Number.isFinite(value);

/** Each setting, with the words that reset it, if there are any. */
const SETTINGS: Readonly<Record<string, readonly [read: ValueReader, ...resets: string[]]>> = {
  weight: [numberIf(isWeight)],
  qpWeight: [numberIf(isWeight), 'own'],
  group: [(text) => (isGroup(text) && text !== '' ? text : undefined), 'own'],
  traffic: [(text) => TRAFFIC_NAMES.find((name) => name === text), 'own'],
  gbps: [numberIf(isAbove0), 'share', 'none'],
  maxQps: [numberIf((value) => isAbove0(value) && Number.isInteger(value)), 'none'],
  maxRequestsPerS: [numberIf(isAbove0), 'none'],
};

/**
 * Parses settings such as `weight=3`, `traffic=latency`, `groups.kv=3`, `gbps=10`, `gbps=share`, `maxQps=4` and `maxQps=none`.
 * @throws ConfigError
 */
function settings(words: readonly string[]): Setting {
  const groups: Record<string, number | null> = {};
  const others = words.flatMap((word) => {
    const { name, weight } = groupSettingOf(word) ?? {};
    if (name === undefined || weight === undefined) return [settingOf(word)];
    groups[name] = weight;
    return [];
  });
  return { ...Object.fromEntries(others), ...(others.length < words.length && { groups }) };
}

/** Parses `groups.NAME=WEIGHT` or `groups.NAME=own`; null: it is another setting, or wrong. The name may contain `=`. */
function groupSettingOf(word: string): { name: string; weight: number | null } | null {
  const [, name, text] = /^groups\.(.+)=([^=]*)$/.exec(word) ?? [];
  if (!isGroupName(name)) return null;
  const weight = text === 'own' ? null : numberIf(isWeight)(text);
  return typeof weight === 'string' || weight === undefined ? null : { name, weight };
}

function settingOf(word: string): [key: string, value: number | string | null] {
  const at = word.indexOf('=');
  const [key, text] = [word.slice(0, Math.max(0, at)), word.slice(at + 1)];
  if (Object.hasOwn(SETTINGS, key)) {
    const [read, ...resets] = SETTINGS[key];
    if (resets.includes(text)) return [key, null];
    const value = read(text);
    if (value !== undefined) return [key, value];
  }
  const meant = Object.hasOwn(SETTINGS, key) ? '' : meantBy(key, Object.keys(SETTINGS));
  throw new ConfigError(
    `invalid setting '${word}'; use weight=NUMBER (weights are from 1e-6 to 1e6); qpWeight=NUMBER, groups.NAME=NUMBER, ` +
      `group=NAME or traffic=${TRAFFIC_NAMES.join('|')}, or KEY=own to restore the programs' own value; gbps=NUMBER, or gbps=share or gbps=none for a share by ` +
      `weight; maxQps=NUMBER or maxRequestsPerS=NUMBER, or KEY=none to remove the limit${meant}`,
  );
}

/** What a rate is set for: a tenant, or a target in it (null: the tenant itself). @throws ConfigError for another target */
function targetOf(name: string): { tenant: string; target: string | null } {
  const [, tenant, text] = /^(.+?)\/([^/=]*=.*)$/s.exec(name) ?? [];
  if (text === undefined) return { tenant: name, target: null };
  const target = rateTarget(text);
  if (target !== null) return { tenant, target };
  throw new ConfigError(`invalid target '${text}' of tenant '${tenant}'; use ${RATE_TARGETS}`);
}

/** The rate of a target. @throws ConfigError for any other setting */
function rateOf(target: string, words: readonly string[]): Setting {
  const [word] = words;
  const [key, value] = settingOf(word);
  const isRate = key === 'gbps' && words.length === 1 && word !== 'gbps=share';
  if (isRate && typeof value !== 'string') return { rates: { [target]: value } };
  throw new ConfigError(
    `invalid setting '${words.join(' ')}' of ${target}; use gbps=NUMBER, or gbps=none for no rate`,
  );
}

const note = (text: string) => process.stderr.write(`isoverbs: ${escaped(text)}\n`);

async function set(
  name: string,
  words: string[],
  { socket = socketOf(), future = false }: { socket?: string; future?: boolean },
): Promise<void> {
  const { tenant, target } = targetOf(name);
  const setting = target === null ? settings(words) : rateOf(target, words);
  const [answer] = await request(socket, { type: 'set', tenant, future, ...setting });
  if (answer.type === 'refused') throw new Error(answer.reason);
  if (answer.type === 'done' && !answer.isKnown && !future) throw await absent(socket, tenant);
  if (answer.type === 'done' && !answer.isKnown)
    note(`no tenant '${tenant}' is present now; the setting applies once one connects`);
  else if (target !== null && setting.rates?.[target] !== null && !(await hasQps(socket, tenant, target)))
    note(
      `no queue pair of tenant '${tenant}' has this rate now; it will apply to queue pairs that ` +
        `match ${target}, if their program uses the policy tassel`,
    );
  await noteIneffective(socket, tenant, setting);
}

/** Says why a weight or a rate that was set has no effect, if it has none. */
async function noteIneffective(socket: string, tenant: string, { weight, gbps }: Setting): Promise<void> {
  const hasRate = typeof gbps === 'number';
  if (weight === undefined && !hasRate) return;
  // Loaded only here, because it knows the policies.
  const { slowerLink, whyIneffective, whyRateIneffective } = await import('../weight-effect.ts');
  const weightNow = `the weight of tenant '${tenant}' is now ${weight}`;
  const rateNow = `the rate of tenant '${tenant}' is now ${gbps} Gbit/s`;
  let listing: Awaited<ReturnType<typeof requestListing>>;
  try {
    listing = await requestListing(socket);
  } catch (error) {
    const unknown = `; whether it has an effect is unknown: ${(error as Error).message}`;
    if (weight !== undefined) note(weightNow + unknown);
    if (hasRate) note(rateNow + unknown);
    return;
  }
  const noteIf = (now: string, why: ReturnType<typeof whyIneffective>) => {
    if (why !== null) note(`${now}, but has no effect: ${why.reason}; ${why.remedy}`);
  };
  if (weight !== undefined) noteIf(weightNow, whyIneffective(tenant, listing));
  if (!hasRate) return;
  noteIf(rateNow, whyRateIneffective(tenant, listing));
  const link = slowerLink(tenant, gbps, listing);
  if (link !== null) note(`${rateNow}, above that of ${link}, so the tenant may fill the whole link`);
}

/** The error for a tenant that is not present, whose name may be misspelt. */
async function absent(socket: string, tenant: string): Promise<Error> {
  const present = new Set((await requestTenants(socket)).map((row) => row.tenant));
  const question = didYouMean(tenant, [...present]);
  return new Error(
    escaped(
      `no tenant '${tenant}' is present; ${question}to keep the setting until it connects, add --future`,
    ),
  );
}

/** Whether the rate of a target is that of any queue pair, which programs report within a few milliseconds. */
async function hasQps(socket: string, tenant: string, target: string): Promise<boolean> {
  for (const endMs = performance.now() + REPORT_MS; performance.now() < endMs; await delay(REPORT_MS / 20)) {
    const rows = (await requestTenants(socket)).filter((row) => row.tenant === tenant);
    // Of a tenant with many rates, only the first are shown.
    if (rows.some(({ ratedQps }) => ratedQps?.[target] !== 0)) return true;
  }
  return false;
}

/** Adds `tenants` to the command. */
export function addTenants(command: Command): void {
  const sub = command
    .command('tenants')
    .description('list the tenants of the devices of this host, and what each gets')
    .option('--socket <path>', 'the socket of the daemon')
    .option('--json', 'print JSON')
    .action(listTenants);
  describe(sub, {
    about:
      'Asks the daemon for the tenants of each device: their classes, the reasons for their grants, and their rates.',
    examples: [
      ['isoverbs tenants', 'as a table'],
      ['isoverbs tenants --json', 'for programs'],
    ],
    failed: 'no daemon answers',
    environment: ['ISOVERBS_DAEMON'],
    seeAlso: ['docs/operations.md', 'isoverbs top', 'isoverbs daemon', 'isoverbs set'],
  });
}

/** Adds `set` to the command. */
export function addSet(command: Command): void {
  const sub = command
    .command('set')
    .description(
      'change what a tenant gets: weight=3, traffic=latency, gbps=10, maxQps=4, maxRequestsPerS=1000',
    )
    .argument(
      '<tenant[/target]>',
      'the name that `isoverbs tenants` shows; with /group=NAME, a group of its queue pairs; with /qp=ADDRESS, each of ' +
        'its queue pairs whose peer has this IP address',
    )
    .argument(
      '<setting...>',
      'weight=NUMBER; the labels qpWeight=NUMBER, group=NAME or traffic=KIND, or the weight of a group, ' +
        "groups.NAME=NUMBER, or KEY=own to restore the programs' own value; gbps=NUMBER, or gbps=share or gbps=none for a share by weight; for a group or queue pairs, gbps=NUMBER or gbps=none only; " +
        'maxQps=NUMBER or maxRequestsPerS=NUMBER, or KEY=none to remove the limit',
    )
    .option('--future', 'also accept a tenant that is not present: the setting applies once it connects')
    .option('--socket <path>', 'the socket of the daemon')
    .action(set);
  describe(sub, {
    about:
      'Gives a tenant another weight, other labels, other weights of its groups, a fixed rate, or limits on its queue pairs and on the requests it ' +
      'may send per second, on each device, until the daemon ends. Groups and queue pairs of the tenant may have rates, ' +
      'too, which the policy tassel enforces.',
    examples: [
      ['isoverbs set storage weight=3', 'three shares of the link'],
      ['isoverbs set storage traffic=latency group=kv', 'labels for all contexts of the tenant'],
      ['isoverbs set storage groups.kv=3 groups.scan=1', 'weights of two groups of the tenant'],
      [
        'isoverbs set storage gbps=10',
        'a fixed rate instead of a share; under tassel, drum and fair, the most that it may send',
      ],
      ['isoverbs set storage/group=kv gbps=3', 'at most 3 Gbit/s for all queue pairs of a group together'],
      ["isoverbs set 'storage/qp=10.0.0.*' gbps=1", 'at most 1 Gbit/s for each queue pair to these peers'],
      ['isoverbs set batch weight=2 --future', 'for a tenant that may come later'],
      ['isoverbs set storage maxRequestsPerS=1000 maxQps=none', 'set one limit, remove the other'],
    ],
    failed: 'no daemon answers, it refuses the change, or the tenant is not present',
    environment: ['ISOVERBS_DAEMON'],
    seeAlso: ['docs/operations.md', 'isoverbs daemon', 'isoverbs tenants'],
  });
}
