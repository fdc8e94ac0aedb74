/** Queue pairs with rates on a link that sends one piece after another, as Tags orders them. */
import { NONE } from '../../../src/policies/kit/run-queue.ts';
import { RateTable } from '../../../src/policies/tassel/rate-table.ts';
import { Tags } from '../../../src/policies/tassel/tags.ts';

/** A link of 100 Gbit/s, in bytes per ns. */
export const LINK_PER_NS = 12.5;
/** A piece of 4096 bytes, with its headers. */
export const PIECE = 4096 + 98;

export const nsPerByte = (gbps: number) => 8 / gbps;

/** What a queue pair has sent. */
export interface Sent {
  bytes: number;
  firstNs: number;
  lastNs: number;
  /** The largest deviation from its rate of the time between two pieces, in ns. */
  gapErrorNs: number;
}

/** The link, and who sends on it. */
export class Rig {
  readonly rates = new RateTable();
  readonly tags: Tags;
  readonly sent: Sent[] = [];
  nowNs = 1000;
  /** Called for each piece. */
  onPiece: (qp: number, nowNs: number) => void = () => {};
  private readonly pieceOf: number[] = [];

  constructor(makeTags: (rates: RateTable) => Tags = (rates) => new Tags(rates, LINK_PER_NS)) {
    this.tags = makeTags(this.rates);
    this.advance();
  }

  private advance(): void {
    this.tags.now[0] = this.nowNs;
    this.tags.advance();
  }

  private next(): number {
    this.tags.now[0] = this.nowNs;
    return this.tags.next();
  }

  /** Adds a queue pair with a rate and an endless message. */
  add(gbps: number, pieceBytes = PIECE): number {
    const qp = this.prepare(gbps, pieceBytes);
    this.join(qp);
    return qp;
  }

  /** Adds a queue pair with nothing to send yet. */
  prepare(gbps: number, pieceBytes = PIECE): number {
    const qp = this.sent.length;
    this.sent.push({ bytes: 0, firstNs: Number.NaN, lastNs: Number.NaN, gapErrorNs: 0 });
    this.pieceOf.push(pieceBytes);
    this.rates.add(qp);
    this.rates.setOwn(qp, nsPerByte(gbps));
    this.rates.fit(qp);
    this.tags.add(qp);
    return qp;
  }

  join(qp: number, wasHeld = false): void {
    this.advance();
    this.tags.join(qp, wasHeld, this.pieceOf[qp]);
  }

  leave(qp: number): void {
    this.advance();
    this.tags.leave(qp);
  }

  /** Changes the rate of a queue pair that has something to send. */
  setRate(qp: number, gbps: number): void {
    const before = this.rates.ownNsOf(qp);
    this.leave(qp);
    this.tags.suspend(qp);
    this.rates.setOwn(qp, nsPerByte(gbps));
    this.rates.fit(qp);
    this.tags.rescale(qp, nsPerByte(gbps) / before);
    this.tags.join(qp, false);
  }

  run(untilNs: number): void {
    const { tags, sent } = this;
    while (this.nowNs < untilNs) {
      const qp = this.next();
      if (qp === NONE) {
        this.nowNs = Math.min(untilNs, tags.wakeNs);
        continue;
      }
      const one = sent[qp];
      const gapNs = this.pieceOf[qp] * this.rates.lowestNsOf(qp);
      if (one.bytes === 0) one.firstNs = this.nowNs;
      else one.gapErrorNs = Math.max(one.gapErrorNs, Math.abs(this.nowNs - one.lastNs - gapNs));
      one.bytes += this.pieceOf[qp];
      one.lastNs = this.nowNs;
      tags.charge(qp, this.pieceOf[qp]);
      this.onPiece(qp, this.nowNs);
      this.nowNs += this.pieceOf[qp] / LINK_PER_NS;
    }
  }

  /** The rate of a queue pair between its first piece and its last, in Gbit/s. */
  gbpsOf(qp: number): number {
    const { bytes, firstNs, lastNs } = this.sent[qp];
    return (8 * (bytes - this.pieceOf[qp])) / (lastNs - firstNs);
  }

  /** Forgets what was sent until now. */
  forget(): void {
    for (const one of this.sent) Object.assign(one, { bytes: 0, firstNs: 0, lastNs: 0, gapErrorNs: 0 });
  }
}
