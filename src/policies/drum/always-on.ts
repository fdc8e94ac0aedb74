import { Judge } from '../fair/judge.ts';

/** Schedules the device at all times: rates hold only while requests wait for their turns. */
export class AlwaysOn extends Judge {
  readonly isOn = true;
  readonly level = 0;
  readonly isPlanned = true;
  readonly isAside = false;
  readonly isResting = true;
  readonly wantsTime = false;

  plan(): number {
    return Number.POSITIVE_INFINITY;
  }

  onTimer(): number {
    return Number.POSITIVE_INFINITY;
  }

  protected took(): boolean {
    return false;
  }
}
