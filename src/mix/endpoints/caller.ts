/** One queue pair of an application that gets responses: a message is complete when its response was polled. */
import { IBV_WC_SUCCESS } from '../../verbs/constants.ts';
import { WC_OP, WC_RECV_SIDE } from '../../verbs/layout.ts';
import type { Reposted } from './rings.ts';
import { Sender } from './sender.ts';

export class Caller extends Sender {
  private readonly receives: Reposted;
  /** Responses of this poll, and of the batch that is completing. */
  private polled = 0;
  private ofBatch = 0;

  /** @param receives in which the responses arrive */
  constructor(receives: Reposted, ...parts: ConstructorParameters<typeof Sender>) {
    super(...parts);
    this.receives = receives;
  }

  /** Reposts the receives of the responses before it posts the next requests. */
  protected override beforePosts(): void {
    const { core, device, receives, polled } = this;
    if (polled === 0 || this.failed) return;
    this.polled = 0;
    core.post(polled, false);
    this.provider.postRecv(device.qp, receives.ring, receives.start, polled);
  }

  protected override complete(at: number): number {
    if (this.failed) return 0;
    const word = this.device.wcWords[at + WC_OP];
    if ((word & 0xff) !== IBV_WC_SUCCESS) {
      this.fail(this.outstanding);
      return 0;
    }
    // A request that has left the send queue is not answered yet.
    if ((word & WC_RECV_SIDE) === 0) return 0;
    this.polled++;
    this.ofBatch++;
    const ends = this.ofBatch === this.app.batch;
    this.count(1, ends);
    if (ends) this.ofBatch = 0;
    return ends ? 1 : 0;
  }
}
