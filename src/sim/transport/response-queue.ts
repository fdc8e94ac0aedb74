/** The responses that a responder has pending. */

/** READs and atomics that a responder accepted, and results of atomics, kept for repeated requests. */
export class ResponseQueue {
  readonly size: number;
  readonly kind: Uint8Array;
  readonly psn: Int32Array;
  readonly packets: Int32Array;
  readonly rkey: Int32Array;
  readonly addr: Float64Array;
  readonly length: Float64Array;
  /** The time at which the first payload arrives in the NIC; 0 if at once. */
  readonly payloadNs: Float64Array;
  /** Protection domain of the memory. */
  readonly pd: Int32Array;
  /** Whether it is a repetition of a request executed before. */
  readonly repeated: Uint8Array;
  /** Old values of atomics, two words each. */
  readonly value: Uint32Array;
  head = 0;
  count = 0;
  readonly donePsn: Int32Array;
  readonly doneValue: Uint32Array;
  done = 0;

  constructor(size: number) {
    this.size = size;
    this.kind = new Uint8Array(size);
    this.psn = new Int32Array(size);
    this.packets = new Int32Array(size);
    this.rkey = new Int32Array(size);
    this.addr = new Float64Array(size);
    this.length = new Float64Array(size);
    this.payloadNs = new Float64Array(size);
    this.pd = new Int32Array(size);
    this.repeated = new Uint8Array(size);
    this.value = new Uint32Array(size * 2);
    this.donePsn = new Int32Array(size).fill(-1);
    this.doneValue = new Uint32Array(size * 2);
  }

  /** Copies the queue into one of another size; pending responses always fit. */
  resized(size: number): ResponseQueue {
    const to = new ResponseQueue(Math.max(size, this.count));
    for (; to.count < this.count; to.count++) {
      const from = (this.head + to.count) % this.size;
      for (const field of [
        'kind',
        'psn',
        'packets',
        'rkey',
        'addr',
        'length',
        'payloadNs',
        'pd',
        'repeated',
      ] as const) {
        to[field][to.count] = this[field][from];
      }
      to.value.set(this.value.subarray(from * 2, from * 2 + 2), to.count * 2);
    }
    const kept = Math.min(this.size, to.size);
    for (let back = kept; back > 0; back--) {
      const from = (this.done + 2 * this.size - back) % this.size;
      const slot = kept - back;
      to.donePsn[slot] = this.donePsn[from];
      to.doneValue.set(this.doneValue.subarray(from * 2, from * 2 + 2), slot * 2);
    }
    to.done = to.size === 0 ? 0 : kept % (to.size * 2);
    return to;
  }
}
