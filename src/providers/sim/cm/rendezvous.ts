/** In-memory exchange of connection data. Messages are events of virtual time. */

import { ConnectionError } from '../../../verbs/errors.ts';
import type { Wire, WireServer } from '../../../verbs/provider.ts';
import { OTHER_PROCESS } from '../../../verbs/suggestions.ts';
import { addressOf, hostNamed } from '../addresses.ts';
import { requireInteger } from '../arguments.ts';
import type { TimePump } from '../time-pump.ts';

interface Listener {
  readonly host: number;
  readonly port: number;
  readonly onWire: (wire: Wire) => void;
}

const FIRST_EPHEMERAL_PORT = 49152;

/** One end of a wire. Early messages wait for a handler. */
class SimWire implements Wire {
  readonly remoteAddress: string;
  readonly host: number;
  peer: SimWire | null = null;
  /** Called when this end is closed, by either side. */
  onOver: () => void = () => {};
  private readonly pump: TimePump;
  private readonly delayNs: number;
  private messageHandler: ((message: Uint8Array) => void) | null = null;
  private closeHandler: ((error?: Error) => void) | null = null;
  private early: Uint8Array[] = [];
  private earlyClose: { error?: Error } | null = null;
  private closed = false;
  private closeReceived = false;

  constructor(pump: TimePump, delayNs: number, host: number, remoteHost: number) {
    this.pump = pump;
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
    for (const message of early) this.pump.notify(() => this.receive(message));
  }

  get onClose(): (error?: Error) => void {
    return this.closeHandler ?? (() => {});
  }

  set onClose(handler: (error?: Error) => void) {
    this.closeHandler = handler;
    const close = this.earlyClose;
    this.earlyClose = null;
    if (close !== null) this.pump.notify(() => handler(close.error));
  }

  send(message: Uint8Array): void {
    const { peer } = this;
    if (this.closed || peer === null) return;
    const copy = message.slice();
    this.pump.after(this.delayNs, () => peer.receive(copy));
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.onOver();
    const { peer } = this;
    if (peer !== null) this.pump.after(this.delayNs, () => peer.receiveClose());
  }

  /** The other end was closed. */
  receiveClose(error?: Error): void {
    if (this.closeReceived) return;
    this.closeReceived = true;
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
  private readonly pump: TimePump;
  private readonly delayNs: number;
  private readonly listeners: Listener[] = [];
  private readonly wires = new Set<SimWire>();
  private nextPort = FIRST_EPHEMERAL_PORT;

  constructor(pump: TimePump) {
    this.pump = pump;
    this.delayNs = pump.sim.world.params.rendezvousNs;
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
    const { world } = this.pump.sim;
    const target = hostNamed('connect', world.hosts.length, name);
    return new Promise((resolve, reject) => {
      // One delay for the request, one for the reply.
      this.pump.after(this.delayNs, () => {
        const listener = this.find(host, target, port);
        if (listener === undefined || world.hosts[host].dead) {
          const text = `nothing listens on port ${port} of '${name}' in this fabric; ${OTHER_PROCESS}`;
          this.pump.after(this.delayNs, () => reject(new ConnectionError(`connect: ${text}`)));
          return;
        }
        const [ours, remoteParam] = this.pair(host, listener.host);
        listener.onWire(remoteParam);
        this.pump.after(this.delayNs, () => resolve(ours));
      });
    });
  }

  /** Notifies the peers of a host that died. */
  hostDied(host: number): void {
    for (const wire of this.wires) {
      const { peer } = wire;
      if (wire.host !== host || peer === null || peer.host === host) continue;
      this.pump.after(this.delayNs, () => peer.receiveClose(new ConnectionError(`sim${host} has gone`)));
    }
  }

  private pair(host: number, other: number): [SimWire, SimWire] {
    const ours = new SimWire(this.pump, this.delayNs, host, other);
    const remoteParam = new SimWire(this.pump, this.delayNs, other, host);
    ours.peer = remoteParam;
    remoteParam.peer = ours;
    for (const wire of [ours, remoteParam]) {
      this.wires.add(wire);
      wire.onOver = () => this.wires.delete(wire);
    }
    return [ours, remoteParam];
  }

  private find(from: number, target: number, port: number): Listener | undefined {
    const { hosts } = this.pump.sim.world;
    const open = this.listeners.filter((l) => l.port === port && !hosts[l.host].dead);
    if (target >= 0) return open.find((l) => l.host === target);
    // All hosts of a fabric are in this process: localhost is any listening host, preferably the caller's.
    return open.find((l) => l.host === from) ?? open[0];
  }
}
