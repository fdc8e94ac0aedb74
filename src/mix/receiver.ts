/** The other end of an application that sends: it keeps receives posted. */
import type { Core } from '../sim/host/core.ts';
import type { Provider } from '../verbs/provider.ts';
import type { Poller } from './dispatcher.ts';

/** Completions that one poll takes, and receives that are posted at once. */
export const RECEIVE_BATCH = 16;

export interface ReceiverDevice {
  readonly qp: number;
  readonly cq: number;
  /** RECEIVE_BATCH equal receives, and the first of them. */
  readonly ring: number;
  readonly start: number;
  readonly wcRing: number;
}

export class Receiver implements Poller {
  readonly core: Core;
  readonly queue: number;
  private readonly provider: Provider;
  private readonly device: ReceiverDevice;
  /** Receives completed. */
  received = 0;

  constructor(provider: Provider, device: ReceiverDevice, core: Core) {
    this.provider = provider;
    this.device = device;
    this.core = core;
    this.queue = core.addQueue();
  }

  /** A poll of its completion queue begins now. */
  poll(): void {
    const { provider, device, core } = this;
    const n = provider.pollCq(device.cq, device.wcRing, 0, RECEIVE_BATCH);
    core.polled(this.queue, n, n === RECEIVE_BATCH);
    if (n === 0) return;
    this.received += n;
    core.post(n, false);
    provider.postRecv(device.qp, device.ring, device.start, n);
  }
}
