/** Lets threads wait for each other, and stops them together. */

const ARRIVED = 0;
const ROUND = 1;
const STOPPED = 2;
const WORDS = 3;
/** How often a thread reads the round before it sleeps. */
const SPINS = 20_000;

/** What the threads share. */
export const newBarrier = (): SharedArrayBuffer => new SharedArrayBuffer(WORDS * 4);

/** One thread's view of a barrier. */
export class Barrier {
  private readonly words: Int32Array;
  private readonly threads: number;

  constructor(shared: SharedArrayBuffer, threads: number) {
    this.words = new Int32Array(shared);
    this.threads = threads;
  }

  /** Returns when all threads have called it. */
  pass(): void {
    const { words } = this;
    const round = Atomics.load(words, ROUND);
    if (Atomics.add(words, ARRIVED, 1) + 1 === this.threads) {
      Atomics.store(words, ARRIVED, 0);
      Atomics.add(words, ROUND, 1);
      Atomics.notify(words, ROUND);
      return;
    }
    for (let i = 0; i < SPINS; i++) if (Atomics.load(words, ROUND) !== round) return;
    while (Atomics.load(words, ROUND) === round) Atomics.wait(words, ROUND, round);
  }

  /** Threads see it after the next pass. */
  stop(): void {
    Atomics.store(this.words, STOPPED, 1);
  }

  get isStopped(): boolean {
    return Atomics.load(this.words, STOPPED) === 1;
  }
}
