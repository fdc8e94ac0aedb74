/** The list of tenants as it is sent: there may be thousands, and tools that ask without end. */
import type { Host } from './host.ts';
import { frame } from './protocol.ts';

/** A row has up to two kilobytes, if every letter of its names must be escaped. */
const ROWS_OF_A_FRAME = 30;
/** A list serves for so many times as long as it took to make: the making has a tenth of the core at most. */
const SERVES = 9;

export class Listing {
  private readonly host: Host;
  private readonly nowNs: () => number;
  private made: Buffer[] = [];
  private untilNs = Number.NEGATIVE_INFINITY;

  constructor(host: Host, nowNs: () => number) {
    this.host = host;
    this.nowNs = nowNs;
  }

  /** In as many messages as it needs. */
  frames(): readonly Buffer[] {
    const nowNs = this.nowNs();
    if (nowNs < this.untilNs) return this.made;
    const rows = this.host.tenants();
    this.made = [];
    let at = 0;
    do {
      const some = rows.slice(at, at + ROWS_OF_A_FRAME);
      at += some.length;
      this.made.push(frame({ type: 'tenants', nowNs, rows: some, more: at < rows.length }));
    } while (at < rows.length);
    const endNs = this.nowNs();
    this.untilNs = endNs + SERVES * (endNs - nowNs);
    return this.made;
  }

  /** Something has changed that who asks now wants to see. */
  forget(): void {
    this.untilNs = Number.NEGATIVE_INFINITY;
  }
}
