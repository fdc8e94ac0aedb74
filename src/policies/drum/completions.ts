/**
 * The rates at which the applications of one device receive completions. All of them together receive as many as the host
 * polls, by their shares: with one-sided requests, completions arise in proportion to requests.
 */
import { CompletionBudget } from '../../shim/limits/completion-limits.ts';
import type { Actions, ContextView } from '../../shim/policy.ts';

/** What completion rates depend on. */
export interface CompletionShares {
  /** The sum of the shares of applications in use. */
  readonly sharesInUse: number;
  isInUse(app: number): boolean;
  shareOf(app: number): number;
}

/** An application that receives completions. */
interface Receiver {
  readonly budget: CompletionBudget;
  /** One of its contexts. */
  context: ContextView;
  /** Completions per second that the host's agent gives it; 0: none, so that it gets its share of the process's limit. */
  givenPerS: number;
}

/** The budgets of the applications, by index of their entities. */
export class CompletionRates {
  private readonly perS: number;
  private readonly receivers: (Receiver | undefined)[] = [];
  /** By context: its application. */
  private readonly appOf: number[] = [];

  /** @param perS completions per second of all applications together */
  constructor(perS: number) {
    this.perS = perS;
  }

  /** An application has a queue pair in a context. */
  join(app: number, context: ContextView, out: Actions): void {
    this.receivers[app] ??= { budget: new CompletionBudget(), context, givenPerS: 0 };
    this.appOf[context.index] = app;
    const receiver = this.receivers[app];
    receiver.context = context;
    out.limitCompletions(context, receiver.budget);
  }

  /** Sets the rate that the host's agent has computed for an application. */
  give(app: number, perS: number): void {
    const receiver = this.receivers[app];
    if (receiver !== undefined) receiver.givenPerS = perS;
  }

  /** An application has lost its last queue pair. */
  end(app: number): void {
    this.receivers[app] = undefined;
  }

  /** The application of a context. */
  of({ index }: ContextView): number {
    return this.appOf[index];
  }

  /** Whether an application has received completions since the last call. */
  takeHanded(app: number): boolean {
    const receiver = this.receivers[app];
    if (receiver === undefined || receiver.budget.handed === 0) return false;
    receiver.budget.handed = 0;
    return true;
  }

  /** Shares or the applications in use have changed. An application that is not in use has what it would have if it were. */
  fit(shares: CompletionShares, nowNs: number, out: Actions): void {
    const { sharesInUse } = shares;
    for (let app = 0; app < this.receivers.length; app++) {
      const receiver = this.receivers[app];
      if (receiver === undefined) continue;
      const share = shares.shareOf(app);
      const all = sharesInUse + (shares.isInUse(app) ? 0 : share);
      receiver.budget.setRate(receiver.givenPerS || (share / all) * this.perS, nowNs);
      out.limitCompletions(receiver.context, receiver.budget);
    }
  }
}
