/** The exchange of connection data, in memory: messages are events of virtual time. */
import { ConnectionError } from '../../../verbs/errors.ts';
import type { Wire, WireServer } from '../../../verbs/provider.ts';
import { requireInteger } from '../arguments.ts';
import type { Driver } from '../driver.ts';
import { hostNamed } from '../hosts.ts';
import { addressOf } from '../limits.ts';

interface Listener {
  readonly host: number;
  readonly port: number;
  readonly onWire: (wire: Wire) => void;
}

const FIRST_EPHEMERAL_PORT = 49152;

/** One end of a wire. Handlers set late still get what came early. */
class SimWire implements Wire {
  readonly remoteAddress: string;
  readonly host: number;
  peer: SimWire | null = null;
  /** Called when this end is closed, by whomever. */
  onOver: () => void = () => {};
  private readonly driver: Driver;
  private readonly delayNs: number;
  private messageHandler: ((message: Uint8Array) => void) | null = null;
  private closeHandler: ((error?: Error) => void) | null = null;
  private early: Uint8Array[] = [];
  private earlyClose: { error?: Error } | null = null;
  private closed = false;
  private heardClose = false;

  constructor(driver: Driver, delayNs: number, host: number, remoteHost: number) {
    this.driver = driver;
    this.delayNs = delayNs;
    this.host = host;
    this.remoteAddress = addressOf(remoteHost);
  }

  get onMessage(): (message: Uint8Array) => void {
    return this.messageHandler ?? (() => {});
  }

  set onMessage(handler: (message: Uint8Array) => void) {
    this.messageHandler = handler;
    const early = this.early;
    this.early = [];
    for (const message of early) this.driver.tell(() => this.receive(message));
  }

  get onClose(): (error?: Error) => void {
    return this.closeHandler ?? (() => {});
  }

  set onClose(handler: (error?: Error) => void) {
    this.closeHandler = handler;
    const close = this.earlyClose;
    this.earlyClose = null;
    if (close !== null) this.driver.tell(() => handler(close.error));
  }

  send(message: Uint8Array): void {
    const { peer } = this;
    if (this.closed || peer === null) return;
    const copy = message.slice();
    this.driver.after(this.delayNs, () => peer.receive(copy));
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.onOver();
    const { peer } = this;
    if (peer !== null) this.driver.after(this.delayNs, () => peer.hearClose());
  }

  /** The other end is no more. */
  hearClose(error?: Error): void {
    if (this.heardClose) return;
    this.heardClose = true;
    if (this.closed) return;
    this.closed = true;
    this.onOver();
    if (this.closeHandler === null) this.earlyClose = { error };
    else this.closeHandler(error);
  }

  private receive(message: Uint8Array): void {
    if (this.closed) return;
    if (this.messageHandler === null) this.early.push(message);
    else this.messageHandler(message);
  }
}

export class SimRendezvous {
  private readonly driver: Driver;
  private readonly delayNs: number;
  private readonly listeners: Listener[] = [];
  private readonly wires = new Set<SimWire>();
  private nextPort = FIRST_EPHEMERAL_PORT;

  constructor(driver: Driver) {
    this.driver = driver;
    this.delayNs = driver.sim.world.params.rendezvousNs;
  }

  listen(host: number, options: { port: number }, onWire: (wire: Wire) => void): WireServer {
    let port = requireInteger('listen', 'port', options.port, 0, 65535);
    const taken = (n: number) => this.listeners.some((l) => l.host === host && l.port === n);
    if (port === 0) {
      while (taken(this.nextPort)) this.nextPort++;
      port = this.nextPort++;
    } else if (taken(port)) {
      throw new ConnectionError(`listen: port ${port} of sim${host} is in use`);
    }
    const listener = { host, port, onWire };
    this.listeners.push(listener);
    const close = () => {
      const at = this.listeners.indexOf(listener);
      if (at >= 0) this.listeners.splice(at, 1);
    };
    return { port, close };
  }

  connect(host: number, options: { port: number; host?: string }): Promise<Wire> {
    const port = requireInteger('connect', 'port', options.port, 1, 65535);
    const name = options.host ?? 'localhost';
    const { world } = this.driver.sim;
    const target = hostNamed('connect', world.hosts.length, name);
    return new Promise((resolve, reject) => {
      // One way to ask, one way to hear.
      this.driver.after(this.delayNs, () => {
        const listener = this.find(host, target, port);
        if (listener === undefined || world.hosts[host].dead) {
          const text = `nothing listens on port ${port} of '${name}' in this fabric (simulated devices connect inside one process only)`;
          this.driver.after(this.delayNs, () => reject(new ConnectionError(`connect: ${text}`)));
          return;
        }
        const [ours, theirs] = this.pair(host, listener.host);
        listener.onWire(theirs);
        this.driver.after(this.delayNs, () => resolve(ours));
      });
    });
  }

  /** The host is no more: those who were talking to it learn of it. */
  hostDied(host: number): void {
    for (const wire of this.wires) {
      const { peer } = wire;
      if (wire.host !== host || peer === null || peer.host === host) continue;
      this.driver.after(this.delayNs, () => peer.hearClose(new ConnectionError(`sim${host} has gone`)));
    }
  }

  private pair(host: number, other: number): [SimWire, SimWire] {
    const ours = new SimWire(this.driver, this.delayNs, host, other);
    const theirs = new SimWire(this.driver, this.delayNs, other, host);
    ours.peer = theirs;
    theirs.peer = ours;
    for (const wire of [ours, theirs]) {
      this.wires.add(wire);
      wire.onOver = () => this.wires.delete(wire);
    }
    return [ours, theirs];
  }

  private find(from: number, target: number, port: number): Listener | undefined {
    const { hosts } = this.driver.sim.world;
    const open = this.listeners.filter((l) => l.port === port && !hosts[l.host].dead);
    if (target >= 0) return open.find((l) => l.host === target);
    // All hosts of a fabric are in this process: localhost is whoever listens, one's own host first.
    return open.find((l) => l.host === from) ?? open[0];
  }
}
