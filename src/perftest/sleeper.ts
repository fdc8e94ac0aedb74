/** Sleeps until something completes (--events), instead of polling. */
import type { CompletionChannel, CompletionQueue } from '../objects/index.ts';

export class Sleeper {
  private readonly channel: CompletionChannel;
  private readonly queues: readonly CompletionQueue[];
  /** Whether an event arrived since the last sleep. */
  private isPending = false;
  private resume: (() => void) | null = null;

  /** @param queues completion queues of `channel` */
  constructor(channel: CompletionChannel, queues: readonly CompletionQueue[]) {
    this.channel = channel;
    this.queues = queues;
    channel.provider.watchCompChannel(channel.handle, () => this.wake());
  }

  /** Requests an event for the next completion. Earlier completions raise none, so poll once more before sleep(). */
  arm(): void {
    for (const { provider, handle } of this.queues) provider.reqNotifyCq(handle, false);
  }

  /** Ends the current sleep, or the next one. */
  wake(): void {
    this.isPending = true;
    this.resume?.();
  }

  /** Sleeps until an event arrives; meanwhile the channel keeps the process alive. */
  async sleep(): Promise<void> {
    const { channel } = this;
    channel.provider.refCompChannel(channel.handle, true);
    if (!this.isPending) {
      await new Promise<void>((resolve) => {
        this.resume = resolve;
      });
    }
    this.isPending = false;
    this.resume = null;
    channel.provider.refCompChannel(channel.handle, false);
  }
}
