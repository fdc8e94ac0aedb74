/** `isoverbs top`: shows the tenants of this host, continuously. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { socketOf, unreachable } from '../../daemon/client/tool-request.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { escaped, escapedLines } from '../escape.ts';
import { describe } from '../manual.ts';
import { JSON_SCHEMA_VERSION } from '../output/json.ts';
import type { Output } from '../top/live.ts';
import { ORDERS, type Order, ordered, ratesOf, topTable } from '../top/table.ts';
import { type TenantSample, TenantWatch } from '../watch-tenants.ts';

interface TopFlags {
  socket?: string;
  interval: number;
  count?: number;
  once?: boolean;
  sort: Order;
  json?: boolean;
}

const MIN_INTERVAL_S = 0.1;
const MAX_INTERVAL_S = 3600;

/** Prints one table, or one line of JSON, after another. */
function printer(sort: Order, json: boolean): Output {
  let isDisconnected = false;
  return {
    show(rows, { nowNs }) {
      isDisconnected = false;
      const tenants = ordered(rows, sort);
      process.stdout.write(
        `${json ? escapedLines(JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, nowNs, tenants })) : `${topTable(tenants)}\n`}\n`,
      );
    },
    disconnected(reason) {
      if (!isDisconnected) process.stderr.write(`isoverbs: ${escaped(reason)}: waiting for a daemon\n`);
      isDisconnected = true;
    },
    close() {},
  };
}

/** @throws NoDaemonError, HandshakeError if there is no daemon at the start or, with a limited number of tables, at any time */
async function top({
  socket = socketOf(),
  interval,
  count,
  once,
  sort,
  json = false,
}: TopFlags): Promise<void> {
  if (once && count !== undefined) throw new ConfigError('--once means --count 1; use only one of them');
  const tables = once ? 1 : (count ?? Number.POSITIVE_INFINITY);
  const isTerminal = process.stdout.isTTY === true && process.env.TERM !== 'dumb';
  const isLive = isTerminal && tables === Number.POSITIVE_INFINITY && !json;
  // Loaded only here, because it knows what requests cost NICs, which the other outputs need not know.
  const screen = isLive ? await import('../top/live.ts') : null;
  return new Promise((resolve, reject) => {
    let output: Output | null = null;
    let previous: TenantSample | null = null;
    let remaining = tables;
    const end = (error?: Error) => {
      watch.close();
      output?.close();
      if (error === undefined) resolve();
      else reject(error);
    };
    const watch = new TenantWatch(socket, interval * 1e3, {
      sampled(sample) {
        // The daemon is busy and has not made a new list since.
        if (sample.nowNs === previous?.nowNs) return;
        output ??= screen?.live(sort, socket, () => end()) ?? printer(sort, json);
        // Rates need two samples, so printed output waits for the second one.
        if (isLive || previous !== null) {
          output.show(ratesOf(previous, sample), sample);
          remaining--;
        }
        previous = sample;
        if (remaining === 0) end();
      },
      disconnected(reason) {
        previous = null;
        if (output === null || tables !== Number.POSITIVE_INFINITY) {
          end(unreachable(socket, reason));
        } else output.disconnected(`${socket}: ${reason.message}`);
      },
    });
  });
}

/** @throws InvalidArgumentError */
function seconds(text: string): number {
  const value = Number(text);
  if (value >= MIN_INTERVAL_S && value <= MAX_INTERVAL_S) return value;
  throw new InvalidArgumentError(`It must be from ${MIN_INTERVAL_S} to ${MAX_INTERVAL_S} seconds.`);
}

/** @throws InvalidArgumentError */
function whole(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a whole number above 0.');
}

/** Adds `top` to the command. */
export function addTop(command: Command): void {
  const sub = command
    .command('top')
    .description('show the tenants of this host and what each sends, continuously')
    .option('--socket <path>', 'the socket of the daemon')
    .option('--interval <seconds>', 'time between two tables', seconds, 1)
    .option('--count <n>', 'end after this many tables', whole)
    .option('--once', 'print one table, after one interval')
    .addOption(
      new Option('--sort <order>', 'order of the rows').choices(ORDERS).default('bandwidth' as Order),
    )
    .option('--json', 'print one line of JSON for each table')
    .action(top);
  describe(sub, {
    about:
      'Asks the daemon once per interval. In a terminal, the screen is redrawn in place; the key ? lists the keys, which ' +
      'sort, filter, list processes and change weights, and q quits. If the output is not a terminal, top prints ' +
      'one table after another. If the daemon ends, top waits until a daemon is running again. Rates count what programs ' +
      'post. `may` is the rate at which a tenant may send, and `us` is the time from post to completion.',
    examples: [
      ['isoverbs top', 'in a terminal'],
      ['isoverbs top --once --json', 'for programs'],
    ],
    failed: 'no daemon answers',
    environment: ['ISOVERBS_DAEMON'],
    seeAlso: ['docs/operations.md', 'isoverbs daemon', 'isoverbs tenants', 'isoverbs set'],
  });
}
