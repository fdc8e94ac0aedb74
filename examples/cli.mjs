// @ts-nocheck
// Shared by the longer example programs: roles on the command line, and statistics.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ConfigError, openDevice } from 'isoverbs';
import { deviceNames } from './ends.mjs';

/** Whether `url` (import.meta.url) is the main program. */
export function isProgram(url) {
  return fileURLToPath(url) === process.argv[1];
}

/** Runs the program as runEnds() does. Any uncaught error ends the process through fail(). */
export async function run(program) {
  process.once('uncaughtException', fail);
  await runEnds(program);
}

/** Prints an error, without its stack if it has a code, and ends the process. A listener for uncaught exceptions. */
export function fail(error) {
  console.error(error.code === undefined ? error : `${error.message} (${error.code})`);
  process.exit(1);
}

/**
 * By default, both ends run in this process, on the devices of deviceNames(). --listen PORT runs only the server,
 * --connect HOST:PORT only the client. --qp-timeout is the code of the acknowledgement timeout of queue pairs,
 * 14 (67 ms) by default. `options` are the program's own options for parseArgs.
 */
async function runEnds({ options = {}, server, client }) {
  const text = { type: 'string' };
  const all = { listen: text, connect: text, device: text, 'qp-timeout': text, ...options };
  const { values } = parseArgs({ options: all });
  const both = values.listen === undefined && values.connect === undefined;
  const [ofServer, ofClient] = both ? deviceNames(values.device) : [values.device, values.device];
  let { host, port } = parseTarget(values.connect ?? ':0');
  const timeout = Number(values['qp-timeout'] ?? 14);
  let serving;
  if (values.connect === undefined) {
    serving = openDevice(ofServer);
    if (!both && serving.provider.name === 'sim') {
      throw new ConfigError(
        'simulated devices connect within one process only: leave out --listen, name a real --device or soft0 (RoCE over UDP), or run under `isoverbs rxe -- COMMAND`',
      );
    }
    ({ port } = await server(
      serving,
      { port: parsePort('--listen', values.listen ?? '0'), timeout },
      values,
    ));
    if (!both) {
      console.log(`listening on ${serving.name}, port ${port}`);
      return;
    }
    host = serving.provider.name === 'sim' ? serving.name : '127.0.0.1';
  }
  const context = openDevice(ofClient);
  await client(context, { host, port, timeout }, values);
  context.close();
  serving?.close();
}

/** Parses HOST:PORT; an IPv6 address may have brackets. Without a host, it is undefined. */
function parseTarget(text) {
  const target = /^(?:\[(.*)\]|(.*)):(\d+)$/.exec(text);
  if (target === null) throw new ConfigError(`--connect takes HOST:PORT, got '${text}'`);
  return { host: target[1] || target[2] || undefined, port: parsePort('--connect', target[3]) };
}

/** Parses the number of a port; 0 is a free one. */
function parsePort(option, text) {
  if (/^\d+$/.test(text) && Number(text) <= 65535) return Number(text);
  throw new ConfigError(`${option} takes a port from 0 to 65535, got '${text}'`);
}

/** `--count` and `--seconds` as numbers; without either, `fallback` is the count. */
export function limits({ count, seconds }, fallback) {
  if (count === undefined && seconds === undefined) return { count: fallback, seconds: Infinity };
  return { count: Number(count ?? Infinity), seconds: Number(seconds ?? Infinity) };
}

/** Returns a function that reports whether SIGINT (Ctrl-C) was received. */
export function interruption() {
  let interrupted = false;
  process.on('SIGINT', () => {
    interrupted = true;
  });
  return () => interrupted;
}

/** The q-quantile of an array of numbers. */
export function quantile(samples, q) {
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.floor(q * (sorted.length - 1))];
}
