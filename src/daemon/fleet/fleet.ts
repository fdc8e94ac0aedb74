/**
 * The part of a daemon that connects it to the daemons of other hosts. Over NATS, daemons announce the devices whose
 * agents other hosts can reach, and carry the agents' messages. Subjects: NAME.hosts.ID for the announcements of a
 * daemon, and NAME.to.ID for the frames to its agents.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { AgentAddress, AgentCarrier, AgentChannel, Frame } from '../../coordinator/agent-carrier.ts';
import { Budget } from '../budgets.ts';
import type { FleetConfig } from './config.ts';
import { FleetConnection } from './connection.ts';
import { ANNOUNCE_NS, FleetDirectory, SILENT_NS } from './directory.ts';
import {
  type AnnouncedDevice,
  decodeFrame,
  encodeAnnouncement,
  encodeFrame,
  MAX_ANNOUNCEMENT_BYTES,
} from './wire.ts';

/** Limit on frames from all daemons together. */
const FRAMES = { most: 16384, perS: 32768 };
const LOGGED_NAMES = 8;
/** Limit on announcements in answer to new daemons. */
const WELCOMES = { most: 16, perS: 4 };
/** At most one warning about ignored messages is logged in this time. */
const WARN_NS = 60e9;

/** The agents of a device of this daemon. */
export interface FleetReceiver {
  readonly gids: readonly string[];
  readonly qpNum: number;
  receive(frame: Frame, carrier: AgentCarrier): void;
  setAlive(peer: number, isAlive: boolean): void;
}

export interface FleetOptions {
  readonly config: FleetConfig;
  readonly log: Logger;
  nowNs(): number;
  /** Called with an exception that a message caused. */
  failed(error: Error): void;
}

/** What the metrics show of the fleet. */
export interface FleetCounts {
  readonly hosts: number;
  readonly isConnected: boolean;
  readonly ignored: number;
}

export class Fleet {
  private readonly options: FleetOptions;
  private readonly id = randomBytes(16).toString('hex');
  private readonly connection: FleetConnection;
  private readonly directory = new FleetDirectory((gid, qpNum, isAlive) => {
    for (const { receiver, peer } of this.peers.get(keyOf(gid, qpNum)) ?? [])
      receiver.setAlive(peer, isAlive);
  });
  /** By name. */
  private readonly devices = new Map<string, OwnDevice>();
  /** The peers of this daemon's devices, by address. */
  private readonly peers = new Map<string, { readonly receiver: FleetReceiver; readonly peer: number }[]>();
  private readonly frames: Budget;
  private readonly welcomes: Budget;
  private ignored = 0;
  private warnedNs = Number.NEGATIVE_INFINITY;
  /** When the daemon's own announcement last came back, which shows that the server works. */
  private echoNs = Number.NEGATIVE_INFINITY;
  private loggedSize = 0;
  private timer: NodeJS.Timeout | null = null;

  constructor(options: FleetOptions) {
    const { config, log, nowNs } = options;
    this.options = options;
    this.frames = new Budget(FRAMES, nowNs());
    this.welcomes = new Budget(WELCOMES, nowNs());
    this.connection = new FleetConnection({
      ...{ config, log },
      subscriptions: [
        {
          subject: `${config.name}.hosts.*`,
          received: (subject, data) => this.guard(() => this.hear(subject, data)),
        },
        {
          subject: `${config.name}.to.${this.id}`,
          received: (_, data) => this.guard(() => this.receive(data)),
        },
      ],
      connected: () => {
        this.echoNs = nowNs();
        this.announce();
      },
    });
  }

  start(): void {
    void this.connection.run();
    this.timer = setInterval(() => {
      this.guard(() => this.directory.expire(this.options.nowNs()));
      this.announce();
      this.logSize();
    }, ANNOUNCE_NS / 1e6).unref();
  }

  private logSize(): void {
    const { size } = this.directory;
    if (size === this.loggedSize) return;
    this.loggedSize = size;
    this.options.log.info(
      { event: 'fleet-size', hosts: this.directory.names(LOGGED_NAMES) },
      `other daemons in the fleet: ${size}`,
    );
  }

  get counts(): FleetCounts {
    return { hosts: this.directory.size, isConnected: this.connection.isConnected, ignored: this.ignored };
  }

  /** Adds a device of this daemon to the announcement, with the names of its agents. */
  add(name: string, receiver: FleetReceiver, agents: readonly string[]): void {
    const { gids, qpNum } = receiver;
    const announced = { name, qpNum, gids: [...gids], agents: [...agents] };
    this.devices.set(name, new OwnDevice(this, receiver, announced));
    this.announce();
  }

  /**
   * The address of the agent of this name at the device with this GID, for agents of `device`; null if there is none.
   */
  addressOf(gid: string, agent: string, device: string): AgentAddress | null {
    const carrier = this.devices.get(device);
    const found = this.directory.at(gid);
    if (carrier === undefined || !found?.agents.includes(agent)) return null;
    return { gid, qpNum: found.qpNum, carrier };
  }

  /** From now on, reports to `receiver` whether its peer at this address is alive. */
  watch({ gid, qpNum }: AgentAddress, receiver: FleetReceiver, peer: number): void {
    const key = keyOf(gid, qpNum);
    const peers = this.peers.get(key) ?? [];
    this.peers.set(key, [...peers, { receiver, peer }]);
  }

  /** `receiver` has no more use for its peer at this address. */
  unwatch({ gid, qpNum }: AgentAddress, receiver: FleetReceiver, peer: number): void {
    const key = keyOf(gid, qpNum);
    const others = this.peers.get(key)?.filter((one) => one.receiver !== receiver || one.peer !== peer) ?? [];
    if (others.length > 0) this.peers.set(key, others);
    else this.peers.delete(key);
  }

  /** Sends a frame. It is lost if its receiver is gone, or if the server does not answer. */
  send(to: AgentAddress, frame: Omit<Frame, 'peer' | 'words'>, words: ArrayLike<number>): void {
    const found = this.directory.at(to.gid);
    if (found?.qpNum !== to.qpNum || this.options.nowNs() - this.echoNs > SILENT_NS) return;
    this.connection.publish(`${this.options.config.name}.to.${found.host.id}`, encodeFrame(frame, words));
  }

  private announce(devices = [...this.devices.values()].map(({ announced }) => announced)): void {
    const bytes = encodeAnnouncement({ host: hostname(), devices });
    if (bytes.length > MAX_ANNOUNCEMENT_BYTES) {
      this.warn(
        'fleet-too-many-gids',
        'the devices of this host have too many GIDs to be announced, so other hosts cannot reach their agents',
      );
      return;
    }
    this.connection.publish(`${this.options.config.name}.hosts.${this.id}`, bytes);
  }

  private hear(subject: string, data: Uint8Array): void {
    const nowNs = this.options.nowNs();
    const id = subject.slice(subject.lastIndexOf('.') + 1);
    if (id === this.id) {
      this.echoNs = nowNs;
      return;
    }
    // A new daemon must know this one before messages of agents arrive there.
    if (!this.directory.has(id) && this.welcomes.tryTake(nowNs)) this.announce();
    const isGood = /^[0-9a-f]{32}$/.test(id) && this.directory.hear(id, data, nowNs);
    if (!isGood) this.ignore('a malformed or too frequent announcement');
  }

  private receive(data: Uint8Array): void {
    const nowNs = this.options.nowNs();
    const frame = decodeFrame(data);
    if (frame === null) {
      this.ignore('a malformed message');
      return;
    }
    const { from, to, qpNum } = frame;
    const sender = this.directory.at(from);
    const device = [...this.devices.values()].find(({ announced }) => announced.gids.includes(to));
    if (sender === undefined || sender.qpNum !== qpNum || device === undefined) {
      // Not logged, because messages may still arrive from daemons that have just left the directory.
      this.ignored++;
    } else if (!sender.host.frames.tryTake(nowNs) || !this.frames.tryTake(nowNs)) {
      this.ignore(`a message from ${sender.host.name}, which sends too many`);
    } else device.receiver.receive(frame, device);
  }

  private ignore(what: string): void {
    this.ignored++;
    this.warn('fleet-message-ignored', `the fleet: ignored ${what}`);
  }

  private warn(event: string, message: string): void {
    const { nowNs, log } = this.options;
    if (nowNs() - this.warnedNs < WARN_NS) return;
    this.warnedNs = nowNs();
    log.warn({ event, ignored: this.ignored }, message);
  }

  /** Calls a listener. The library would end the connection if the listener threw. */
  private guard(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.options.failed(error as Error);
    }
  }

  /** Leaves the fleet: other daemons forget this one at once. */
  close(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    this.announce([]);
    return this.connection.close();
  }
}

/** A device of this daemon, which carries the messages of its agents to those of other hosts. */
class OwnDevice implements AgentCarrier {
  readonly watchesPeers = true;
  readonly receiver: FleetReceiver;
  readonly announced: AnnouncedDevice;
  private readonly fleet: Fleet;

  constructor(fleet: Fleet, receiver: FleetReceiver, announced: AnnouncedDevice) {
    this.fleet = fleet;
    this.receiver = receiver;
    this.announced = announced;
  }

  channel(to: AgentAddress, fromGid: string, peer: number): AgentChannel {
    const { fleet, receiver, announced } = this;
    const header = { from: fromGid, to: to.gid, qpNum: announced.qpNum };
    fleet.watch(to, receiver, peer);
    return {
      send: (kind, agent, words) => fleet.send(to, { ...header, kind, agent }, words),
      close: () => fleet.unwatch(to, receiver, peer),
    };
  }
}

function keyOf(gid: string, qpNum: number): string {
  return `${gid} ${qpNum}`;
}
