/** Fills the send queues once before the test, so that caches know of queue pairs and memory (--perform_warm_up). */
import type { Party } from './bandwidth.ts';
import type { End } from './end.ts';
import { Requests } from './requests.ts';
import { Window } from './window.ts';

export class WarmUp implements Party {
  /** Nothing counts. */
  readonly window: Window;
  private readonly end: End;
  private left: number;

  /** Posts them. */
  constructor(end: End, sizeBytes: number) {
    const { txDepth } = end.settings;
    this.end = end;
    this.window = new Window(end.settings, end.context.nowNs());
    this.left = txDepth * end.qps.length;
    const requests = new Requests(end, sizeBytes, { cqMod: 1 });
    for (let index = 0; index < end.qps.length; index++) requests.post(index, txDepth, true);
  }

  step(): boolean {
    this.left -= this.end.poll(this.end.sendCq);
    return this.left === 0;
  }
}
