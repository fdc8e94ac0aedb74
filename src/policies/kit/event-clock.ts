/** The device's time, which a policy reads at most once in an event: a read takes as long as several other steps. */
import type { Actions, ContextView } from '../../shim/policy.ts';

/** The time of the current event. */
export class EventClock {
  // In typed arrays, because V8 allocates a double that is stored in a field.
  private readonly readNs = new Float64Array(1);
  private isRead = false;

  /** A new event begins. */
  begin(): void {
    this.isRead = false;
  }

  /** The time of the event, in ns. */
  nowNs(context: ContextView, out: Actions): number {
    if (!this.isRead) {
      this.readNs[0] = out.nowNs(context);
      this.isRead = true;
    }
    return this.readNs[0];
  }
}
