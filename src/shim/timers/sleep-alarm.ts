/** Alarms on a provider that has only promised sleeps, such as one whose sleeps are recorded. */
import type { Alarm, Provider, SleepKeeps } from '../../verbs/provider.ts';

/** Longer sleeps are divided: a timer of Node.js has 31 bits of milliseconds. */
const MAX_SLEEP_NS = 1e15;

/** An alarm of a context of this provider: its own, or one that sleeps. */
export function alarmOf(provider: Provider, context: number, keeps: SleepKeeps, listener: () => void): Alarm {
  return (
    provider.createAlarm?.(context, keeps, listener) ?? new SleepAlarm(provider, context, keeps, listener)
  );
}

/** Each deadline is a sleep, also one that was replaced. */
class SleepAlarm implements Alarm {
  readonly atNs = new Float64Array(1);
  private readonly provider: Provider;
  private readonly context: number;
  private readonly keeps: SleepKeeps;
  private readonly listener: () => void;
  private isClosed = false;

  constructor(provider: Provider, context: number, keeps: SleepKeeps, listener: () => void) {
    this.provider = provider;
    this.context = context;
    this.keeps = keeps;
    this.listener = listener;
  }

  set(): void {
    const atNs = this.atNs[0];
    if (atNs === Number.POSITIVE_INFINITY) return;
    this.sleep(atNs, Math.max(0, atNs - this.provider.nowNs(this.context)));
  }

  close(): void {
    this.isClosed = true;
  }

  private sleep(atNs: number, forNs: number): void {
    const { provider, context, keeps } = this;
    void provider.sleep(context, Math.min(forNs, MAX_SLEEP_NS), keeps).then(() => {
      if (this.isClosed) return;
      const leftNs = atNs - provider.nowNs(context);
      if (leftNs > 0) this.sleep(atNs, leftNs);
      else this.listener();
    });
  }
}
