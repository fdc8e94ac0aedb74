/** The packets that leave a device through one of its sockets, with the source port of that socket. */
import { ROCE_PORT } from '../../roce/icrc.ts';
import { ICRC_BYTES } from '../../roce/opcodes.ts';
import { MAX_BATCH, type NativeUdp, ROW_GID, ROW_WORDS } from './native.ts';

/** Room for one packet: the largest MTU, and headers. */
const STRIDE_BYTES = 4096 + 128;

export class SendQueue {
  readonly fd: number;
  readonly sourcePort: number;
  /** Packets at multiples of STRIDE_BYTES, and their rows (native.ts). */
  readonly slab = new Uint8Array(MAX_BATCH * STRIDE_BYTES);
  readonly rows = new Uint32Array(MAX_BATCH * ROW_WORDS);
  readonly gids = new Uint8Array(this.rows.buffer);
  count = 0;
  /** Whether the kernel had no room for all packets. */
  blocked = false;
  private readonly native: NativeUdp;

  constructor(native: NativeUdp, fd: number, sourcePort: number) {
    this.native = native;
    this.fd = fd;
    this.sourcePort = sourcePort;
  }

  get isFull(): boolean {
    return this.count === MAX_BATCH;
  }

  /** Where the next packet is written. */
  get nextAt(): number {
    return this.count * STRIDE_BYTES;
  }

  /** Adds the packet that was written at `nextAt`; it has `bytes` without its ICRC. */
  append(bytes: number, classAndHops: number, gid: Uint8Array): void {
    const row = this.count * ROW_WORDS;
    this.rows[row] = this.count * STRIDE_BYTES;
    this.rows[row + 1] = bytes + ICRC_BYTES;
    this.rows[row + 2] = classAndHops;
    this.gids.set(gid, (row + ROW_GID) * 4);
    this.count++;
  }

  /** Hands the packets of the device with this GID to the kernel, and returns how many it took. */
  hand(gid: Uint8Array): number {
    return this.native.sendUdp(this.fd, this.slab, this.rows, this.count, ROCE_PORT, gid);
  }

  /** How many of the first packets the kernel refused. */
  refused(taken: number): number {
    let refused = 0;
    for (let i = 0; i < taken; i++) if ((this.rows[i * ROW_WORDS + 3] & 0xffff) !== 0) refused++;
    return refused;
  }

  /** Removes the first packets. */
  drop(taken: number): void {
    const { rows, slab, count } = this;
    this.count -= taken;
    if (taken === 0 || this.count === 0) return;
    slab.copyWithin(0, taken * STRIDE_BYTES, count * STRIDE_BYTES);
    rows.copyWithin(0, taken * ROW_WORDS, count * ROW_WORDS);
    for (let i = 0; i < this.count; i++) rows[i * ROW_WORDS] = i * STRIDE_BYTES;
  }
}
