/** Senders that are served before all others, in the order in which they came. */
import type { Sender } from '../../transport/qp.ts';

export class UrgentQueue {
  first: Sender | null = null;
  private last: Sender | null = null;

  push(sender: Sender): void {
    sender.next = null;
    if (this.last === null) this.first = sender;
    else this.last.next = sender;
    this.last = sender;
  }

  /** Removes the first sender. */
  shift(): void {
    const sender = this.first as Sender;
    this.first = sender.next;
    if (this.first === null) this.last = null;
    sender.next = null;
  }

  /** Removes a sender, wherever it is. */
  remove(sender: Sender): void {
    let before: Sender | null = null;
    for (let at = this.first; at !== null; at = at.next) {
      if (at === sender) {
        if (before === null) this.first = at.next;
        else before.next = at.next;
        if (this.last === at) this.last = before;
        at.next = null;
        return;
      }
      before = at;
    }
  }
}
