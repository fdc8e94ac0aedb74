/** Fills the send queues once before the test, to warm up caches of queue pairs and memory (--perform_warm_up). */
import type { Workload } from './bandwidth.ts';
import type { Endpoint } from './endpoint.ts';
import { MeasuringWindow } from './measuring-window.ts';
import { Requests } from './requests.ts';

export class WarmUp implements Workload {
  /** Nothing is counted. */
  readonly window: MeasuringWindow;
  private readonly endpoint: Endpoint;
  private left: number;

  /** Posts the requests. */
  constructor(endpoint: Endpoint, sizeBytes: number) {
    const { txDepth } = endpoint.settings;
    this.endpoint = endpoint;
    this.window = new MeasuringWindow(endpoint.settings, endpoint.context.nowNs());
    this.left = txDepth * endpoint.qps.length;
    const requests = new Requests(endpoint, sizeBytes, { cqMod: 1 });
    for (let index = 0; index < endpoint.qps.length; index++) requests.post(index, txDepth, true);
  }

  step(): boolean {
    this.left -= this.endpoint.poll(this.endpoint.sendCq);
    return this.left === 0;
  }
}
