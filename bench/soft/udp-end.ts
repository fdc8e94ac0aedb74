/** One of two UDP sockets, with the system calls that devices use and nothing else. */
import {
  DATAGRAM_BYTES,
  DATAGRAM_PACKETS,
  NO_GID,
  ROW_GID,
  ROW_WORDS,
  requireUdp,
} from '#src/providers/soft/native.ts';
import { gidToBytes } from '#src/verbs/index.ts';
import {
  ADDRESSES,
  type Answer,
  afterSlice,
  LONG_PACKET_BYTES,
  MTU_BYTES,
  measure,
  measureTrips,
  type Order,
  SHORT_PACKET_BYTES,
} from './messages.ts';

const PORT = 4792;
const BATCH = 64;
const BUFFER_BYTES = 8 << 20;

export class UdpEnd {
  private readonly native = requireUdp();
  private readonly fd: number;
  private readonly slab = new Uint8Array(BATCH * DATAGRAM_BYTES);
  private readonly out = new Uint32Array(BATCH * ROW_WORDS);
  private readonly rows = new Uint32Array(BATCH * DATAGRAM_PACKETS * ROW_WORDS);

  constructor(index: number) {
    this.fd = this.native.openUdp(gidToBytes(`::ffff:${ADDRESSES[index]}`), PORT, BUFFER_BYTES, 0);
    const gid = gidToBytes(`::ffff:${ADDRESSES[1 - index]}`);
    for (let i = 0; i < BATCH; i++) {
      this.out[i * ROW_WORDS] = i * DATAGRAM_BYTES;
      new Uint8Array(this.out.buffer).set(gid, (i * ROW_WORDS + ROW_GID) * 4);
    }
  }

  run({ test, measures }: Order): Answer | null {
    if (test === 'pingpong') return this.pingpong(measures);
    const bytes = test === 'write' ? LONG_PACKET_BYTES : SHORT_PACKET_BYTES;
    // The receiver measures: packets for which it has no room are lost.
    if (measures) {
      const answer = measure(() => this.receive(), afterSlice);
      return test === 'write' ? { ...answer, units: answer.units * MTU_BYTES } : answer;
    }
    for (let i = 0; i < BATCH; i++) this.out[i * ROW_WORDS + 1] = bytes;
    return measure(() => this.send(BATCH), afterSlice);
  }

  private send(count: number): number {
    return this.native.sendUdp(this.fd, this.slab, this.out, count, PORT, NO_GID);
  }

  private receive(): number {
    return this.native.receiveUdp(this.fd, this.slab, this.rows, NO_GID);
  }

  private pingpong(measures: boolean): Answer | null {
    this.out[1] = SHORT_PACKET_BYTES;
    while (measures && this.receive() > 0);
    const wait = () => {
      while (this.receive() === 0);
    };
    const answer = measureTrips(() => {
      if (measures) this.send(1);
      wait();
      if (!measures) this.send(1);
    });
    return measures ? answer : null;
  }
}
