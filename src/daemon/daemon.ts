/** The daemon: a host's coordinators behind a socket, by a configuration that may change while it runs. */
import { closeSync, mkdirSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { MasterRules } from '../coordinator/master.ts';
import { ConfigError } from '../verbs/errors.ts';
import type { ClientLimits } from './admission.ts';
import type { DaemonConfig } from './config.ts';
import { Host } from './host.ts';
import type { PeerCredentials } from './ipc/index.ts';
import { processState } from './liveness.ts';
import type { MetricsSource } from './metrics/metrics.ts';
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
  /** Told how long each pass took. */
  passed?(tookNs: number): void;
}

const ROOT = 0;
/** A client's socket and its wake-up, and as long as it is greeted two memories; the daemon's own. */
const FDS_OF_A_CLIENT = 2;
const OWN_FDS = 64;

/** What /proc tells of a process; '': nothing, or it has gone. */
function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

/** What is read of a command line, which may have megabytes: a program that connects again and again costs no more. */
const COMMAND = Buffer.alloc(16384);
const SPACE = 0x20;

/** Arguments joined by spaces; '': unknown. */
function commandOf(pid: number): string {
  let fd: number;
  try {
    fd = openSync(`/proc/${pid}/cmdline`, 'r');
  } catch {
    return '';
  }
  try {
    let length = 0;
    for (let got = 1; got > 0; length += got)
      got = readSync(fd, COMMAND, length, COMMAND.length - length, null);
    for (let i = 0; i < length; i++) if (COMMAND[i] === 0) COMMAND[i] = SPACE;
    return COMMAND.toString('utf8', 0, length).trim();
  } catch {
    return '';
  } finally {
    closeSync(fd);
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

/**
 * Others reach the socket in it and cannot open it: who can may lock it (flock), and no daemon would start there.
 * Of its own, in one that is there: mkdir of all that is missing never returns in /proc.
 * @throws ConfigError
 */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o711 });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    throw new ConfigError(
      `the socket's folder, ${folder}, cannot be made: ${message}; give another --socket`,
    );
  }
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
      look: processState,
    });
    this.server = new Server({
      socket,
      mode: config.mode,
      limits: this.limits(),
      host: this.host,
      policy: config.policy,
      log,
      identify: (credentials, hello) => this.identify(credentials, hello),
      maySet: (credentials) => this.maySet(credentials),
      passed: options.passed,
      nowNs: () => performance.now() * 1e6,
    });
  }

  /** As the configuration has them, and the system lets. */
  private limits(): ClientLimits {
    const { limits } = this.config;
    const most = /^Max open files +(\d+)/m.exec(procFile(process.pid, 'limits'))?.[1];
    const clients = Math.floor((Number(most ?? Number.POSITIVE_INFINITY) - OWN_FDS) / FDS_OF_A_CLIENT);
    if (clients >= limits.clients) return limits;
    this.options.log.warn(
      { clients },
      `${most} descriptors may be open, enough for ${clients} clients and not ${limits.clients}: raise LimitNOFILE or ulimit -n`,
    );
    const reserved = Math.min(limits.reserved, clients >> 1);
    return { ...limits, clients, reserved };
  }

  /** @throws ConfigError, ConnectionError, InvalidArgumentError: the socket cannot be there */
  listen(): void {
    const { socket } = this.options;
    makeFolder(dirname(socket));
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

  /** What metrics are made of. */
  get source(): MetricsSource {
    return {
      tenants: () => this.host.tenants(),
      sent: () => this.host.sent(performance.now() * 1e6),
      counts: () => this.server.counts,
    };
  }

  private trusts({ uid }: PeerCredentials): boolean {
    return uid === ROOT || uid === process.getuid?.() || this.config.trust.includes(uid);
  }

  private identify(credentials: PeerCredentials, { tenant, weight, class: declared }: Hello): Identity {
    const { pid, uid } = credentials;
    // The process may have gone since it connected, and another user's have its number.
    const ofIts = (text: string) => (isOf(pid, uid) ? text : '');
    // Read where a rule asks, and all else of it fits: a command line is in the process's own memory, and who keeps the
    // lock of that (FUSE) keeps whoever reads it.
    const peer = {
      ...credentials,
      tenant,
      weight,
      class: declared,
      get cgroup() {
        return ofIts(cgroupOf(pid));
      },
      get command() {
        return ofIts(commandOf(pid));
      },
    };
    return identify(peer, this.config.rules, this.trusts(credentials));
  }

  private maySet({ uid, gid, groups }: PeerCredentials): boolean {
    const { group } = this.config;
    const isMember = group !== undefined && (gid === group || groups.includes(group));
    return uid === ROOT || uid === process.getuid?.() || isMember;
  }
}
