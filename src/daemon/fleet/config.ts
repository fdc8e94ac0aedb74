/** The configuration of a fleet (docs/fleet.md). */
import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { ConfigError } from '../../verbs/errors.ts';

const text = z.string().min(1);
const server = text.refine((url) => !url.includes('@'), {
  error: 'put the user and the password in the keys user and pass, not in the URL',
});
const settings = z.strictObject({
  /** `a,b`, or a list. */
  servers: z.preprocess(
    (urls) => (typeof urls === 'string' ? urls.split(',') : urls),
    z.array(server).min(1),
  ),
  /** The first part of all subjects. */
  name: z
    .string()
    .regex(/^[\w-]{1,64}(\.[\w-]{1,64}){0,8}$/, {
      error: 'must consist of letters, digits, _, - and single dots',
    })
    .default('isoverbs'),
  user: text.optional(),
  pass: text.optional(),
  token: text.optional(),
  /** A file with a user's JWT and key, as `nsc` creates it. */
  credentials: text.optional(),
  tls: z
    .strictObject({
      caFile: text.optional(),
      certFile: text.optional(),
      keyFile: text.optional(),
      handshakeFirst: z.boolean().optional(),
    })
    .optional(),
});

/** Either only the servers, or all keys. */
export const fleetSchema = z.preprocess(
  (value) => (typeof value === 'string' || Array.isArray(value) ? { servers: value } : value),
  settings,
);

export type FleetConfig = z.infer<typeof settings>;

/** The configuration of the file, with the servers that the flag names. @throws ConfigError */
export function withServers(flag: string, fromFile: FleetConfig | undefined): FleetConfig {
  const checked = settings.safeParse({ ...fromFile, servers: flag });
  if (checked.success) return checked.data;
  throw new ConfigError(`--fleet: ${checked.error.issues.map(({ message }) => message).join('; ')}`);
}

/** Resolves file names relative to `folder`, and checks that the files can be read. @throws ConfigError */
export function withAbsoluteFiles(config: FleetConfig, folder: string): FleetConfig {
  const absolute = (key: string, file: string | undefined) => {
    if (file === undefined) return undefined;
    const path = resolve(folder, file);
    try {
      accessSync(path, constants.R_OK);
    } catch (error) {
      throw new ConfigError(`fleet.${key}: ${(error as Error).message}`);
    }
    return path;
  };
  const { tls } = config;
  const files = tls && {
    caFile: absolute('tls.caFile', tls.caFile),
    certFile: absolute('tls.certFile', tls.certFile),
    keyFile: absolute('tls.keyFile', tls.keyFile),
  };
  return {
    ...config,
    credentials: absolute('credentials', config.credentials),
    tls: tls && { ...tls, ...files },
  };
}
