/** The daemon's configuration file (docs/daemon.md). */
import { z } from 'zod';
import { parseYaml } from '../providers/yaml.ts';
import { ConfigError } from '../verbs/errors.ts';
import { isGroup, isTenant, TENANT_ACCEPTED, TRAFFIC_NAMES } from '../verbs/labels.ts';
import { DEFAULT_LIMITS } from './admission.ts';
import { MAX_CPUS } from './busy-cpu.ts';
import { firstLine, issueText } from './config-issue.ts';
import { fleetSchema } from './fleet/config.ts';
import { readRegularFile } from './identity/regular-file.ts';
import { type UserIds, userIdsOf } from './identity/user-ids.ts';
import { groupWeights, ratesByTarget, weight } from './weights.ts';

const above0 = z.number().positive();
const count = z.number().int().positive().max(65536);
const id = z.number().int().min(0).max(0xffffffff);

const userIds = z
  .custom<number | string | unknown[]>((value) => userIdsOf(value) !== null, {
    error: 'must be a user ID, a range such as 100000-165535, or a list of both',
  })
  .transform((value) => userIdsOf(value) as UserIds);

const metricsAddress = z.union([z.number().int(), z.string()]).transform(String);

/** Names that every object of JavaScript has, as `__proto__`, would be lost or found where there are none. */
const isDeviceName = (name: string) => /^[^\s/\p{C}]{1,63}$/u.test(name) && !(name in {});

const devices = z.preprocess(
  (value, context) => {
    if (
      typeof value === 'object' &&
      value !== null &&
      !Object.getOwnPropertyNames(value).every(isDeviceName)
    ) {
      context.addIssue(
        'must have names of devices: 1 to 63 printable characters, and none that objects of JavaScript have',
      );
    }
    return value;
  },
  z.record(z.string(), z.strictObject({ linkGbps: above0.max(1e5) })),
);

const rule = z.strictObject({
  match: z
    .strictObject({
      uid: userIds.optional(),
      gid: id.optional(),
      cgroup: z.string().min(1).optional(),
      command: z.string().min(1).optional(),
      declared: z.string().min(1).optional(),
    })
    .default({}),
  tenant: z.string().refine(isTenant, { error: TENANT_ACCEPTED }).optional(),
  weight: weight.optional(),
  qpWeight: weight.optional(),
  group: z.custom<string>(isGroup, { error: 'must be a name of at most 64 printable characters' }).optional(),
  traffic: z.enum(TRAFFIC_NAMES).optional(),
  groups: groupWeights.optional(),
  gbps: above0.max(1e6).optional(),
  rates: ratesByTarget(above0.max(1e6)).optional(),
  maxQps: z.number().int().positive().optional(),
  maxRequestsPerS: above0.optional(),
});

/** Every key is documented in docs/daemon.md. */
export const daemonSchema = z.strictObject({
  socket: z.string().min(1).optional(),
  /** Permissions of the socket; a process that may write to it may connect. */
  mode: z
    .string({ error: "must be permissions in quotes, as '660'" })
    .regex(/^0?[0-7]{3}$/, { error: "must be permissions as '660'" })
    .transform((text) => Number.parseInt(text, 8))
    .default(0o666),
  /** ID of the group whose members may change what tenants get. */
  group: id.optional(),
  policy: z.string().default(''),
  /** The CPU of busy mode, in which the daemon never sleeps while it has clients. Absent: no busy mode. */
  busy: z
    .number()
    .int()
    .min(0)
    .max(MAX_CPUS - 1)
    .optional(),
  /** Where Prometheus can fetch metrics: PORT, ADDRESS:PORT on the loopback interface, the path of a socket, or a list. */
  metrics: z
    .union([metricsAddress, z.array(metricsAddress).min(1).max(8)])
    .transform((one) => (Array.isArray(one) ? one : [one]))
    .optional(),
  /**
   * Connected clients: in total, per user, and the part of the total reserved for those who may change what
   * tenants get.
   */
  limits: z
    .strictObject({
      clients: count.default(DEFAULT_LIMITS.clients),
      clientsOfAUser: count.default(DEFAULT_LIMITS.clientsOfAUser),
      reserved: z.number().int().min(0).default(DEFAULT_LIMITS.reserved),
    })
    .refine(({ clients, reserved }) => reserved < clients, { error: 'reserved must be less than clients' })
    .default(DEFAULT_LIMITS),
  /** The file with the ranges of subordinate user IDs. Default: /etc/subuid. */
  subuid: z.string().min(1).optional(),
  /** Users, besides root and the daemon's own, whose programs may declare their identity. */
  trust: z.array(id).default([]),
  /** The NATS servers over which the daemons of several hosts find each other. */
  fleet: fleetSchema.optional(),
  devices: devices.default({}),
  rules: z.array(rule).default([]),
});

export type DaemonConfig = z.infer<typeof daemonSchema>;

/** @throws ConfigError naming the file and the key */
export function parseDaemonConfig(text: string, file: string): DaemonConfig {
  let value: unknown;
  try {
    value = text === '' ? {} : (parseYaml(text) ?? {});
  } catch (error) {
    throw new ConfigError(`${file}: ${firstLine(error)}`);
  }
  const checked = daemonSchema.safeParse(value);
  if (checked.success) return checked.data;
  const problems = checked.error.issues.map((issue) =>
    [issue.path.join('.'), issueText(issue, value, daemonSchema)].filter(Boolean).join(': '),
  );
  throw new ConfigError(`${file}: ${problems.join('; ')}`);
}

/** @throws ConfigError */
export function readDaemonConfig(file: string | undefined): DaemonConfig {
  if (file === undefined) return parseDaemonConfig('', 'no file');
  return parseDaemonConfig(readRegularFile(file), file);
}
