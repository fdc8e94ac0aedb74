/**
 * Shares out places, for connections or contexts, among users. A user may have as many as are free, so that some are
 * left however many users take all they can, and the last ones are for users that have none.
 */

/** The part of all places that is kept for users that have none. */
const KEPT_PART = 1 / 16;

/** Whether a user that has `own` of `all` places may take one more while `free` are free. */
export function mayTakePlace({ own, free, all }: { own: number; free: number; all: number }): boolean {
  return own === 0 ? free > 0 : own < free - Math.floor(all * KEPT_PART);
}

/** The places that each user has. Undefined stands for trusted users, which may take any. */
export class Places {
  private readonly all: number;
  private readonly byUser = new Map<number | undefined, number>();
  private taken = 0;

  constructor(all: number) {
    this.all = all;
  }

  /** The places that a user has. */
  of(user: number | undefined): number {
    return this.byUser.get(user) ?? 0;
  }

  /** @param others places that are taken, but by no user */
  mayTake(user: number | undefined, others: number): boolean {
    const { all } = this;
    return user === undefined || mayTakePlace({ own: this.of(user), free: all - others - this.taken, all });
  }

  /** The reason why a user may not take one more place for a context, as for `mayTake`; null: it may. */
  refusal(user: number | undefined, others: number, device: string): string | null {
    if (this.mayTake(user, others)) return null;
    return `user ${user} already has ${this.of(user)} contexts at ${device}, and the last seats are for users that have fewer`;
  }

  /** Takes a place for a user. */
  take(user: number | undefined): void {
    this.taken++;
    this.byUser.set(user, this.of(user) + 1);
  }

  /** Gives one back. */
  release(user: number | undefined): void {
    this.taken--;
    if (this.of(user) === 1) this.byUser.delete(user);
    else this.byUser.set(user, this.of(user) - 1);
  }
}
