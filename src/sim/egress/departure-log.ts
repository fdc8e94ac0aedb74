/** The packets of a connection as they leave, for figures about pacing and turns. */

/** Numbers per packet. */
const COLUMNS = 5;
const LEFT_NS = 0;
const HOST = 1;
const PSN = 2;
const PAYLOAD_BYTES = 3;
const WIRE_BYTES = 4;

/** A packet of requests or of READ data; acknowledgements are not recorded. */
export interface Departure {
  /** When its last bit has left the port. */
  readonly leftNs: number;
  readonly host: number;
  readonly psn: number;
  readonly payloadBytes: number;
  /** With headers and gap. */
  readonly wireBytes: number;
}

/** What learns of each packet of a queue pair as it leaves (Qp.departures). */
export interface DepartureSink {
  add(leftNs: number, host: number, psn: number, payloadBytes: number, wireBytes: number): void;
}

/** Records the packets of the queue pairs that it is given to. */
export class DepartureLog implements DepartureSink {
  private rows = new Float64Array(1024 * COLUMNS);
  private used = 0;

  add(leftNs: number, host: number, psn: number, payloadBytes: number, wireBytes: number): void {
    if (this.used === this.rows.length) this.grow();
    const { rows, used } = this;
    rows[used + LEFT_NS] = leftNs;
    rows[used + HOST] = host;
    rows[used + PSN] = psn;
    rows[used + PAYLOAD_BYTES] = payloadBytes;
    rows[used + WIRE_BYTES] = wireBytes;
    this.used += COLUMNS;
  }

  private grow(): void {
    const { rows } = this;
    this.rows = new Float64Array(2 * rows.length);
    this.rows.set(rows);
  }

  /** All packets, in the order in which they were put on the wire. */
  list(): Departure[] {
    const { rows, used } = this;
    return Array.from({ length: used / COLUMNS }, (_, i) => {
      const at = i * COLUMNS;
      return {
        leftNs: rows[at + LEFT_NS],
        host: rows[at + HOST],
        psn: rows[at + PSN],
        payloadBytes: rows[at + PAYLOAD_BYTES],
        wireBytes: rows[at + WIRE_BYTES],
      };
    });
  }
}
