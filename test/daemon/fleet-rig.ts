/** Daemons of a fleet within a test's own process, and a NATS server for them. */
import { join } from 'node:path';
import pino from 'pino';
import { afterEach, expect, vi } from 'vitest';
import type { Agent, AgentActions } from '../../src/coordinator/agent.ts';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import type { Provider } from '../../src/verbs/provider.ts';
import { RULINGS } from '../support/columns.ts';
import { folder } from './command-rig.ts';
import { NatsServer } from './nats.ts';

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

/** Undoes something after the test. */
export function afterTest(undo: () => unknown): void {
  cleanUp.push(undo);
}

export const until = (check: () => void, timeout = 10_000) => vi.waitFor(check, { timeout, interval: 2 });

/** An agent that notes what happens to it. */
export class Noting implements Agent {
  out!: AgentActions;
  readonly messages: number[][] = [];
  readonly peers: string[] = [];
  readonly probes: number[] = [];
  /** Called at each message. */
  heard: ((words: Float64Array) => void) | null = null;

  onStart(out: AgentActions): void {
    this.out = out;
  }

  onMessage(_peer: number, words: Float64Array): void {
    this.messages.push([...words]);
    this.heard?.(words);
  }

  onPeer(peer: number, change: string): void {
    this.peers.push(`${peer} ${change}`);
  }

  onSilent(peer: number, isSilent: boolean): void {
    this.peers.push(`${peer} ${isSilent ? 'silent' : 'heard'}`);
  }

  onProbe(_peer: number, latencyNs: number): void {
    this.probes.push(latencyNs);
  }
}

/** @param config in the server's own format */
export async function server(config?: string): Promise<NatsServer> {
  const nats = await NatsServer.make(config);
  afterTest(() => nats.close());
  return nats;
}

export async function started(config?: string): Promise<NatsServer> {
  const nats = await server(config);
  await nats.start();
  return nats;
}

/** A daemon of a fleet with one device, which has an agent of this name. */
export class FleetMember {
  readonly agent = new Noting();
  readonly gid: string;
  readonly lines: { level: number; msg: string }[] = [];
  private readonly daemon: Daemon;

  /** @param fleet as in the daemon's configuration */
  constructor(fleet: string, device: string, gid: string, provider: Provider, name = 'noting') {
    this.gid = gid;
    this.daemon = new Daemon({
      ...{ socket: join(folder(), 's'), rulings: RULINGS },
      log: pino({ level: 'debug' }, { write: (line: string) => void this.lines.push(JSON.parse(line)) }),
      config: parseDaemonConfig(`fleet: ${fleet}`, 'test'),
      agents: [{ name, create: () => this.agent }],
      devices: [device],
      providerOf: () => provider,
      linkGbps: () => 100,
    });
    this.daemon.listen();
    afterTest(() => this.end());
    this.daemon.openAgents([device]);
  }

  end(): void {
    this.daemon.close();
  }

  get warnings(): string[] {
    return this.lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
  }

  get counts() {
    return this.daemon.metricsSource.fleet!();
  }

  /** The number of the peer with this GID, once it is known. */
  async peerAt(gid: string): Promise<number> {
    let peer = -1;
    await until(() => {
      peer = this.agent.out.peerAt(gid, this.gid);
      expect(peer).toBeGreaterThanOrEqual(0);
    });
    return peer;
  }

  /** Finds another daemon, which finds this one. */
  async meet(other: FleetMember): Promise<number> {
    const peer = await this.peerAt(other.gid);
    await until(() => expect([this.agent.peers, other.agent.peers]).toEqual([['0 up'], ['0 up']]));
    return peer;
  }
}
