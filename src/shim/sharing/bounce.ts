/**
 * The receives of all carriers of a protection domain, in one shared receive queue: messages arrive here, and are copied
 * to the receives of the connections that they are for.
 */
import { IBV_ACCESS_LOCAL_WRITE } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';

/** The longest message that carriers take. */
export const BOUNCE_BYTES = 4096;
export const BOUNCES = 256;
const HIGH = 2 ** -32;

export class Bounce {
  readonly srq: number;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  private readonly next: Provider;
  private readonly ring: number;
  private readonly mr: MrInfo;

  /** @throws NoResourcesError, UnsupportedError */
  constructor(next: Provider, pd: number) {
    this.next = next;
    this.mr = next.allocMr(pd, BOUNCES * BOUNCE_BYTES, IBV_ACCESS_LOCAL_WRITE);
    const { memory, byteOffset, addr, lkey } = this.mr;
    this.bytes = new Uint8Array(memory, byteOffset, BOUNCES * BOUNCE_BYTES);
    this.words = new Uint32Array(memory, byteOffset, (BOUNCES * BOUNCE_BYTES) >> 2);
    try {
      this.srq = next.createSrq(pd, { maxWr: BOUNCES, maxSge: 1 }).handle;
    } catch (error) {
      next.deregMr(this.mr.handle);
      throw error;
    }
    const ring = next.createWrRing(BOUNCES, 1, 0);
    this.ring = ring.handle;
    const words = new Uint32Array(ring.memory);
    for (let i = 0; i < BOUNCES; i++) {
      const at = L.slotAt(i);
      const from = addr + i * BOUNCE_BYTES;
      words[at] = i;
      words[at + L.WR_OP] = 1 << 16;
      words[at + L.WR_SGE0] = from;
      words[at + L.WR_SGE0 + L.SGE_HI] = from * HIGH;
      words[at + L.WR_SGE0 + L.SGE_LENGTH] = BOUNCE_BYTES;
      words[at + L.WR_SGE0 + L.SGE_LKEY] = lkey;
    }
    next.postSrqRecv(this.srq, this.ring, 0, BOUNCES);
  }

  /** The message in this buffer has been read: the device may receive another one there. */
  free(buffer: number): void {
    this.next.postSrqRecv(this.srq, this.ring, buffer, 1);
  }

  /** After its queue pairs are destroyed. */
  close(): void {
    this.next.destroySrq(this.srq);
    this.next.destroyRing(this.ring);
    this.next.deregMr(this.mr.handle);
  }
}
