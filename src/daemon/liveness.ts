/**
 * Who gives no sign of life is stopped, or spins without a look at its queues: its share is lent to the others. One that
 * waits for a CPU is neither, and on a busy machine it may wait for longer than all others may be kept waiting.
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** Who has given no sign for so long is silent, unless its process waits for a CPU. */
export const SILENT_NS = 50e6;
/** A sign of life should have come: the process is looked at. */
const SUSPECT_NS = 30e6;
/**
 * One that has had a CPU for so long since it was looked at could have given a sign. Not so within a call of the system:
 * a soft-RoCE device does there what a NIC does itself.
 */
const USER_NS = 20e6;
const SYSTEM_NS = 60e6;
/** A look at a process is a few system calls; clients without number must not make a pass of thousands of them. */
const LOOKS_OF_A_PASS = 16;
/** Who could not be looked at, as so many others were, is silent after this. */
const UNSEEN_NS = 5 * SILENT_NS;

/** What the system says of a process, as in `man proc_pid_stat`: its state, and the CPU time that it has had. */
export interface ProcessState {
  readonly state: string;
  readonly userNs: number;
  readonly systemNs: number;
}

const RUNNABLE = 'R';
const STOPPED = 'T';

export class Silences {
  private readonly look: (pid: number) => ProcessState | null;
  /** By place: what its process had when it was looked at first since its last sign; NaN: it was not. */
  private readonly userNs: Float64Array;
  private readonly systemNs: Float64Array;
  private looks = 0;
  /** By process: what was found in this pass. */
  private readonly found = new Map<number, ProcessState | null>();

  /** @param look null: the system says nothing of such a process */
  constructor(places: number, look: (pid: number) => ProcessState | null) {
    this.look = look;
    this.userNs = new Float64Array(places).fill(Number.NaN);
    this.systemNs = new Float64Array(places);
  }

  /** Another pass. */
  begin(): void {
    this.looks = 0;
    this.found.clear();
  }

  /** One look for all contexts of a process: or one that has many takes those of all others. */
  private stateOf(pid: number): ProcessState | null {
    const known = this.found.get(pid);
    if (known !== undefined) return known;
    this.looks++;
    const found = this.look(pid);
    this.found.set(pid, found);
    return found;
  }

  /** It has given a sign. */
  spoke(place: number): void {
    this.userNs[place] = Number.NaN;
  }

  /** Whether one that has given no sign for so long is silent. */
  isSilent(place: number, pid: number, quietNs: number): boolean {
    if (quietNs <= SUSPECT_NS) return false;
    const isLate = quietNs > SILENT_NS;
    if (this.looks >= LOOKS_OF_A_PASS && !this.found.has(pid)) return quietNs > UNSEEN_NS;
    const found = this.stateOf(pid);
    if (found === null) return isLate;
    if (found.state === STOPPED) return true;
    if (found.state !== RUNNABLE) return isLate;
    if (Number.isNaN(this.userNs[place])) {
      this.userNs[place] = found.userNs;
      this.systemNs[place] = found.systemNs;
      return false;
    }
    const userNs = found.userNs - this.userNs[place];
    const systemNs = found.systemNs - this.systemNs[place];
    return isLate && (userNs >= USER_NS || systemNs >= SYSTEM_NS);
  }
}

/** Of the times in it, whatever the kernel's own (`getconf CLK_TCK`). */
const TICK_NS = 1e7;
const [UTIME, STIME] = [11, 12];
const TEXT = Buffer.alloc(1024);

/** Of all its threads; the state is that of the first, which is where most programs post and poll. */
export function processState(pid: number): ProcessState | null {
  let fd: number;
  try {
    fd = openSync(`/proc/${pid}/stat`, 'r');
  } catch {
    return null;
  }
  try {
    const text = TEXT.toString('latin1', 0, readSync(fd, TEXT, 0, TEXT.length, 0));
    // The name of the command, in parentheses, may have any character.
    const [state, ...numbers] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [userNs, systemNs] = [UTIME, STIME].map((field) => Number(numbers[field - 1]) * TICK_NS);
    return userNs >= 0 && systemNs >= 0 ? { state, userNs, systemNs } : null;
  } catch {
    return null;
  } finally {
    closeSync(fd);
  }
}
