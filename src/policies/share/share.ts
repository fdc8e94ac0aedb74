/**
 * SHARE, the baseline of DRUM (section V): connections to one peer share queue pairs, in groups of equal size, and each
 * thread posts to them itself, under a lock. Nothing is scheduled.
 */
import type { Actions, Policy, QpView } from '../../shim/policy.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { slotAt } from '../../verbs/layout.ts';
import { passAll } from '../kit/step.ts';
import { mergeOptions } from '../parse-options.ts';
import { type ShareOptions, shareOptions } from './options.ts';

/** The policy share: requests pass unchanged, over shared queue pairs. */
export class Share implements Policy {
  readonly name = 'share';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 0;
  readonly mostShared: number;
  readonly sharesAlways = true;
  /** The shim executes the application's WAITs, because the device counts no completions of shared queue pairs. */
  readonly crossChannel = true;
  private readonly options: ShareOptions;

  constructor(options: ShareOptions) {
    this.options = options;
    this.mostShared = options.connectionsPerQp;
  }

  /** @throws ConfigError for every change: connections keep the queue pairs that they share */
  configure(changes: Readonly<Record<string, unknown>>): void {
    mergeOptions('share', shareOptions, this.options, changes, ['connectionsPerQp', 'lockNs']);
  }

  onload(_qp: QpView, words: Uint32Array, start: number, count: number): number {
    let i = 0;
    while (i < count && !isCrossChannel(words, slotAt(start + i))) i++;
    return i;
  }

  /** Issues what had to wait: for room on the shared queue pair, or until a connection has changed its queue pair. */
  feed(qp: QpView, out: Actions): void {
    passAll(qp, out);
  }
}
