/**
 * Destroys the queue pairs or contexts of an application at the end of their lives, and creates them anew. Their lives end
 * one after the other, and the application continues on the others.
 */

import type { Dispatcher } from '../dispatcher.ts';
import type { Meter } from '../meter.ts';
import type { App, Renewal } from '../resolve.ts';
import { countArrivals } from './arrivals.ts';
import type { Connection, Connector } from './connector.ts';
import type { Sender } from './sender.ts';

/** What runs an application. */
interface Running {
  readonly dispatcher: Dispatcher;
  readonly connector: Connector;
  /** By queue pair. */
  readonly senders: readonly Sender[];
  readonly meter: Meter;
}

export class Renewer {
  private readonly app: App;
  private readonly renewal: Renewal;
  private readonly running: Running;

  constructor(app: App, renewal: Renewal, running: Running) {
    this.app = app;
    this.renewal = renewal;
    this.running = running;
  }

  /** Starts all lives, so that their ends are evenly spread. */
  start(): void {
    const { app, members } = this;
    const { lifeNs } = this.renewal;
    for (let i = 0; i < members; i++) this.endAfter(app.startNs + lifeNs * (1 + i / members), i);
  }

  /** @param index of the queue pair or context */
  private endAfter(timeNs: number, index: number): void {
    if (timeNs >= this.app.stopNs) return;
    this.running.dispatcher.callAt(timeNs, () => {
      const { senders } = this.running;
      const own = senders.filter((_, i) => i % this.members === index);
      const renew = () => {
        if (own.every(({ isDrained }) => isDrained)) this.renew(index, own);
      };
      for (const sender of own) sender.drain(renew);
    });
  }

  /** The number of its queue pairs or contexts. */
  private get members(): number {
    return this.renewal.of === 'qp' ? this.app.qps : this.app.contexts;
  }

  private renew(index: number, own: readonly Sender[]): void {
    const { app, running, renewal } = this;
    const { connector, dispatcher } = running;
    const isQp = renewal.of === 'qp';
    const connections = isQp ? [connector.renewQp(app, index)] : connector.renewContext(app, index);
    for (const [i, sender] of own.entries()) this.moveTo(sender, connections[i]);
    for (const sender of own) sender.resume();
    this.endAfter(dispatcher.clock[0] + renewal.lifeNs, index);
  }

  private moveTo(sender: Sender, connection: Connection): void {
    const { dispatcher, meter } = this.running;
    const { qp, sender: device } = connection;
    dispatcher.moveTo(sender.id, device.cq);
    dispatcher.cpu.assignCore(qp, device.ring, sender.core);
    countArrivals(this.app, dispatcher, connection, { all: meter, own: sender.own });
    sender.moveTo(device);
  }
}
