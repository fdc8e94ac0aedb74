/**
 * A client that gives no sign of life is either stopped or spins without polling its queues; its share is
 * lent to others. A client that waits for a CPU is neither: on a busy machine it may wait longer than all
 * other clients can be made to wait.
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** A client without a sign of life for this long is silent, unless its process waits for a CPU. */
export const SILENT_NS = 50e6;
/** After this long a sign of life is overdue, and the process is inspected. */
const SUSPECT_NS = 30e6;
/**
 * A process that has run this long since it was first inspected could have given a sign of life. The bound is larger
 * for time in system calls, because soft-RoCE does in system calls the work that a NIC does itself.
 */
const MIN_USER_NS = 20e6;
const MIN_SYSTEM_NS = 60e6;
/**
 * An inspection takes several system calls. The bound keeps a pass over many clients from taking thousands of them.
 */
const INSPECTIONS_PER_PASS = 16;
/**
 * Of the time between two looks at clients, at most this much counts as silence: if the daemon did not run for longer,
 * the machine may have stood still, and clients need time to give a sign of life.
 */
const MAX_UNATTENDED_NS = SUSPECT_NS;
/** After this long a client is silent even if the bound left no inspection for it. */
const UNINSPECTED_SILENT_NS = 5 * SILENT_NS;

/** A process as the system reports it (`man proc_pid_stat`): its state, and the CPU time it has used. */
export interface ProcessState {
  readonly state: string;
  readonly userNs: number;
  readonly systemNs: number;
}

const RUNNABLE = 'R';
const STOPPED = 'T';

export class LivenessMonitor {
  private readonly inspectProcess: (pid: number) => ProcessState | null;
  /**
   * By row: the CPU time of the process at its first inspection since its last sign of life; NaN if not
   * inspected.
   */
  private readonly userNs: Float64Array;
  private readonly systemNs: Float64Array;
  private inspections = 0;
  /** When clients were last looked at, and the time counted until then. */
  private lookedNs = Number.NaN;
  private countedNs = 0;
  /** By row: the counted time at the last sign of life. */
  private readonly signNs: Float64Array;
  /** By process: the result in this pass. */
  private readonly inspected = new Map<number, ProcessState | null>();

  /** @param inspectProcess returns null if the system reports nothing of the process */
  constructor(capacity: number, inspectProcess: (pid: number) => ProcessState | null) {
    this.inspectProcess = inspectProcess;
    this.userNs = new Float64Array(capacity).fill(Number.NaN);
    this.systemNs = new Float64Array(capacity);
    this.signNs = new Float64Array(capacity);
  }

  /** Starts a new pass. */
  beginPass(): void {
    this.inspections = 0;
    this.inspected.clear();
  }

  /** Counts the time until now, before clients are looked at. */
  advance(nowNs: number): void {
    if (nowNs > this.lookedNs) this.countedNs += Math.min(MAX_UNATTENDED_NS, nowNs - this.lookedNs);
    this.lookedNs = nowNs;
  }

  /**
   * Inspects a process once for all its contexts; otherwise a process with many contexts would use up the
   * inspections.
   */
  private stateOf(pid: number): ProcessState | null {
    const known = this.inspected.get(pid);
    if (known !== undefined) return known;
    this.inspections++;
    const state = this.inspectProcess(pid);
    this.inspected.set(pid, state);
    return state;
  }

  /** The client has given a sign of life. */
  markAlive(row: number): void {
    this.userNs[row] = Number.NaN;
    this.signNs[row] = this.countedNs;
  }

  /** Whether a client, which has given no sign of life this time, is silent. */
  isSilent(row: number, pid: number): boolean {
    const quietNs = this.countedNs - this.signNs[row];
    if (quietNs <= SUSPECT_NS) return false;
    const isLate = quietNs > SILENT_NS;
    if (this.inspections >= INSPECTIONS_PER_PASS && !this.inspected.has(pid))
      return quietNs > UNINSPECTED_SILENT_NS;
    const state = this.stateOf(pid);
    if (state === null) return isLate;
    if (state.state === STOPPED) return true;
    if (state.state !== RUNNABLE) return isLate;
    if (Number.isNaN(this.userNs[row])) {
      this.userNs[row] = state.userNs;
      this.systemNs[row] = state.systemNs;
      return false;
    }
    const userNs = state.userNs - this.userNs[row];
    const systemNs = state.systemNs - this.systemNs[row];
    return isLate && (userNs >= MIN_USER_NS || systemNs >= MIN_SYSTEM_NS);
  }
}

/** The unit of the times in that file, regardless of the kernel's tick (`getconf CLK_TCK`). */
const TICK_NS = 1e7;
const [UTIME, STIME] = [11, 12];
const STAT_BUFFER = Buffer.alloc(1024);

/**
 * Times are sums over all threads. The state is that of the first thread, which posts and polls in most
 * programs.
 */
export function processState(pid: number): ProcessState | null {
  let fd: number;
  try {
    fd = openSync(`/proc/${pid}/stat`, 'r');
  } catch {
    return null;
  }
  try {
    const text = STAT_BUFFER.toString('latin1', 0, readSync(fd, STAT_BUFFER, 0, STAT_BUFFER.length, 0));
    // The command's name, in parentheses, may contain any character.
    const [state, ...numbers] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [userNs, systemNs] = [UTIME, STIME].map((field) => Number(numbers[field - 1]) * TICK_NS);
    return userNs >= 0 && systemNs >= 0 ? { state, userNs, systemNs } : null;
  } catch {
    return null;
  } finally {
    closeSync(fd);
  }
}
