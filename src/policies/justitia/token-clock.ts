/** When this process gives out the tokens of one device. */
import { Bucket } from '../../shim/limits/bucket.ts';

/** Gives out tokens at a rate that changes. */
export class TokenClock {
  /** Bytes of a token. */
  tokenBytes = 0;
  /** Bytes of a token that a message takes at least, so that message rates are shared as well. */
  messageBytes = 0;
  /** Whether nothing is paced. */
  isFree = true;
  private bucket = new Bucket({ burst: 0, tokens: 0 });
  private readonly refresh: (nowNs: number) => void;
  private readonly periodNs: number;
  private refreshedNs = Number.NaN;

  /**
   * @param refresh reads the grants, and calls `set`
   * @param periodNs minimum time between calls of `refresh` while tokens are taken
   */
  constructor(refresh: (nowNs: number) => void, periodNs: number) {
    this.refresh = refresh;
    this.periodNs = periodNs;
  }

  /**
   * Sets the rate from now on.
   * @param bytesPerNs Infinity if nothing is paced
   * @param backlogBytes bytes that may be sent at once after a delay, if that is more than a token
   */
  set(
    bytesPerNs: number,
    tokenBytes: number,
    messageBytes: number,
    backlogBytes: number,
    nowNs: number,
  ): void {
    // If the clock has jumped back, the bucket would get no tokens until the clock has caught up.
    if (nowNs < this.refreshedNs) {
      const { burst, tokens } = this.bucket;
      this.bucket = new Bucket({ burst, tokens, nowNs });
    }
    const { bucket } = this;
    this.refreshedNs = nowNs;
    bucket.fill(nowNs);
    this.isFree = bytesPerNs === Number.POSITIVE_INFINITY;
    this.messageBytes = messageBytes;
    bucket.setRate(this.isFree ? 0 : bytesPerNs);
    this.tokenBytes = tokenBytes;
    bucket.setBurst(Math.max(tokenBytes, backlogBytes));
  }

  /** Takes a token. Returns false if none is due yet. */
  take(nowNs: number): boolean {
    // Grants are also read again if the clock has jumped back.
    if (!(Math.abs(nowNs - this.refreshedNs) < this.periodNs)) this.refresh(nowNs);
    const { bucket } = this;
    bucket.fill(nowNs);
    if (this.tokenBytes === 0) return false;
    if (this.isFree) return true;
    if (bucket.tokens < this.tokenBytes * (1 - 1e-9)) return false;
    bucket.take(this.tokenBytes);
    return true;
  }

  /** When the next token is due or, before the first grants, when they are read again. */
  get readyNs(): number {
    return this.tokenBytes === 0 ? this.refreshedNs + this.periodNs : this.bucket.readyNs(this.tokenBytes);
  }
}
