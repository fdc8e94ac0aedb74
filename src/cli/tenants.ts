/** `isoverbs tenants` and `isoverbs set`: what is asked of the daemon. */
import Table from 'cli-table3';
import type { Command } from 'commander';
import { defaultSocket } from '../daemon/config.ts';
import { type Connection, connect } from '../daemon/connection.ts';
import type { TenantRow, ToClient, ToDaemon } from '../daemon/protocol.ts';
import { ConfigError, HandshakeError } from '../verbs/errors.ts';
import { describe } from './manual.ts';

/** A daemon that is stopped does not keep who asks it waiting. */
const ANSWER_MS = 5000;

/**
 * One question to the daemon, and the last of its answers.
 * @param isMore whether another one comes after this
 * @throws HandshakeError
 */
function ask(socket: string, question: ToDaemon, isMore = (_answer: ToClient) => false): Promise<ToClient> {
  return new Promise((resolve, reject) => {
    let connection: Connection | null = null;
    const timer = setTimeout(() => {
      connection?.close();
      reject(new HandshakeError(`${socket}: the daemon does not answer`));
    }, ANSWER_MS);
    const on = {
      answered(one: Connection) {
        connection = one;
        one.say(question);
      },
      heard(message: ToClient) {
        if (isMore(message)) return;
        clearTimeout(timer);
        connection?.close();
        resolve(message);
      },
      rang() {},
      ended(error: Error) {
        clearTimeout(timer);
        reject(new HandshakeError(`${socket}: ${error.message}; is \`isoverbs daemon\` running?`));
      },
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

/** The list comes in pieces. */
async function askTenants(socket: string): Promise<TenantRow[]> {
  const rows: TenantRow[] = [];
  const answer = await ask(socket, { type: 'tenants' }, (message) => {
    if (message.type === 'tenants') rows.push(...message.rows);
    return message.type === 'tenants' && message.more;
  });
  if (answer.type !== 'tenants') throw new HandshakeError(`the daemon answered '${answer.type}'`);
  return rows;
}

const number = (value: number) => (value === 0 ? '-' : value.toFixed(2));

function tableOf(rows: readonly TenantRow[]): string {
  const head = ['device', 'tenant', 'class', 'why', 'processes', 'QPs', 'Gbit/s', 'may', 'weight'];
  const table = new Table({ head, style: { head: [], border: [] } });
  for (const row of rows) {
    const share = row.gbps === null ? `${row.weight}` : `${row.gbps} Gbit/s`;
    const { device, tenant, why, processes, qps } = row;
    table.push([
      device,
      tenant,
      row.class,
      why,
      processes,
      qps,
      number(row.wireGbps),
      number(row.rateGbps),
      share,
    ]);
  }
  return table.toString();
}

async function listTenants({
  socket = defaultSocket(),
  json,
}: {
  socket?: string;
  json?: boolean;
}): Promise<void> {
  const rows = await askTenants(socket);
  process.stdout.write(`${json ? JSON.stringify(rows, null, 2) : tableOf(rows)}\n`);
}

/** `weight=3`, `gbps=10`, `gbps=share`. @throws ConfigError */
function settings(words: readonly string[]): { weight?: number; gbps?: number | null } {
  const found: { weight?: number; gbps?: number | null } = {};
  for (const word of words) {
    const [key, text = ''] = word.split('=');
    const value = Number(text);
    const isNumber = text !== '' && Number.isFinite(value) && value > 0;
    if (key === 'gbps' && text === 'share') found.gbps = null;
    else if ((key === 'weight' || key === 'gbps') && isNumber) found[key] = value;
    else
      throw new ConfigError(
        `'${word}': set weight=NUMBER, gbps=NUMBER, or gbps=share for a share by weight again`,
      );
  }
  return found;
}

async function set(
  tenant: string,
  words: string[],
  { socket = defaultSocket() }: { socket?: string },
): Promise<void> {
  const answer = await ask(socket, { type: 'set', tenant, ...settings(words) });
  if (answer.type === 'refused') throw new Error(answer.reason);
}

/** Adds `tenants` to the command. */
export function addTenants(command: Command): void {
  const sub = command
    .command('tenants')
    .description('list who shares the devices of this host, and what each gets')
    .option('--socket <path>', 'the socket of the daemon')
    .option('--json', 'print JSON')
    .action(listTenants);
  describe(sub, {
    about:
      'Asks the daemon for the tenants of each device: what they are taken for and why, and their rates.',
    examples: [
      ['isoverbs tenants', 'for people'],
      ['isoverbs tenants --json', 'for programs'],
    ],
    failed: 'no daemon answers',
    seeAlso: ['isoverbs daemon', 'isoverbs set'],
  });
}

/** Adds `set` to the command. */
export function addSet(command: Command): void {
  const sub = command
    .command('set')
    .description('change what a tenant gets: weight=3, gbps=10, gbps=share')
    .argument('<tenant>', 'as `isoverbs tenants` names it')
    .argument('<setting...>', 'weight=NUMBER, gbps=NUMBER, or gbps=share: by weight again')
    .option('--socket <path>', 'the socket of the daemon')
    .action(set);
  describe(sub, {
    about: 'Gives a tenant another weight, or a rate of its own, until the daemon ends.',
    examples: [
      ['isoverbs set storage weight=3', 'three shares of the link'],
      ['isoverbs set storage gbps=10', 'a rate, instead of a share'],
    ],
    failed: 'no daemon answers, or it refuses',
    seeAlso: ['isoverbs daemon', 'isoverbs tenants'],
  });
}
