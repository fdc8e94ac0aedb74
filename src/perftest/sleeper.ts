/** Sleeps until something completes (-e), instead of looking for it again and again. */
import type { CompletionChannel, CompletionQueue } from '../objects/index.ts';

export class Sleeper {
  private readonly channel: CompletionChannel;
  private readonly queues: readonly CompletionQueue[];
  /** An event came that nobody has slept through yet. */
  private isPending = false;
  private resume: (() => void) | null = null;

  /** The queues belong to the channel. */
  constructor(channel: CompletionChannel, queues: readonly CompletionQueue[]) {
    this.channel = channel;
    this.queues = queues;
    channel.provider.watchCompChannel(channel.handle, () => this.wake());
  }

  /** The next completions ring. Whatever came before them does not: look again before sleep(). */
  arm(): void {
    for (const { provider, handle } of this.queues) provider.reqNotifyCq(handle, false);
  }

  /** Ends the sleep, or the next one. */
  wake(): void {
    this.isPending = true;
    this.resume?.();
  }

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
