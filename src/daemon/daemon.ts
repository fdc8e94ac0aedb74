/** The daemon: a host's coordinators behind a socket, by a configuration that may change while it runs. */
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { MasterRules } from '../coordinator/master.ts';
import { ConfigError } from '../verbs/errors.ts';
import type { DaemonConfig } from './config.ts';
import { Host } from './host.ts';
import type { PeerCredentials } from './ipc/index.ts';
import type { Hello } from './protocol.ts';
import { type Identity, identify } from './rules.ts';
import { Server } from './server.ts';

export interface DaemonOptions {
  readonly socket: string;
  readonly config: DaemonConfig;
  readonly rules: Pick<MasterRules, 'qNumAllow' | 'qNumCapa' | 'selective'>;
  readonly log: Logger;
  /** Of a device that the configuration does not name; null: there is none. */
  linkGbps(device: string): number | null;
}

const ROOT = 0;

/** What /proc tells of a process; '': nothing, or it has gone. */
function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

/** Path in the unified hierarchy, else in the first. */
function cgroupOf(pid: number): string {
  const lines = procFile(pid, 'cgroup').trim().split('\n');
  const line = lines.find((one) => one.startsWith('0::')) ?? lines[0];
  return line.split(':').slice(2).join(':');
}

/** Whether the process of this number is one of a user. */
function isOf(pid: number, uid: number): boolean {
  const line = /^Uid:(.*)$/m.exec(procFile(pid, 'status'))?.[1] ?? '';
  return line.split('\t').includes(String(uid));
}

/** Who may change names in the socket's folder could put something else in its place. @throws ConfigError */
function requireOwnFolder(folder: string): void {
  const { uid, mode } = statSync(folder);
  const isOpen = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
  if ((uid === ROOT || uid === process.getuid?.()) && !isOpen) return;
  throw new ConfigError(
    `the socket's folder, ${folder}, is of user ${uid} with permissions ${(mode & 0o7777).toString(8)}: others may change it; give --socket in one that only root or this user may`,
  );
}

export class Daemon {
  private readonly options: DaemonOptions;
  private readonly host: Host;
  private readonly server: Server;
  private config: DaemonConfig;

  constructor(options: DaemonOptions) {
    const { config, rules, socket, log } = options;
    this.options = options;
    this.config = config;
    this.host = new Host({
      rules,
      linkGbps: (device) => this.config.devices[device]?.linkGbps ?? options.linkGbps(device),
    });
    this.server = new Server({
      socket,
      mode: config.mode,
      host: this.host,
      policy: config.policy,
      log,
      identify: (credentials, hello) => this.identify(credentials, hello),
      maySet: (credentials) => this.maySet(credentials),
      nowNs: () => performance.now() * 1e6,
    });
  }

  /** @throws ConfigError, ConnectionError, InvalidArgumentError: the socket cannot be there */
  listen(): void {
    const { socket } = this.options;
    mkdirSync(dirname(socket), { recursive: true, mode: 0o755 });
    requireOwnFolder(dirname(socket));
    this.server.listen();
  }

  /** Rules and trust are new; clients stay. What else is in the file wants a restart. */
  reload(config: DaemonConfig): void {
    this.config = config;
    this.server.reidentify();
  }

  close(): void {
    this.server.close();
  }

  private trusts({ uid }: PeerCredentials): boolean {
    return uid === ROOT || uid === process.getuid?.() || this.config.trust.includes(uid);
  }

  private identify(credentials: PeerCredentials, { tenant, weight, class: declared }: Hello): Identity {
    const { pid } = credentials;
    const found = { command: procFile(pid, 'cmdline').replaceAll('\0', ' ').trim(), cgroup: cgroupOf(pid) };
    // The process may have gone since it connected, and another user's have its number.
    const known = isOf(pid, credentials.uid) ? found : { command: '', cgroup: '' };
    const peer = { ...credentials, ...known, tenant, weight, class: declared };
    return identify(peer, this.config.rules, this.trusts(credentials));
  }

  private maySet({ uid, gid, groups }: PeerCredentials): boolean {
    const { group } = this.config;
    const isMember = group !== undefined && (gid === group || groups.includes(group));
    return uid === ROOT || uid === process.getuid?.() || isMember;
  }
}
