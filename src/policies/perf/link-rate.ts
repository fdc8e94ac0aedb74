/** The rate at which a context loads a link, from what it posts. */

/** A context that had nothing outstanding at a sample does not always wait for the link, for this many samples. */
const WAITS_SAMPLES = 4;

/** The rate of one context on one link. It follows increases at once. With each sample that shows less, it
 * halves; if nothing is outstanding any more, it falls to an eighth. */
export class LinkRate {
  /** 0: unknown, so the rate is not limited. */
  readonly linkGbps: number;
  /** Headers included. */
  gbps = 0.5;
  /** Bytes that were posted, and cannot have left yet. */
  private postedBytes = 0.5;
  /** 1 when nothing was outstanding; halves with each sample. */
  private idlePart = 0.5;

  constructor(linkGbps: number) {
    this.linkGbps = linkGbps;
    this.reset();
  }

  /** The context begins to send. */
  reset(): void {
    this.gbps = 0;
    this.postedBytes = 0;
    this.idlePart = 0;
  }

  /**
   * Adds a sample.
   * @param bytes posted since the last one
   * @param waits whether requests are outstanding
   * @param demandNs the usual time between two samples
   */
  add(bytes: number, spanNs: number, waits: boolean, demandNs: number): void {
    if (!(spanNs > 0)) return;
    const left = 2 ** (-spanNs / demandNs);
    const mostBytes = this.linkGbps > 0 ? (this.linkGbps / 8) * spanNs : Number.POSITIVE_INFINITY;
    this.postedBytes += bytes;
    const sentBytes = Math.min(this.postedBytes, mostBytes);
    this.postedBytes = waits ? this.postedBytes - sentBytes : 0;
    // Nothing was posted because a long message is still being sent.
    if (bytes > 0 || !waits)
      this.gbps = Math.max((8 * sentBytes) / spanNs, this.gbps * (waits ? left : left ** 3));
    this.idlePart = waits ? this.idlePart * left : 1;
  }

  /** What it would send if no other tenant did: all of the link if it always waits for it. */
  get demandGbps(): number {
    return this.idlePart > 2 ** -WAITS_SAMPLES ? this.gbps : Math.max(this.gbps, this.linkGbps);
  }
}
