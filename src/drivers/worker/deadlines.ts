/** The alarms of the shim in the worker: the loop compares the soonest deadline with the clock while it polls. */
import type { Alarm, SleepKeeps } from '../../verbs/provider.ts';

export class Deadlines {
  /** [0]: the soonest deadline; [1]: the soonest for which requests are held, which the worker must not miss. */
  readonly soonestNs = new Float64Array(2).fill(Number.POSITIVE_INFINITY);
  readonly nowNs: () => number;
  private readonly alarms: LoopAlarm[] = [];

  /** @param nowNs the clock of the deadlines */
  constructor(nowNs: () => number) {
    this.nowNs = nowNs;
  }

  /** Creates an alarm. One that a run would wait for is the alarm of held requests. */
  create(keeps: SleepKeeps, listener: () => void): Alarm {
    const alarm = new LoopAlarm(keeps !== 'nothing', listener, this);
    this.alarms.push(alarm);
    return alarm;
  }

  remove(alarm: LoopAlarm): void {
    this.alarms.splice(this.alarms.indexOf(alarm), 1);
    this.update();
  }

  /** Finds the soonest deadlines. */
  update(): void {
    const { soonestNs } = this;
    soonestNs.fill(Number.POSITIVE_INFINITY);
    for (const { dueNs, isStrict } of this.alarms) {
      if (dueNs < soonestNs[0]) soonestNs[0] = dueNs;
      if (isStrict && dueNs < soonestNs[1]) soonestNs[1] = dueNs;
    }
  }

  /** Calls the alarms whose deadlines have passed. @returns whether there was any */
  ring(): boolean {
    // Without a deadline, the clock is not read.
    if (this.soonestNs[0] === Number.POSITIVE_INFINITY) return false;
    const nowNs = this.nowNs();
    if (this.soonestNs[0] > nowNs) return false;
    // A listener that sets its alarm for now is called next time.
    for (let budget = this.alarms.length; budget > 0 && this.soonestNs[0] <= nowNs; budget--) {
      const alarm = this.alarms.find(({ dueNs }) => dueNs === this.soonestNs[0]);
      if (alarm === undefined) break;
      alarm.dueNs = Number.POSITIVE_INFINITY;
      this.update();
      alarm.listener();
    }
    return true;
  }
}

class LoopAlarm implements Alarm {
  readonly atNs = new Float64Array(1);
  dueNs = Number.POSITIVE_INFINITY;
  readonly isStrict: boolean;
  readonly listener: () => void;
  private readonly all: Deadlines;

  constructor(isStrict: boolean, listener: () => void, all: Deadlines) {
    this.isStrict = isStrict;
    this.listener = listener;
    this.all = all;
  }

  set(): void {
    this.dueNs = this.atNs[0];
    this.all.update();
  }

  close(): void {
    this.all.remove(this);
  }
}
