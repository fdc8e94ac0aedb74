/**
 * Facts files contain what `isoverbs calibrate` measured about a device. The innermost interceptor adds these facts to
 * those that the device reports about its NIC.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import type { Interceptor } from '../shim/compose.ts';
import { ConfigError } from '../verbs/errors.ts';
import type { MeasuredFacts } from '../verbs/nic.ts';
import type { Provider } from '../verbs/provider.ts';

/** Distinguishes facts files from other JSON. A change of the schema changes the version. */
export const FACTS_FORMAT = 'isoverbs-facts-1';

/**
 * A lower rate would stop everything that a policy paces, and a higher one would pace nothing; neither was measured on a
 * device.
 */
const rate = z.number().min(1e-3).max(1e6).nullable();
const chunks = z
  .array(z.strictObject({ chunkBytes: z.int().positive(), gbps: z.number().positive() }))
  .min(1)
  .refine((all) => all.every(({ chunkBytes }, i) => i === 0 || chunkBytes > all[i - 1].chunkBytes), {
    error: 'must be in ascending order of chunkBytes',
  });

/** The device that was measured, and the date of the measurement. */
const identity = {
  format: z.literal(FACTS_FORMAT),
  date: z.iso.datetime(),
  device: z.string().min(1),
  driver: z.string().min(1),
  firmware: z.string(),
  mtuBytes: z.int().positive().nullable(),
  linkGbps: rate,
};

const fileSchema = z.strictObject({
  ...identity,
  maxGbps: rate,
  maxMmps: rate,
  qpMmps: rate,
  chunks: chunks.nullable(),
  tailNs: z.record(z.string().min(1), z.number().positive()).nullable(),
});

/** A facts file: the measured facts, and the device, driver, firmware, MTU and link with which they were measured. */
export type FactsFile = Readonly<Omit<z.infer<typeof fileSchema>, keyof MeasuredFacts>> & MeasuredFacts;

/** @throws ConfigError for a file that is missing, incomplete, or not a facts file of this version */
export function readFacts(path: string): FactsFile {
  const parsed = fileSchema.safeParse(readJson(path));
  if (parsed.success) return parsed.data;
  const [{ path: keys, message }] = parsed.error.issues;
  const where = keys.length === 0 ? '' : `${keys.join('.')}: `;
  const what =
    keys[0] === 'format' ? 'it is not a facts file of this version of isoverbs' : `${where}${message}`;
  throw unusable(path, what);
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw unusable(path, (cause as Error).message, cause);
  }
}

function unusable(path: string, what: string, cause?: unknown): ConfigError {
  return new ConfigError(
    `the facts file ${path} cannot be used: ${what}; measure again with \`isoverbs calibrate --out ${path}\``,
    { cause },
  );
}

const measuredOf = ({ maxGbps, maxMmps, qpMmps, chunks, tailNs }: FactsFile): MeasuredFacts => ({
  maxGbps,
  maxMmps,
  qpMmps,
  chunks,
  tailNs,
});

/** The current values of what the facts of a device depend on. */
type Present = Pick<FactsFile, 'device' | 'firmware' | 'mtuBytes' | 'linkGbps'>;

/**
 * Differences between the measured device and the current one, such as `firmware 16.35, now 16.36`. The names of
 * simulated devices are not compared, because all devices of a fabric are alike.
 */
export function differences(file: FactsFile, present: Present): string[] {
  const areSimulated = [file.device, present.device].every((name) => /^sim\d+$/.test(name));
  const parts = [
    ['device', areSimulated ? present.device : file.device, present.device],
    ['firmware', file.firmware, present.firmware],
    ['MTU', file.mtuBytes, present.mtuBytes],
    ['link rate', file.linkGbps, present.linkGbps],
  ] as const;
  return parts.flatMap(([name, was, is]) =>
    was === is ? [] : [`${name} ${was ?? 'unknown'}, now ${is ?? 'unknown'}`],
  );
}

/**
 * Adds the facts of a file to those that devices report (`describeNic`). A device that reports nothing about its NIC
 * gets no facts. If the file was measured on another device, firmware, MTU or link, the interceptor emits a warning
 * with the code ISO_STALE_FACTS, once for each device.
 * @throws ConfigError for a file that cannot be used
 */
export function factsInterceptor(path: string): Interceptor {
  const file = readFacts(path);
  const measured = measuredOf(file);
  const checked = new Set<string>();
  const check = (present: Present) => {
    if (checked.has(present.device)) return;
    checked.add(present.device);
    const differing = differences(file, present);
    if (differing.length === 0) return;
    process.emitWarning(
      `the facts file ${path} of ${file.date} may be wrong for ${present.device}: ${differing.join('; ')}`,
      {
        code: 'ISO_STALE_FACTS',
        detail: `It is used anyway. Measure again: isoverbs calibrate --device ${present.device} --out ${path}`,
      },
    );
  };
  return { name: 'facts', wrap: (next) => describing(next, measured, check) };
}

/** Overrides the verbs that open, close and describe devices. */
function describing(next: Provider, measured: MeasuredFacts, check: (present: Present) => void) {
  const devices = new Map<number, string>();
  const overrides: Pick<Provider, 'openDevice' | 'closeDevice' | 'describeNic'> = {
    openDevice(name, options) {
      const context = next.openDevice(name, options);
      devices.set(context, name);
      return context;
    },
    closeDevice(context) {
      next.closeDevice(context);
      devices.delete(context);
    },
    describeNic(context) {
      const nic = next.describeNic?.(context) ?? null;
      if (nic === null) return null;
      const device = devices.get(context);
      if (device !== undefined) {
        const { fwVer: firmware } = next.queryDevice(context);
        check({ device, firmware, mtuBytes: nic.mtuBytes, linkGbps: nic.linkGbps });
      }
      return { ...nic, ...measured };
    },
  };
  return overrides;
}

const byPath = new Map<string, Interceptor>();

/**
 * The interceptor for the file that ISOVERBS_FACTS names or, if the variable is not set, for the file `configured`; []
 * if there is neither. Each file is read once per process.
 * @throws ConfigError for a file that cannot be used
 */
export function factsOfProcess(configured?: string): readonly Interceptor[] {
  const named = process.env.ISOVERBS_FACTS || configured;
  if (named === undefined) return [];
  const path = resolve(named);
  const interceptor = byPath.get(path) ?? factsInterceptor(path);
  byPath.set(path, interceptor);
  return [interceptor];
}
