/** The peer of an application that uses SEND: keeps receives posted. */
import type { Core } from '../../sim/host/core.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Poller } from '../dispatcher.ts';
import type { RegionBuffers } from './region-buffers.ts';

/** Completions taken per poll, and receives posted at once. */
export const RECEIVE_BATCH = 16;

export interface ReceiverDevice {
  readonly qp: number;
  readonly cq: number;
  /** A ring with RECEIVE_BATCH receives, and the slot of the first. They are equal unless there are several `buffers`. */
  readonly ring: number;
  readonly words: Uint32Array;
  readonly start: number;
  readonly buffers: RegionBuffers | null;
  readonly wcRing: number;
  readonly wcWords: Uint32Array;
}

export class Receiver implements Poller {
  readonly core: Core;
  readonly queue: number;
  private readonly provider: Provider;
  private readonly device: ReceiverDevice;
  /** Receives that have completed. */
  received = 0;
  private stopped = false;

  constructor(provider: Provider, device: ReceiverDevice, core: Core) {
    this.provider = provider;
    this.device = device;
    this.core = core;
    this.queue = core.addQueue();
  }

  /** Polls its completion queue, and reposts the receives that completed. */
  poll(): void {
    const { provider, device, core } = this;
    if (this.stopped) {
      core.polled(this.queue, 0, false);
      return;
    }
    const n = provider.pollCq(device.cq, device.wcRing, 0, RECEIVE_BATCH);
    core.polled(this.queue, n, n === RECEIVE_BATCH);
    if (n === 0) return;
    this.received += n;
    core.post(n, false);
    device.buffers?.toReceives(device.words, device.start, n);
    provider.postRecv(device.qp, device.ring, device.start, n);
  }

  /** Touches its queue pair no more. */
  stop(): void {
    this.stopped = true;
  }
}
