/**
 * SHARE, the baseline of DRUM (section V): connections to one peer share queue pairs, in groups of equal size, and each
 * thread posts to them itself, under a lock. Nothing is scheduled.
 */
import type { Actions, Policy, QpView } from '../../shim/policy.ts';
import { mergeOptions } from '../parse-options.ts';
import { type ShareOptions, shareOptions } from './options.ts';

/** The policy share: requests pass unchanged, over shared queue pairs. */
export class Share implements Policy {
  readonly name = 'share';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 0;
  readonly mostShared: number;
  readonly sharesAlways = true;
  private readonly options: ShareOptions;

  constructor(options: ShareOptions) {
    this.options = options;
    this.mostShared = options.connectionsPerQp;
  }

  /** @throws ConfigError for every change: connections keep the queue pairs that they share */
  configure(changes: Readonly<Record<string, unknown>>): void {
    mergeOptions('share', shareOptions, this.options, changes, ['connectionsPerQp', 'lockNs']);
  }

  onload(_qp: QpView, _words: Uint32Array, _start: number, count: number): number {
    return count;
  }

  /** Issues what had to wait: for room on the shared queue pair, or until a connection has changed its queue pair. */
  feed(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }
}
