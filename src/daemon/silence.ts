/**
 * Who gives no sign of life is stopped, or spins without a look at its queues: its share is lent to the others. One that
 * waits for a CPU is neither, and on a busy machine it may wait for longer than all others may be kept waiting.
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** Who has given no sign for so long is silent, unless its process waits for a CPU. */
export const SILENT_NS = 60e6;
/** Three signs of life should have come: the process is looked at. */
const SUSPECT_NS = 45e6;
/** One that has had a CPU for so long since it was looked at could have given a sign. */
const RAN_NS = 15e6;
/** A look at a process is a few system calls; clients without number must not make a pass of thousands of them. */
const LOOKS_OF_A_PASS = 16;

/** What the system says of a process: its state as in `man proc_pid_stat`, and how long it has had a CPU. */
export interface ProcessState {
  readonly state: string;
  readonly ranNs: number;
}

const RUNNABLE = 'R';
const STOPPED = 'T';

export class Silences {
  private readonly look: (pid: number) => ProcessState | null;
  /** By place: what its process had run when it was looked at first since its last sign; NaN: it was not. */
  private readonly ranNs: Float64Array;
  private looks = 0;

  /** @param look null: the system says nothing of such a process */
  constructor(places: number, look: (pid: number) => ProcessState | null) {
    this.look = look;
    this.ranNs = new Float64Array(places).fill(Number.NaN);
  }

  /** Another pass. */
  begin(): void {
    this.looks = 0;
  }

  /** It has given a sign. */
  spoke(place: number): void {
    this.ranNs[place] = Number.NaN;
  }

  /** Whether one that has given no sign for so long is silent. */
  isSilent(place: number, pid: number, quietNs: number): boolean {
    if (quietNs <= SUSPECT_NS) return false;
    const isLate = quietNs > SILENT_NS;
    if (this.looks >= LOOKS_OF_A_PASS) return isLate;
    this.looks++;
    const found = this.look(pid);
    if (found === null) return isLate;
    if (found.state === STOPPED) return true;
    if (found.state !== RUNNABLE) return isLate;
    const firstNs = this.ranNs[place];
    if (Number.isNaN(firstNs)) {
      this.ranNs[place] = found.ranNs;
      return false;
    }
    return isLate && found.ranNs - firstNs >= RAN_NS;
  }
}

const TEXT = Buffer.alloc(1024);

function textOf(pid: number, name: string): string {
  const fd = openSync(`/proc/${pid}/${name}`, 'r');
  try {
    return TEXT.toString('latin1', 0, readSync(fd, TEXT, 0, TEXT.length, 0));
  } finally {
    closeSync(fd);
  }
}

/** Of its first thread, which is where most programs post and poll. */
export function processState(pid: number): ProcessState | null {
  try {
    // The name of the command, in parentheses, may have any character.
    const [, state] = /^.*\) (.)/s.exec(textOf(pid, 'stat')) ?? [];
    const ranNs = Number(textOf(pid, 'schedstat').split(' ', 1)[0]);
    return state === undefined || !(ranNs >= 0) ? null : { state, ranNs };
  } catch {
    return null;
  }
}
