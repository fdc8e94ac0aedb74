/** `isoverbs top`: the tenants of this host as they are now, again and again. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { defaultSocket } from '../../daemon/client/default-socket.ts';
import { ConfigError, HandshakeError } from '../../verbs/errors.ts';
import { describe } from '../manual.ts';
import { Screen } from '../output/screen.ts';
import { ORDERS, type Order, ordered, ratesOf, type TopRow, topTable } from '../output/top-table.ts';
import { type Look, TenantsWatch } from '../watch-tenants.ts';

interface TopWords {
  socket?: string;
  interval: number;
  count?: number;
  once?: boolean;
  sort: Order;
  json?: boolean;
}

const ORDER_OF_KEY: Readonly<Record<string, Order>> = {
  b: 'bandwidth',
  r: 'rate',
  l: 'latency',
  t: 'tenant',
};
const LEAST_INTERVAL_S = 0.1;
const MOST_INTERVAL_S = 3600;

/** Where looks go, and what is said of a daemon that is not there. */
interface Output {
  show(rows: readonly TopRow[], look: Look): void;
  gone(reason: string): void;
  close(): void;
}

/** A table, or a line of JSON, after the other. */
function printed(sort: Order, json: boolean): Output {
  let isGone = false;
  return {
    show(rows, { nowNs }) {
      isGone = false;
      const tenants = ordered(rows, sort);
      process.stdout.write(`${json ? JSON.stringify({ nowNs, tenants }) : `${topTable(tenants)}\n`}\n`);
    },
    gone(reason) {
      if (!isGone) process.stderr.write(`isoverbs: ${reason}: waiting for the next\n`);
      isGone = true;
    },
    close() {},
  };
}

/** One table in its place. `quit` is called when somebody has seen enough. */
function live(sort: Order, socket: string, quit: () => void): Output {
  let order = sort;
  let rows: readonly TopRow[] = [];
  let state = `asking ${socket}`;
  const draw = () => {
    const keys = process.stdin.isTTY ? '   order: b bandwidth, r rate, l latency, t tenant; q quit' : '';
    const table = rows.length === 0 ? 'no tenants' : topTable(ordered(rows, order));
    screen.draw([`isoverbs top: ${state}; by ${order}${keys}`, '', ...table.split('\n')]);
  };
  const screen = new Screen({
    key(key) {
      if (key === 'q') quit();
      else if (Object.hasOwn(ORDER_OF_KEY, key)) {
        order = ORDER_OF_KEY[key];
        draw();
      }
    },
    resized: draw,
  });
  return {
    show(found) {
      rows = found;
      const devices = new Set(rows.map(({ device }) => device)).size;
      state = `${rows.length} tenants of ${devices} devices`;
      draw();
    },
    gone(reason) {
      rows = [];
      state = `${reason}: waiting for the next`;
      draw();
    },
    close: () => screen.close(),
  };
}

/** @throws HandshakeError without a daemon at the beginning, or, with a count of tables, at any time */
function top({
  socket = defaultSocket(),
  interval,
  count,
  once,
  sort,
  json = false,
}: TopWords): Promise<void> {
  if (once && count !== undefined) throw new ConfigError('--once is --count 1: give one of them');
  const tables = once ? 1 : (count ?? Number.POSITIVE_INFINITY);
  const isTerminal = process.stdout.isTTY === true && process.env.TERM !== 'dumb';
  const isLive = isTerminal && tables === Number.POSITIVE_INFINITY && !json;
  return new Promise((resolve, reject) => {
    let output: Output | null = null;
    let before: Look | null = null;
    let left = tables;
    const end = (error?: Error) => {
      watch.close();
      output?.close();
      if (error === undefined) resolve();
      else reject(error);
    };
    const watch = new TenantsWatch(socket, interval * 1e3, {
      looked(look) {
        // The daemon made no new list since: it is busy.
        if (look.nowNs === before?.nowNs) return;
        output ??= isLive ? live(sort, socket, () => end()) : printed(sort, json);
        // What is printed once has rates: it waits for the second look.
        if (isLive || before !== null) {
          output.show(ratesOf(before, look), look);
          left--;
        }
        before = look;
        if (left === 0) end();
      },
      gone({ message }) {
        before = null;
        const reason = `${socket}: ${message}`;
        if (output === null || tables !== Number.POSITIVE_INFINITY) {
          end(new HandshakeError(`${reason}; is \`isoverbs daemon\` running?`));
        } else output.gone(reason);
      },
    });
  });
}

/** @throws InvalidArgumentError */
function seconds(text: string): number {
  const value = Number(text);
  if (value >= LEAST_INTERVAL_S && value <= MOST_INTERVAL_S) return value;
  throw new InvalidArgumentError(`It is from ${LEAST_INTERVAL_S} to ${MOST_INTERVAL_S} seconds.`);
}

/** @throws InvalidArgumentError */
function whole(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError('It is a whole number above 0.');
}

/** Adds `top` to the command. */
export function addTop(command: Command): void {
  const sub = command
    .command('top')
    .description('show the tenants of this host, and what each sends now, again and again')
    .option('--socket <path>', 'the socket of the daemon')
    .option('--interval <seconds>', 'between two tables', seconds, 1)
    .option('--count <n>', 'end after so many tables', whole)
    .option('--once', 'one table, after one interval')
    .addOption(
      new Option('--sort <order>', 'which rows come first').choices(ORDERS).default('bandwidth' as Order),
    )
    .option('--json', 'print a line of JSON for each table')
    .action(top);
  describe(sub, {
    about:
      'Asks the daemon once each interval. In a terminal the table stays in its place: b, r, l and t order it ' +
      'by bandwidth, requests a second, latency or tenant, q ends it; when the daemon goes it waits for the ' +
      'next. Elsewhere it prints one table after the other. Rates are of what programs post; `may` is what ' +
      'a tenant may send; `us` is from post to completion.',
    examples: [
      ['isoverbs top', 'in a terminal'],
      ['isoverbs top --once --json', 'for a program'],
    ],
    failed: 'no daemon answers',
    seeAlso: ['docs/operations.md', 'isoverbs daemon', 'isoverbs tenants', 'isoverbs set'],
  });
}
