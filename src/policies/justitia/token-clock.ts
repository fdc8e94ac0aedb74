/**
 * When this process gives out the tokens of one device: at a rate, or as another process's coordinator hands them out.
 */
import { Bucket } from '../../shim/limits/bucket.ts';
import { Purse } from './purse.ts';

/** Interval at which the clock looks for handed tokens: about that of an event loop's turns, or of a worker's polls. */
const LOOK_NS = 1000;
/** If tokens are long, looks are so far apart that an event loop sleeps in between; a member has one token in advance. */
const SLEEP_NS = 2.5e6;
const LOOKS_PER_TOKEN = 3;

/** Gives out tokens at a rate that changes, or those of a purse while it is open. */
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
  /** Bytes that tokens have stood for per nanosecond, as of the last `set`. */
  bytesPerNs = 0;
  private readonly purse: Purse;
  /** Time of a handed token at the rate. */
  private tokenNs = 0;
  /** When the clock looks for handed tokens again; Infinity: the next token comes from the bucket. */
  private lookNs = Number.POSITIVE_INFINITY;

  /**
   * @param refresh reads the grants, and calls `set`
   * @param periodNs minimum time between calls of `refresh` while tokens are taken
   * @param purse handed tokens; default: none
   */
  constructor(refresh: (nowNs: number) => void, periodNs: number, purse = new Purse([])) {
    this.refresh = refresh;
    this.periodNs = periodNs;
    this.purse = purse;
  }

  /**
   * Sets the rate from now on.
   * @param bytesPerNs Infinity if nothing is paced
   * @param backlogBytes bytes that may be sent at once after a delay, if that is more than a token
   * @param handedBytes bytes of a token that another coordinator hands out, of which `tokenBytes` are a part
   */
  set(
    bytesPerNs: number,
    tokenBytes: number,
    messageBytes: number,
    backlogBytes: number,
    nowNs: number,
    handedBytes = tokenBytes,
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
    this.bytesPerNs = bytesPerNs;
    bucket.setRate(this.isFree ? 0 : bytesPerNs);
    this.tokenBytes = tokenBytes;
    bucket.setBurst(Math.max(tokenBytes, backlogBytes));
    this.tokenNs = handedBytes / bytesPerNs;
    this.purse.refresh(Math.max(tokenBytes, backlogBytes));
  }

  /** Takes a token. Returns false if none is due yet. */
  take(nowNs: number): boolean {
    // Grants are also read again if the clock has jumped back.
    if (!(Math.abs(nowNs - this.refreshedNs) < this.periodNs)) this.refresh(nowNs);
    const { bucket, purse } = this;
    bucket.fill(nowNs);
    this.lookNs = Number.POSITIVE_INFINITY;
    if (this.tokenBytes === 0) return false;
    if (this.isFree) return true;
    if (purse.isOpen) {
      if (purse.take(this.tokenBytes)) return true;
      const partNs = this.tokenNs / LOOKS_PER_TOKEN;
      this.lookNs = nowNs + (partNs >= SLEEP_NS ? partNs : LOOK_NS);
      return false;
    }
    if (bucket.tokens < this.tokenBytes * (1 - 1e-9)) return false;
    bucket.take(this.tokenBytes);
    return true;
  }

  /** Nothing waits for a token. */
  rest(): void {
    if (this.purse.isOpen) this.purse.rest();
  }

  /** When the next token is due or, before the first grants, when they are read again. */
  get readyNs(): number {
    if (this.lookNs < Number.POSITIVE_INFINITY) return this.lookNs;
    return this.tokenBytes === 0 ? this.refreshedNs + this.periodNs : this.bucket.readyNs(this.tokenBytes);
  }
}
