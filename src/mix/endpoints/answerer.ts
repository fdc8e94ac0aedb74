/** The peer of an application that gets responses: keeps receives posted, and answers each message that arrives. */
import { BUSY_UNTIL, type Core } from '../../sim/host/core.ts';
import { slotAt, WC_OP, WC_RECV_SIDE } from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Dispatcher, Poller } from '../dispatcher.ts';
import { RECEIVE_BATCH, type ReceiverDevice } from './receiver.ts';
import type { Reposted } from './rings.ts';

export class Answerer implements Poller {
  readonly core: Core;
  readonly queue: number;
  private readonly dispatcher: Dispatcher;
  private readonly provider: Provider;
  private readonly device: ReceiverDevice;
  private readonly responses: Reposted;
  private stopped = false;

  constructor(
    dispatcher: Dispatcher,
    provider: Provider,
    device: ReceiverDevice,
    responses: Reposted,
    core: Core,
  ) {
    this.dispatcher = dispatcher;
    this.provider = provider;
    this.device = device;
    this.responses = responses;
    this.core = core;
    this.queue = core.addQueue();
  }

  /** Polls its completion queue, reposts the receives that completed, and answers as many messages. */
  poll(): void {
    const { provider, device, core, responses } = this;
    if (this.stopped) {
      core.polled(this.queue, 0, false);
      return;
    }
    const n = provider.pollCq(device.cq, device.wcRing, 0, RECEIVE_BATCH);
    core.polled(this.queue, n, n === RECEIVE_BATCH);
    let messages = 0;
    for (let i = 0; i < n; i++) {
      const word = device.wcWords[slotAt(i) + WC_OP];
      // A failed connection is not served any more: the application sees the errors of its own requests.
      if ((word & 0xff) !== 0) this.stopped = true;
      else if ((word & WC_RECV_SIDE) !== 0) messages++;
    }
    if (messages === 0 || this.stopped) return;
    core.post(messages, false);
    provider.postRecv(device.qp, device.ring, device.start, messages);
    core.post(messages, true);
    // The last ones, because the very last is signaled.
    const start = responses.start + RECEIVE_BATCH - messages;
    const { clock, cpuAhead } = this.dispatcher;
    cpuAhead[0] = core.times[BUSY_UNTIL] - clock[0];
    const posted = provider.postSend(device.qp, responses.ring, start, messages);
    cpuAhead[0] = 0;
    if (posted !== messages) throw new Error(`the device accepted ${posted} of ${messages} responses`);
  }

  /** Touches its queue pair no more. */
  stop(): void {
    this.stopped = true;
  }
}
