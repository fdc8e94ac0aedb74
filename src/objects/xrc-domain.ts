import type { Context } from './context.ts';
import { QueuePair } from './queue-pair.ts';
import { Resource } from './resource.ts';

/**
 * An XRC domain (ibv_open_xrcd(3)): its receiving queue pairs can use its shared receive queues. Created by
 * context.openXrcd().
 */
export class XrcDomain extends Resource {
  /** @internal */
  readonly kind = 'XrcDomain';
  readonly context: Context;

  /** @internal Use context.openXrcd(). */
  constructor(context: Context) {
    super({
      provider: context.provider,
      handle: context.provider.openXrcd(context.handle),
      label: context.labelFor('XRC domain'),
      parents: [context],
    });
    this.context = context;
  }

  /** Creates the receiving half of an extended reliable connection (IBV_QPT_XRC_RECV). It has no queues. */
  createQp(): QueuePair {
    return new QueuePair(this, { type: 'XRC_RECV' });
  }

  protected override release(handle: number): void {
    this.provider.closeXrcd(handle);
  }
}
