/**
 * `node --import isoverbs/register app.js`: puts the configured policies around every device that the
 * program opens. See docs/configuration.md.
 */
import { writeSync } from 'node:fs';
import { type Config, loadConfig } from './config.ts';
import { interceptorSlot } from './interceptors.ts';
import { createPolicy } from './policies/index.ts';
import type { Interceptor } from './shim/compose.ts';
import { ConfigError } from './verbs/errors.ts';

const counts = { sends: 0, receives: 0, completions: 0 };

/** Counts what passes, for the line at exit. */
const counting: Interceptor = {
  name: 'count',
  wrap: (next) => ({
    postSend(qp, ring, start, count) {
      const posted = next.postSend(qp, ring, start, count);
      counts.sends += posted;
      return posted;
    },
    postRecv(qp, ring, start, count) {
      const posted = next.postRecv(qp, ring, start, count);
      counts.receives += posted;
      return posted;
    },
    pollCq(cq, ring, start, max) {
      const polled = next.pollCq(cq, ring, start, max);
      counts.completions += polled;
      return polled;
    },
  }),
};

function register(config: Config): void {
  const slot = interceptorSlot();
  const policies = config.policies.map(({ name, options }) => {
    try {
      return createPolicy(name, options);
    } catch (error) {
      throw error instanceof ConfigError
        ? new ConfigError(`${config.source}: policy: ${error.message}`)
        : error;
    }
  });
  if (slot.opened.length > 0) {
    process.emitWarning(
      `isoverbs/register was loaded after ${slot.opened.length} context(s) had been opened; those stay without policy`,
      { code: 'ISO_LATE', detail: 'Load it first: node --import isoverbs/register app.js' },
    );
  }
  const verbose = config.log === 'info' || config.log === 'debug';
  slot.interceptors = verbose ? [counting, ...policies] : policies;
  slot.device = config.device;
  slot.tenant = config.tenant;
  if (verbose) process.on('exit', () => writeSync(2, `${exitLine(config)}\n`));
}

function exitLine(config: Config): string {
  const names = config.policies.map((policy) => policy.name).join(', ');
  const policy = names === '' ? 'no policy' : `policy ${names} (from ${config.source})`;
  const { opened } = interceptorSlot();
  if (opened.length === 0) return `isoverbs: ${policy}; attached to nothing: no device was opened`;
  const devices = [...new Set(opened)].join(', ');
  const { sends, receives, completions } = counts;
  return (
    `isoverbs: ${policy}; attached to ${opened.length} context(s) of ${devices}; ` +
    `${sends} sends and ${receives} receives posted, ${completions} completions`
  );
}

register(loadConfig());
