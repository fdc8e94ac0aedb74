/** The daemon's configuration file (docs/daemon.md). */
import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { parse } from 'yaml';
import { z } from 'zod';
import { ConfigError } from '../verbs/errors.ts';
import { CLASSES } from './rules.ts';

const above0 = z.number().positive();
const id = z.number().int().min(0).max(0xffffffff);

const rule = z.strictObject({
  match: z
    .strictObject({
      uid: id.optional(),
      gid: id.optional(),
      cgroup: z.string().min(1).optional(),
      command: z.string().min(1).optional(),
      declared: z.string().min(1).optional(),
    })
    .default({}),
  tenant: z.string().min(1).max(128).optional(),
  weight: above0.max(1e6).optional(),
  class: z.enum(CLASSES).optional(),
  gbps: above0.max(1e6).optional(),
  maxQps: z.number().int().positive().optional(),
  maxRequestsPerS: above0.optional(),
});

const schema = z.strictObject({
  socket: z.string().min(1).optional(),
  /** Permissions of the socket: who may write to it may connect. */
  mode: z
    .string()
    .regex(/^0?[0-7]{3}$/, { error: "must be permissions as '660'" })
    .transform((text) => Number.parseInt(text, 8))
    .default(0o666),
  /** Number of the group whose members may set what tenants get. */
  group: id.optional(),
  policy: z.string().default(''),
  /** Users whose programs may say who they are, beside the daemon's own and root. */
  trust: z.array(id).default([]),
  devices: z.record(z.string(), z.strictObject({ linkGbps: above0.max(1e5) })).default({}),
  rules: z.array(rule).default([]),
});

export type DaemonConfig = z.infer<typeof schema>;

/** @throws ConfigError naming the file and the key */
export function parseDaemonConfig(text: string, file: string): DaemonConfig {
  let value: unknown;
  try {
    value = parse(text) ?? {};
  } catch (error) {
    throw new ConfigError(`${file}: ${(error as Error).message.split('\n', 1)[0]}`);
  }
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  const problems = checked.error.issues.map(({ path, message }) =>
    [path.join('.'), message].filter(Boolean).join(': '),
  );
  throw new ConfigError(`${file}: ${problems.join('; ')}`);
}

/** @throws ConfigError */
export function readDaemonConfig(file: string | undefined): DaemonConfig {
  if (file === undefined) return parseDaemonConfig('', 'no file');
  try {
    return parseDaemonConfig(readFileSync(file, 'utf8'), file);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** Where the daemon of this user listens, or that of the system. */
export function defaultSocket(env: NodeJS.ProcessEnv = process.env): string {
  const { uid } = userInfo();
  if (uid === 0) return '/run/isoverbs/daemon.sock';
  return `${env.XDG_RUNTIME_DIR ?? `/tmp/isoverbs-${uid}`}/isoverbs.sock`;
}
