/**
 * Chooses the queue pair whose packet a port admits next. A port has one scheduler, or one per class. Each
 * is one object with these methods in a file of its own, listed in make-scheduler.ts. Nothing may be allocated per
 * packet.
 */
import type { Sender } from '../transport/qp.ts';

export interface QpScheduler {
  /**
   * Room for admitted packets, headers included, until their last bit has left. Admitted packets keep their
   * order, so a scheduler that serves some queue pairs before others requires a short FIFO. Default: the
   * profile's egressFifoBytes.
   */
  readonly fifoBytes?: number;
  /**
   * The NIC knows that this sender has work: it begins a message. The packets may come later, or never. Absent:
   * the scheduler does not care.
   */
  began?(sender: Sender): void;
  /** A sender has a packet. No effect when it is already in the round. */
  join(sender: Sender): void;
  /**
   * The sender whose packet is admitted next. Null: none has a packet, or all have to wait until `wakeNs`. Repeated
   * calls return the same sender until it is charged or another one joins. `clock[0]` is the current time, in an array
   * because V8 allocates a double that crosses a call.
   */
  next(clock: Float64Array): Sender | null;
  /**
   * The sender that `next` returned leaves the round, and joins again if it has another packet. `bytes` is what is
   * admitted of it, headers included; 0: it had no packet any more. `payloadBytes` is the part of it that is payload.
   */
  charge(bytes: number, payloadBytes: number): void;
  /** A destroyed sender leaves, wherever it is. It never returns. */
  ended(sender: Sender): void;
  /** When `next` returned null although senders are in the round: the time to ask again, in ns. Default: never. */
  readonly wakeNs?: number;
}

/** First come, first served: a sender with another packet joins the end. */
export class TailRound implements QpScheduler {
  private head: Sender | null = null;
  private tail: Sender | null = null;

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    if (this.tail === null) this.head = sender;
    else this.tail.next = sender;
    this.tail = sender;
  }

  next(): Sender | null {
    return this.head;
  }

  charge(): void {
    const sender = this.head as Sender;
    this.head = sender.next;
    if (this.head === null) this.tail = null;
    sender.next = null;
    sender.queued = false;
  }

  /** The sender leaves when it reaches the head, because it has no packet then. */
  ended(): void {}
}
