/**
 * The send queues in host memory: messages that wait, as runs of equal size. The scheduler reads them only while it
 * visits a queue pair.
 */

const NONE = -1;

/** Sizes of packets on the wire, in bytes. */
export interface PacketSizes {
  /** Payload of a full packet. */
  readonly mtuBytes: number;
  readonly headerBytes: number;
  /** Additional headers of the first packet of a message. */
  readonly rethBytes: number;
}

/** Waiting messages of queue pairs, by number. */
export class SendQueues {
  private readonly sizes: PacketSizes;
  private readonly head: Int32Array;
  private readonly tail: Int32Array;
  /** Payload bytes of the first message that were taken. */
  private readonly taken: Float64Array;
  // Runs of messages. Free ones are linked, too.
  private next = new Int32Array(0);
  private messages = new Float64Array(0);
  private bytes = new Float64Array(0);
  private free = NONE;

  constructor(queuePairs: number, sizes: PacketSizes) {
    this.sizes = sizes;
    this.head = new Int32Array(queuePairs).fill(NONE);
    this.tail = new Int32Array(queuePairs).fill(NONE);
    this.taken = new Float64Array(queuePairs);
  }

  isEmpty(qp: number): boolean {
    return this.head[qp] === NONE;
  }

  /** Adds messages of this many bytes each. */
  post(qp: number, messages: number, bytes: number): void {
    if (messages === 0) return;
    const last = this.tail[qp];
    if (last !== NONE && this.bytes[last] === bytes) {
      this.messages[last] += messages;
      return;
    }
    if (this.free === NONE) this.grow();
    const run = this.free;
    this.free = this.next[run];
    this.next[run] = NONE;
    this.messages[run] = messages;
    this.bytes[run] = bytes;
    if (last === NONE) this.head[qp] = run;
    else this.next[last] = run;
    this.tail[qp] = run;
  }

  /** Bytes on the wire of the next packet. */
  packetBytes(qp: number): number {
    const taken = this.taken[qp];
    const payload = Math.min(this.sizes.mtuBytes, this.bytes[this.head[qp]] - taken);
    return payload + this.sizes.headerBytes + (taken === 0 ? this.sizes.rethBytes : 0);
  }

  /** Takes the next packet. */
  takePacket(qp: number): void {
    const run = this.head[qp];
    this.taken[qp] += this.sizes.mtuBytes;
    if (this.taken[qp] < this.bytes[run]) return;
    this.taken[qp] = 0;
    if (--this.messages[run] > 0) return;
    this.head[qp] = this.next[run];
    if (this.head[qp] === NONE) this.tail[qp] = NONE;
    this.next[run] = this.free;
    this.free = run;
  }

  private grow(): void {
    const { next, messages, bytes } = this;
    const used = next.length;
    const size = Math.max(64, 2 * used);
    this.next = Int32Array.from({ length: size }, (_, run) => (run + 1 < size ? run + 1 : NONE));
    this.next.set(next);
    this.messages = new Float64Array(size);
    this.messages.set(messages);
    this.bytes = new Float64Array(size);
    this.bytes.set(bytes);
    this.free = used;
  }
}
