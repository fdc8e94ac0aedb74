/** `isoverbs tenants` and `isoverbs set`: queries and settings of the daemon. */
import type { Command } from 'commander';
import { defaultSocket } from '../../daemon/client/default-socket.ts';
import { request, requestTenants } from '../../daemon/client/tool-request.ts';
import type { TenantRow, ToDaemon } from '../../daemon/protocol.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { describe } from '../manual.ts';
import { tableText } from '../output/table.ts';
import { limitsOf, shownName } from '../output/top-table.ts';

const number = (value: number) => (value === 0 ? '-' : value.toFixed(2));

const HEAD = ['device', 'tenant', 'class', 'procs', 'QPs', 'Gbit/s', 'may', 'weight', 'limits', 'why'];

function tableOf(rows: readonly TenantRow[]): string {
  const cells = rows.map((row) => [
    row.device,
    shownName(row.tenant),
    row.class,
    `${row.processes}`,
    `${row.qps}`,
    number(row.wireGbps),
    number(row.rateGbps),
    row.gbps === null ? `${row.weight}` : 'own',
    limitsOf(row),
    row.why,
  ]);
  return tableText(cells, { head: HEAD });
}

async function listTenants({
  socket = defaultSocket(),
  json,
}: {
  socket?: string;
  json?: boolean;
}): Promise<void> {
  const rows = await requestTenants(socket);
  process.stdout.write(`${json ? JSON.stringify(rows, null, 2) : tableOf(rows)}\n`);
}

type Setting = Omit<ToDaemon & { type: 'set' }, 'type' | 'tenant'>;

/** The word that resets a setting, where one exists. */
const RESET_WORD: Readonly<Record<string, string>> = {
  gbps: 'share',
  maxQps: 'none',
  maxRequestsPerS: 'none',
};
const SETTABLE = ['weight', 'gbps', 'maxQps', 'maxRequestsPerS'];

/** `weight=3`, `gbps=10`, `gbps=share`, `maxQps=4`, `maxQps=none`. @throws ConfigError */
function settings(words: readonly string[]): Setting {
  const parsed: Record<string, number | null> = {};
  for (const word of words) {
    const [key, text = '', ...more] = word.split('=');
    const value = Number(text);
    const isNumber = text !== '' && Number.isFinite(value) && value > 0;
    const isKnown = SETTABLE.includes(key) && more.length === 0;
    if (isKnown && text !== '' && RESET_WORD[key] === text) parsed[key] = null;
    else if (isKnown && isNumber && (key !== 'maxQps' || Number.isInteger(value))) parsed[key] = value;
    else
      throw new ConfigError(
        `invalid setting '${word}'; use weight=NUMBER, gbps=NUMBER or gbps=share (a share by weight), ` +
          'maxQps=NUMBER, maxRequestsPerS=NUMBER, or =none for no limit',
      );
  }
  return parsed;
}

async function set(
  tenant: string,
  words: string[],
  { socket = defaultSocket() }: { socket?: string },
): Promise<void> {
  const [answer] = await request(socket, { type: 'set', tenant, ...settings(words) });
  if (answer.type === 'refused') throw new Error(answer.reason);
  if (answer.type === 'done' && !answer.isKnown)
    process.stderr.write(
      `isoverbs: no tenant '${shownName(tenant)}' is present now; the setting applies once one connects\n`,
    );
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
      'Asks the daemon for the tenants of each device: their classes, the reasons for these, and their rates.',
    examples: [
      ['isoverbs tenants', 'as a table'],
      ['isoverbs tenants --json', 'for programs'],
    ],
    failed: 'no daemon answers',
    seeAlso: ['docs/operations.md', 'isoverbs top', 'isoverbs daemon', 'isoverbs set'],
  });
}

/** Adds `set` to the command. */
export function addSet(command: Command): void {
  const sub = command
    .command('set')
    .description('change what a tenant gets: weight=3, gbps=10, maxQps=4, maxRequestsPerS=1000')
    .argument('<tenant>', 'the name that `isoverbs tenants` shows')
    .argument(
      '<setting...>',
      'weight=NUMBER; gbps=NUMBER, or gbps=share for a share by weight; maxQps=NUMBER or maxRequestsPerS=NUMBER, or =none',
    )
    .option('--socket <path>', 'the socket of the daemon')
    .action(set);
  describe(sub, {
    about:
      'Gives a tenant another weight, a fixed rate, or limits on its queue pairs and on the requests it may ' +
      'send per second, on each device, until the daemon ends.',
    examples: [
      ['isoverbs set storage weight=3', 'three shares of the link'],
      ['isoverbs set storage gbps=10', 'a fixed rate instead of a share'],
      ['isoverbs set storage maxRequestsPerS=1000 maxQps=none', 'set one limit, remove the other'],
    ],
    failed: 'no daemon answers, or it refuses the change',
    seeAlso: ['docs/operations.md', 'isoverbs daemon', 'isoverbs tenants'],
  });
}
