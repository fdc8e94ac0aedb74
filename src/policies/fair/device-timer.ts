/**
 * A timer of a device. A timer ends with the context that it is set on, so this one moves to another context before: when
 * its context has lost its last queue pair.
 */
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';

/** One timer for all contexts of a device. */
export class DeviceTimer {
  private readonly token: number;
  /** By queue pair: its context; and how many queue pairs each context has. */
  private readonly byQp: (ContextView | undefined)[] = [];
  private readonly counts = new Map<ContextView, number>();
  /** The context that the timer is set on; null: it waits for a queue pair. */
  private holder: ContextView | null = null;
  private readonly atNs = Float64Array.of(Number.POSITIVE_INFINITY);
  private readonly mayBeLate: boolean;

  /** @param mayBeLate see Actions.timer */
  constructor(token: number, mayBeLate: boolean) {
    this.token = token;
    this.mayBeLate = mayBeLate;
  }

  /** When it is due. */
  get dueNs(): number {
    return this.atNs[0];
  }

  /** Sets the timer. @param context one in use; default: the one that it was set on. `atNs` may be Infinity: never */
  set(atNs: number, out: Actions, context = this.holder): void {
    if (this.holder !== null && this.holder !== context) this.put(Number.POSITIVE_INFINITY, out);
    this.holder = context;
    this.atNs[0] = atNs;
    this.put(atNs, out);
  }

  private put(atNs: number, out: Actions): void {
    if (this.holder !== null) out.timer(this.holder, atNs, this.token, this.mayBeLate);
  }

  /** A queue pair was created. */
  add({ index, context }: QpView, out: Actions): void {
    this.byQp[index] = context;
    this.counts.set(context, (this.counts.get(context) ?? 0) + 1);
    if (this.holder === null) this.set(this.atNs[0], out, context);
  }

  /** A queue pair was destroyed. */
  drop({ index }: { readonly index: number }, out: Actions): void {
    const { byQp, counts } = this;
    const context = byQp[index]!;
    byQp[index] = undefined;
    const left = counts.get(context)! - 1;
    if (left > 0) {
      counts.set(context, left);
      return;
    }
    counts.delete(context);
    if (context === this.holder) this.set(this.atNs[0], out, counts.keys().next().value ?? null);
  }
}
